/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ns: list, create, show, flush.
 *
 * The options of "ns create" are the fields of struct larder_descriptor; one table names them for
 * the command line, for "ns show" and for JSON. Names are spelled as keys are (session_ns_parse).
 */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "ctl/output.h"
#include "ctl/progress.h"
#include "ctl/session.h"

#define NS_OPTION_FIRST 256
#define NS_OPTION_FORCE 400
#define NS_OPTION_SHORT_LAST 401

struct ns_field {
	const char *name;
	size_t offset;
	size_t size;
	bool text;
};

#define NS_FIELD(option, member, is_text)                                                          \
	{ option, offsetof(struct larder_descriptor, member),                                      \
	  sizeof(((struct larder_descriptor *)0)->member), is_text }

static const struct ns_field ns_fields[] = {
	NS_FIELD("model", model, true),
	NS_FIELD("revision", revision, true),
	NS_FIELD("weights-digest", weights_digest, true),
	NS_FIELD("adapter", adapter, true),
	NS_FIELD("position", position, true),
	NS_FIELD("dtype", dtype, true),
	NS_FIELD("layout", layout, true),
	NS_FIELD("hash-scheme", hash_scheme, true),
	NS_FIELD("hash-seed", hash_seed, false),
	NS_FIELD("bytes-per-block", bytes_per_block, false),
	NS_FIELD("tokens-per-block", tokens_per_block, false),
	NS_FIELD("tp", tp, false),
	NS_FIELD("pp", pp, false),
};

static int ns_set_field(struct larder_descriptor *d, const struct ns_field *f, const char *text)
{
	char *at = (char *)d + f->offset;
	size_t len = strlen(text);
	uint64_t v;
	int r;

	if (f->text) {
		if (len > f->size)
			return ctl_usage("ns", "--%s: at most %zu bytes", f->name, f->size);
		memset(at, 0, f->size);
		memcpy(at, text, len);
		return CTL_DONE;
	}
	r = ctl_take_number(f->name, text, 0, f->size == 8 ? UINT64_MAX : UINT32_MAX, &v);
	if (r)
		return r;
	/* the struct is the wire's: little endian as this machine, whose bytes are copied */
	if (f->size == sizeof(uint32_t)) {
		uint32_t narrow = (uint32_t)v;

		memcpy(at, &narrow, sizeof(narrow));
	} else {
		memcpy(at, &v, sizeof(v));
	}
	return CTL_DONE;
}

static uint64_t ns_number(const struct larder_descriptor *d, const struct ns_field *f)
{
	const char *at = (const char *)d + f->offset;
	uint32_t narrow;
	uint64_t v;

	if (f->size == sizeof(narrow)) {
		memcpy(&narrow, at, sizeof(narrow));
		return narrow;
	}
	memcpy(&v, at, sizeof(v));
	return v;
}

/* "weights-digest" is "weights_digest" in JSON, as in the struct. */
static void ns_json_name(const char *name, char out[UTIL_TEXT])
{
	size_t i;

	for (i = 0; name[i] && i < UTIL_TEXT - 1; i++)
		out[i] = name[i] == '-' ? '_' : name[i];
	out[i] = '\0';
}

static int ns_show(struct ctl *ctl, const char *name, const struct larder_descriptor *d)
{
	static const struct table_column columns[] = { { "FIELD", false }, { "VALUE", false } };
	struct table *t = NULL;
	json_t *doc = NULL, *o = NULL;

	if (ctl->json)
		o = json_object();
	else
		t = table_new(columns, ARRAY_SIZE(columns));
	for (size_t i = 0; i < ARRAY_SIZE(ns_fields); i++) {
		const struct ns_field *f = &ns_fields[i];
		char key[UTIL_TEXT], text[129] = "";

		ns_json_name(f->name, key);
		if (f->text)
			memcpy(text, (const char *)d + f->offset, f->size);
		if (o && f->text) {
			json_set_text(o, key, text);
		} else if (o) {
			json_set_u64(o, key, ns_number(d, f));
		} else {
			table_row(t);
			table_cell(t, 0, "%s", key);
			if (f->text)
				table_cell(t, 1, "%s", text);
			else
				table_cell(t, 1, "%" PRIu64, ns_number(d, f));
		}
	}
	if (!o)
		return table_print(t);
	json_set(o, "short_last", json_boolean(d->flags & LARDER_DESCRIPTOR_SHORT_LAST));
	doc = json_object();
	json_set_text(doc, "namespace", name);
	json_set(doc, "descriptor", o);
	return output_json(doc);
}

