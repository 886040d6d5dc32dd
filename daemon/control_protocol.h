/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket's protocol, shared by larderd and larderctl.
 *
 * A unix stream socket; who may ask what is decided by the peer's kernel credentials. Requests and
 * replies are newline-delimited JSON: one object on one line, UTF-8. A request has at most
 * LARDER_CONTROL_REQUEST_MAX bytes with its newline, a reply LARDER_CONTROL_REPLY_MAX. A connection
 * carries any number of requests; each is answered by exactly one line, in order. Silence longer
 * than LARDER_CONTROL_TIMEOUT_MS ends the connection.
 *
 *	request		{"cmd": NAME}
 *	reply		{"ok": true, "result": {...}}
 *			{"ok": false, "error": SENTENCE, "status": STATUS NAME}
 *
 * STATUS NAME is one of <larder/status.h>: DENIED, UNSUPPORTED (no such command), BAD_REQUEST, ...
 * Unknown members of requests and results are ignored, so that both sides may grow; a member that
 * one side can't tell is left out. Numbers are integers; names end with their unit.
 *
 * cmd		may ask		result
 * "ping"	stats group	{}
 * "stats"	stats group	what struct larder_node_stats says, by groups: version, uptime_ms,
 *		draining, drained (nothing is under way), listen (urls, by commas), then the
 *		objects "memory", "objects", "connections" of figures, and "tenants": for each
 *		tenant's name an object of figures out of the ledger (its place there is "slot"),
 *		with "refused_by", an object with what each limit refused (and "no_space",
 *		"draining", "not_admitted", "layout_mismatch"), and "warning" where there is one:
 *		"puts_never_hit", a thousand objects or more were stored since one was last found.
 * "why"	stats group	what became of a key; the request has "tenant", and "ns" and
 *		"key" as larderctl spells them. "fate": "present", "evicted", "refused" or "unknown"
 *		(not in the record); "record_ms" and "record_entries", how far back the record goes;
 *		evicted: "ago_ms", "age_ms" (not touched for so long), "room_for", the tenant for
 *		whom, left out when room was made ahead of need; refused: "ago_ms", "status".
 *		NOT_FOUND: no such tenant or namespace.
 * "tenants"	stats group	"tenants": an array of objects with "name", "configured" (else it is
 *		left over in the memory), "objects", "value_bytes", "resident_bytes".
 * "connections"	stats group	"connections": an array of the sessions that are open,
 *		oldest first, with "id", "tenant" ("_view" of a viewer), "transport", "peer",
 *		"reactor", "age_ms"; at most 4,000, and "more" of them that are left out.
 * "quota"	stats group	the limits of "tenant" ("_view": of all viewers): for each limit's
 *		name an object with "effective" and, where it has one, "file", "saved" and
 *		"runtime"; the last of these wins. Where limits can be set through a BPF map,
 *		"_map": "pin", its path, and "slot": a limit is element slot * 32 + its number.
 * "quota_set"	admin group	"tenant", "limits": {NAME: integer or null, ...} and "runtime": true
 *		for values that end with the process; else they are saved and outlive it. null takes
 *		back the value that was set so before. {}, or BAD_REQUEST and nothing was changed.
 * "purge"	admin group	"tenant": begins to throw away what a tenant left that is not
 *		configured any more, or tells how far it is: "done", "objects", "bytes". Ask until
 *		it is done.
 * "ledger"	stats group	{}; the reply's first byte carries one descriptor (SCM_RIGHTS): the
 *		ledger's memfd, to be mapped PROT_READ, MAP_SHARED; layout in <larder/ledger.h>.
 *		Where the node counts in BPF maps it is a copy: as of the question, then four times
 *		a second.
 * "drain"	admin group	{}: draining has begun; asking again is harmless.
 * "undrain"	admin group	{}
 * "reload"	admin group	{}, when the files were read and what can change at run time has;
 *		BAD_REQUEST with the file and the mistake otherwise, and nothing was changed.
 *
 * "stats group" includes the admin group; root and the daemon's own user may ask everything.
 */
#ifndef LARDER_CONTROL_PROTOCOL_H
#define LARDER_CONTROL_PROTOCOL_H

#define LARDER_CONTROL_PATH "/run/larder/control.sock"
#define LARDER_CONTROL_REQUEST_MAX 4096u
#define LARDER_CONTROL_REPLY_MAX (1024u * 1024u)
#define LARDER_CONTROL_TIMEOUT_MS 5000u

#define LARDER_CONTROL_PING "ping"
#define LARDER_CONTROL_STATS "stats"
#define LARDER_CONTROL_WHY "why"
#define LARDER_CONTROL_LEDGER "ledger"
#define LARDER_CONTROL_DRAIN "drain"
#define LARDER_CONTROL_UNDRAIN "undrain"
#define LARDER_CONTROL_RELOAD "reload"
#define LARDER_CONTROL_TENANTS "tenants"
#define LARDER_CONTROL_CONNECTIONS "connections"
#define LARDER_CONTROL_QUOTA "quota"
#define LARDER_CONTROL_QUOTA_SET "quota_set"
#define LARDER_CONTROL_PURGE "purge"

#endif
