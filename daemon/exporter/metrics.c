/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One family after the other, as the format wants them; within a family one line a tenant. Tenants
 * are the ledger's rows, so there are never more than 64, and those past them are "_other".
 */
#include "metrics.h"

#include <inttypes.h>
#include <string.h>

#include <larder/limits.h>
#include <larder/status.h>

struct metrics_tenant {
	char name[40 * 2];	/* escaped */
	uint32_t slot;
	struct larder_usage usage;
	struct larder_gauges gauges;
};

struct metrics {
	FILE *f;
	unsigned n;
	struct metrics_tenant tenant[LARDER_LEDGER_TENANTS];
};

static void metrics_family(FILE *f, const char *name, const char *type, const char *help)
{
	fprintf(f, "# HELP larder_%s %s\n# TYPE larder_%s %s\n", name, help, name, type);
}

/* --- one number a tenant, by its place in the struct ----------------------------------------- */

struct metrics_field {
	const char *name, *help;
	size_t offset;
};

static uint64_t metrics_word(const void *s, size_t offset)
{
	uint64_t v;

	memcpy(&v, (const char *)s + offset, sizeof(v));
	return v;
}

#define U(field) offsetof(struct larder_usage, field)
static const struct metrics_field metrics_usage[] = {
	{ "get_hits_total", "GETs that found their object.", U(get_hits) },
	{ "get_hit_bytes_total", "Bytes of the objects that GETs found.", U(get_hit_bytes) },
	{ "exists_keys_total", "Keys that were looked up with EXISTS.", U(exists_keys) },
	{ "exists_present_keys_total", "Of them, those that were there.", U(exists_present) },
	{ "leading_run_keys_total", "Keys in the leading runs of EXISTS.", U(leading_run_keys) },
	{ "puts_stored_total", "PUTs that stored something.", U(put_new) },
	{ "evicted_objects_total", "Objects that went for want of room.", U(evicted_objects) },
	{ "evicted_bytes_total", "Bytes of objects that went for want of room.",
	  U(evicted_bytes) },
	{ "expired_objects_total", "Objects that went by their ttl.", U(expired_objects) },
	{ "checksum_errors_total", "Values whose bytes did not match their checks.",
	  U(checksum_errors) },
	{ "layout_mismatches_total", "Namespaces opened with another descriptor.",
	  U(layout_mismatches) },
	{ "puts_not_admitted_total", "PUTs that the namespace's admission refused.",
	  U(put_not_admitted) },
	{ "fills_total", "Fill leases given.", U(fills) },
	{ "fills_lapsed_total", "Fill leases whose time ran out or whose owner left.",
	  U(fills_lapsed) },
	{ "fills_refused_total", "Fill leases not given, because there are many.",
	  U(fills_refused) },
	{ "waits_refused_total", "Requests told BUSY instead of waiting, because many wait.",
	  U(waits_refused) },
};
#undef U

#define G(field) offsetof(struct larder_gauges, field)
static const struct metrics_field metrics_gauges[] = {
	{ "resident_bytes", "Memory that a tenant's objects hold, in whole pages.",
	  G(resident_bytes) },
	{ "value_bytes", "Lengths of a tenant's values.", G(value_bytes) },
	{ "objects", "Objects of a tenant.", G(objects) },
	{ "pinned_bytes", "Values that are pinned hard.", G(pinned_bytes) },
	{ "leased_bytes", "Values that are leased.", G(leased_bytes) },
	{ "leases", "Leases held.", G(leases) },
	{ "namespaces", "Namespaces of a tenant.", G(namespaces) },
	{ "connections", "Open sessions.", G(connections) },
	{ "regions", "Registered regions.", G(regions) },
	{ "region_bytes", "Bytes of registered regions.", G(region_bytes) },
	{ "fills_held", "Fill leases held.", G(fills) },
	{ "waiting_requests", "Requests parked for another writer.", G(waiting) },
};
#undef G

static void metrics_fields(const struct metrics *m, const char *type,
			   const struct metrics_field *fields, size_t n, bool of_usage)
{
	for (size_t i = 0; i < n; i++) {
		metrics_family(m->f, fields[i].name, type, fields[i].help);
		for (unsigned t = 0; t < m->n; t++) {
			const struct metrics_tenant *x = &m->tenant[t];
			const void *from = of_usage ? (const void *)&x->usage : &x->gauges;

			fprintf(m->f, "larder_%s{tenant=\"%s\"} %" PRIu64 "\n", fields[i].name,
				x->name, metrics_word(from, fields[i].offset));
		}
	}
}

/* --- arrays by a number that has a name ------------------------------------------------------ */

struct metrics_array {
	const char *family, *help, *label;
	size_t offset;		/* in struct larder_usage */
	unsigned n;
	const char *(*name)(unsigned i);	/* NULL: no such number */
};