struct ns_listing {
	struct table *table;
	json_t *list;
	bool failed;
};

static bool ns_list_one(void *user, const struct larder_ns_info *i)
{
	struct ns_listing *l = user;
	char text[UTIL_TEXT], name[SESSION_NS_TEXT_SIZE];
	json_t *o;

	session_ns_format(i->name, name);
	if (!l->list) {
		table_row(l->table);
		table_cell(l->table, 0, "%s", name);
		table_cell(l->table, 1, "%" PRIu64, i->objects);
		table_cell(l->table, 2, "%s", util_format_bytes(i->bytes, text));
		return true;
	}
	o = json_object();
	json_set_text(o, "name", name);
	json_set_u64(o, "id", i->ns);
	json_set_u64(o, "objects", i->objects);
	json_set_u64(o, "bytes", i->bytes);
	json_set_u64(o, "created_ms", i->created_ms);
	l->failed = json_array_append_new(l->list, o) != 0;
	return !l->failed;
}

static int ns_ls(struct ctl *ctl)
{
	static const struct table_column columns[] = {
		{ "NAMESPACE", false }, { "OBJECTS", true }, { "BYTES", true },
	};
	struct ns_listing l = { 0 };
	json_t *doc;
	struct session s;
	int r = session_connect(ctl, "ns ls", &s);

	if (r)
		return r;
	if (ctl->json)
		l.list = json_array();
	else
		l.table = table_new(columns, ARRAY_SIZE(columns));
	r = larder_ns_list(s.client, ns_list_one, &l, ctl->deadline_ms);
	session_close(&s);
	if (!r && l.failed)
		r = -ENOMEM;
	if (r) {
		table_free(l.table);
		json_decref(l.list);
		return ctl_result(r, "ns ls");
	}
	if (!ctl->json)
		return table_print(l.table);
	doc = json_object();
	json_set(doc, "namespaces", l.list);
	return output_json(doc);
}

static int ns_open_and_show(struct ctl *ctl, const char *verb, const char *name,
			    const struct larder_descriptor *d, uint32_t flags)
{
	struct larder_descriptor stored = { 0 };
	char bytes[SESSION_NS_SIZE];
	struct session s;
	uint32_t ns = 0;
	int r = session_ns_parse(verb, name, bytes);

	if (!r)
		r = session_connect(ctl, verb, &s);
	if (r)
		return r;
	r = larder_ns_open(s.client, bytes, d, flags, ctl->deadline_ms, &ns);
	if (!r)
		r = larder_ns_descriptor(s.client, ns, &stored);
	session_close(&s);
	if (r == LARDER_NOT_FOUND)
		return ctl_fail(CTL_NOT_FOUND, "%s %s: no such namespace (NOT_FOUND)", verb, name);
	if (r)
		return ctl_result(r, "%s %s", verb, name);
	return flags && !ctl->json ? CTL_DONE : ns_show(ctl, name, &stored);
}