static const char *metrics_op(unsigned op)
{
	static const char *const names[LARDER_OP_MAX] = {
#define OP(name, text) [LARDER_OP_##name] = text
		OP(HELLO, "hello"), OP(AUTH, "auth"), OP(PING, "ping"), OP(CANCEL, "cancel"),
		OP(NS_CREATE, "ns_create"), OP(NS_OPEN, "ns_open"), OP(NS_LIST, "ns_list"),
		OP(NS_FLUSH, "ns_flush"), OP(NS_RETIRE, "ns_retire"),
		OP(REGION_ADD, "region_add"), OP(REGION_DEL, "region_del"), OP(PUT, "put"),
		OP(PUT_BEGIN, "put_begin"), OP(PUT_PART, "put_part"),
		OP(PUT_COMMIT, "put_commit"), OP(PUT_ABORT, "put_abort"), OP(GET, "get"),
		OP(EXISTS, "exists"), OP(LEASE, "lease"), OP(RELEASE, "release"), OP(PIN, "pin"),
		OP(UNPIN, "unpin"), OP(STAT, "stat"), OP(LIST, "list"), OP(DELETE, "delete"),
#undef OP
	};

	return names[op];
}

static const char *metrics_status(unsigned status)
{
	return status < LARDER_STATUS_COUNT ? larder_status_name((int)status) : NULL;
}

static const char *metrics_limit(unsigned limit)
{
	return limit < LARDER_LIMITS ? larder_limit_name(limit) : NULL;
}

static const char *metrics_age(unsigned age)
{
	static const char *const below[LARDER_LEDGER_AGES] = {
		"1", "4", "16", "64", "256", "1024", "4096", "16384", "65536", "+Inf",
	};

	return below[age];
}

#define U(field) offsetof(struct larder_usage, field)
static const struct metrics_array metrics_arrays[] = {
	{ "operations_total", "Finished operations.", "operation", U(ops), LARDER_OP_MAX,
	  metrics_op },
	{ "results_total", "Finished operations by how they ended.", "status", U(status), 32,
	  metrics_status },
	{ "payload_bytes_total", "Payload, each byte once, by why it moved.", "cause", U(bytes),
	  LARDER_CAUSES, larder_cause_name },
	{ "refused_total", "Requests (of leases keys) that a limit refused.", "limit", U(refused),
	  LARDER_LEDGER_LIMITS, metrics_limit },
	{ "evictions_by_age_total", "Evictions by the time since the last touch, below so many "
	  "seconds.", "age_below", U(evicted_age), LARDER_LEDGER_AGES, metrics_age },
};
#undef U

/* What never happened to anybody is left out, as a series that begins at its first count is. */
static bool metrics_seen(const struct metrics *m, size_t offset)
{
	for (unsigned t = 0; t < m->n; t++)
		if (metrics_word(&m->tenant[t].usage, offset))
			return true;
	return false;
}

static void metrics_array(const struct metrics *m, const struct metrics_array *a)
{
	metrics_family(m->f, a->family, "counter", a->help);
	for (unsigned i = 0; i < a->n; i++) {
		size_t offset = a->offset + i * sizeof(uint64_t);

		if (!a->name(i) || !metrics_seen(m, offset))
			continue;
		for (unsigned t = 0; t < m->n; t++)
			fprintf(m->f, "larder_%s{tenant=\"%s\",%s=\"%s\"} %" PRIu64 "\n", a->family,
				m->tenant[t].name, a->label, a->name(i),
				metrics_word(&m->tenant[t].usage, offset));
	}
}

static void metrics_in_flight(const struct metrics *m)
{
	metrics_family(m->f, "in_flight_requests", "gauge", "Requests under way, by class.");
	for (unsigned t = 0; t < m->n; t++) {
		const struct larder_gauges *g = &m->tenant[t].gauges;
		const struct {
			const char *class;
			uint64_t n;
		} all[] = { { "lookup", g->in_flight_lookup }, { "fetch", g->in_flight_fetch },
			    { "write", g->in_flight_write } };

		for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
			fprintf(m->f, "larder_in_flight_requests{tenant=\"%s\",class=\"%s\"} %"
				PRIu64 "\n", m->tenant[t].name, all[i].class, all[i].n);
	}
}

static void metrics_limits(const struct metrics *m, const struct ledger_reader *l)
{
	metrics_family(m->f, "limit", "gauge", "Limits in force, in the unit that each has.");
	for (unsigned t = 0; t < m->n; t++) {
		uint64_t effective[LARDER_LEDGER_LIMITS];

		ledger_reader_limits(l, m->tenant[t].slot, effective);
		for (unsigned i = 0; i < LARDER_LIMITS; i++)
			if (effective[i])
				fprintf(m->f, "larder_limit{tenant=\"%s\",limit=\"%s\"} %" PRIu64
					"\n", m->tenant[t].name, larder_limit_name(i),
					effective[i]);
	}
}

/* --- the node -------------------------------------------------------------------------------- */

static void metrics_one(FILE *f, const char *name, const char *type, const char *help, uint64_t v)
{
	metrics_family(f, name, type, help);
	fprintf(f, "larder_%s %" PRIu64 "\n", name, v);
}

static void metrics_one_seconds(FILE *f, const char *name, const char *help, uint64_t ns)
{
	metrics_family(f, name, "gauge", help);
	fprintf(f, "larder_%s ", name);
	metrics_seconds(f, ns);
	fputc('\n', f);
}

static void metrics_node(FILE *f, const struct ledger_reader *l, uint64_t now_ns)
{
	struct larder_node_section n;

	ledger_reader_node(l, &n);
	metrics_one_seconds(f, "start_time_seconds", "When the node started, since 1970.",
			    n.start_time_ms * 1000000);
	metrics_one_seconds(f, "heartbeat_age_seconds", "Time since a reactor last turned.",
			    now_ns > n.heartbeat_ns ? now_ns - n.heartbeat_ns : 0);
	metrics_one(f, "memory_bytes", "gauge", "Value memory of the node.",
		    n.pages * n.page_size_bytes);
	metrics_one(f, "memory_free_bytes", "gauge", "Of it, what holds no value.",
		    n.pages_free * n.page_size_bytes);
	metrics_one(f, "records", "gauge", "Record slots.", n.records);
	metrics_one(f, "records_free", "gauge", "Record slots that are free.", n.records_free);
	metrics_one(f, "draining", "gauge", "1 while the node drains.", n.draining);
	metrics_one(f, "node_connections", "gauge", "Connections, with those not authenticated.",
		    n.connections);
	metrics_one(f, "rejected_connections_total", "counter", "Connections not taken.",
		    n.rejected_connections);
	metrics_one(f, "protocol_errors_total", "counter", "Sessions ended for what they sent.",
		    n.protocol_errors);
	metrics_one(f, "auth_failures_total", "counter", "Proofs of identity that were wrong.",
		    n.auth_failures);
	metrics_one(f, "peers_expired_total", "counter", "Sessions ended for silence or a stall.",
		    n.peers_expired);
	metrics_one(f, "late_turns_total", "counter", "Turns of a reactor over a second late.",
		    n.gaps);
	metrics_one(f, "rebuilt_objects", "gauge", "Objects that the last start found.",
		    n.rebuilt_objects);
	metrics_one(f, "dropped_records", "gauge", "Records that the last start could not use.",
		    n.dropped_records);
	metrics_one(f, "quarantined_values_total", "counter", "Values whose bytes went bad.",
		    n.quarantined);
	metrics_one(f, "region_faults_total", "counter", "Regions of clients that had holes.",
		    n.sigbus);
	metrics_one(f, "scrubbed_bytes_total", "counter", "Bytes that the scrubber looked at.",
		    n.scrubbed_bytes);
	metrics_one(f, "limits_written_total", "counter", "Limits set through the BPF map.",
		    n.limits_written);
	metrics_one(f, "limits_refused_total", "counter", "What was written there and can not be.",
		    n.limits_refused);
}

/* --- all of it ------------------------------------------------------------------------------- */

/* A name is another process' word: whatever it is, it stays inside its quotes. */
static void metrics_escape(char to[80], const char name[40])
{
	for (; *name; name++) {
		unsigned char c = (unsigned char)*name;

		if (c == '\\' || c == '"')
			*to++ = '\\';
		*to++ = c < 0x20 || c > 0x7e ? '?' : (char)c;
	}
	*to = '\0';
}

static void metrics_read(struct metrics *m, const struct ledger_reader *l)
{
	for (uint32_t slot = 0; slot < LARDER_LEDGER_TENANTS; slot++) {
		struct metrics_tenant *t = &m->tenant[m->n];
		char name[40];

		ledger_reader_name(l, slot, name);
		if (!name[0])
			continue;
		metrics_escape(t->name, name);
		t->slot = slot;
		ledger_reader_usage(l, slot, &t->usage);
		ledger_reader_gauges(l, slot, &t->gauges);
		m->n++;
	}
}

void metrics_print(FILE *f, const struct ledger_reader *l, uint64_t now_ns)
{
	struct metrics m = { .f = f };
	struct larder_latency latency;

	metrics_one(f, "up", "gauge", "1 when the node gave its ledger.", l != NULL);
	if (!l)
		return;
	metrics_read(&m, l);
	for (size_t i = 0; i < sizeof(metrics_arrays) / sizeof(metrics_arrays[0]); i++)
		metrics_array(&m, &metrics_arrays[i]);
	metrics_fields(&m, "counter", metrics_usage,
		       sizeof(metrics_usage) / sizeof(metrics_usage[0]), true);
	metrics_fields(&m, "gauge", metrics_gauges,
		       sizeof(metrics_gauges) / sizeof(metrics_gauges[0]), false);
	metrics_in_flight(&m);
	metrics_limits(&m, l);
	ledger_reader_latency(l, &latency);
	metrics_latency(f, &latency);
	metrics_node(f, l, now_ns);
}