static int ns_flush(struct ctl *ctl, const char *name, bool force)
{
	uint64_t objects = 0, bytes = 0;
	struct progress_watch watch;
	char text[UTIL_TEXT], bytes_of_name[SESSION_NS_SIZE];
	struct session s;
	json_t *doc;
	uint32_t ns = 0;
	int r = session_ns_parse("ns flush", name, bytes_of_name);

	if (!r)
		r = session_connect(ctl, "ns flush", &s);
	if (r)
		return r;
	progress_watch_begin(&watch, "ns flush");
	r = larder_ns_open(s.client, bytes_of_name, NULL, 0, ctl->deadline_ms, &ns);
	if (!r)
		r = larder_ns_flush(s.client, ns, force, ctl->deadline_ms, &objects, &bytes);
	progress_watch_end(&watch);
	session_close(&s);
	if (r == LARDER_NOT_FOUND)
		return ctl_fail(CTL_NOT_FOUND, "ns flush %s: no such namespace (NOT_FOUND)", name);
	if (r)
		return ctl_result(r, "ns flush %s", name);
	if (!ctl->json) {
		printf("%s: %" PRIu64 " objects, %s\n", name, objects,
		       util_format_bytes(bytes, text));
		return output_end();
	}
	doc = json_object();
	json_set_text(doc, "namespace", name);
	json_set_u64(doc, "objects", objects);
	json_set_u64(doc, "bytes", bytes);
	return output_json(doc);
}

/* The options of all verbs; *@described: a field of the descriptor was among them. */
static int ns_options(struct ctl *ctl, int argc, char **argv, struct larder_descriptor *d,
		      bool *described, bool *force)
{
	struct option own[ARRAY_SIZE(ns_fields) + 3] = { 0 };
	size_t i;
	int c;

	for (i = 0; i < ARRAY_SIZE(ns_fields); i++)
		own[i] = (struct option){ ns_fields[i].name, required_argument, NULL,
					  NS_OPTION_FIRST + (int)i };
	own[i++] = (struct option){ "force", no_argument, NULL, NS_OPTION_FORCE };
	own[i] = (struct option){ "short-last", no_argument, NULL, NS_OPTION_SHORT_LAST };
	while ((c = ctl_getopt(ctl, argc, argv, "", own)) != -1) {
		if (c == '?')
			return CTL_USAGE;
		if (c == NS_OPTION_FORCE) {
			*force = true;
			continue;
		}
		*described = true;
		if (c == NS_OPTION_SHORT_LAST)
			d->flags |= LARDER_DESCRIPTOR_SHORT_LAST;
		else if (ns_set_field(d, &ns_fields[c - NS_OPTION_FIRST], optarg))
			return CTL_USAGE;
	}
	return CTL_DONE;
}

int cmd_ns(struct ctl *ctl, int argc, char **argv)
{
	static const char *const verbs[] = { "ls", "create", "show", "flush", NULL };
	enum { NS_LS, NS_CREATE, NS_SHOW, NS_FLUSH };
	struct larder_descriptor d = { 0 };
	bool described = false, force = false;
	const char *name;
	int verb = NS_LS;

	if (ns_options(ctl, argc, argv, &d, &described, &force))
		return CTL_USAGE;
	if (ctl->help)
		return ctl_help(ctl_command_find("ns"));
	if (optind < argc && ctl_take_word("ns", argv[optind++], verbs, &verb))
		return CTL_USAGE;
	if ((described && verb != NS_CREATE) || (force && verb != NS_FLUSH))
		return ctl_usage("ns", "an option that %s does not take", verbs[verb]);
	if (verb == NS_LS)
		return optind == argc ? ns_ls(ctl) : ctl_usage("ns", "ls takes no argument");
	if (argc - optind != 1)
		return ctl_usage("ns", "%s: wanted one NAME", verbs[verb]);
	name = argv[optind];
	if (verb == NS_FLUSH)
		return ns_flush(ctl, name, force);
	if (verb == NS_SHOW)
		return ns_open_and_show(ctl, "ns show", name, NULL, 0);
	return ns_open_and_show(ctl, "ns create", name, described ? &d : NULL, LARDER_NS_CREATE);
}
