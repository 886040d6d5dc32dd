/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ns: list, create, show, flush, retire.
 *
 * The options of "ns create" are the fields of struct larder_descriptor; one table names them for
 * the command line, for "ns show" and for JSON. Names are spelled as keys are (session_ns_parse).
 */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "ctl/confirm.h"
#include "ctl/output.h"
#include "ctl/progress.h"
#include "ctl/session.h"

#define NS_OPTION_FIRST 256
#define NS_OPTION_FORCE 400
#define NS_OPTION_SHORT_LAST 401
#define NS_OPTION_ADMISSION 402
#define NS_OPTION_YES 403

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

static const char *ns_admission(const struct larder_ns_info *i)
{
	return i->flags & LARDER_NS_SECOND_TOUCH ? "second-touch" : "all";
}

static const char *ns_access(const struct larder_ns_info *i)
{
	return i->flags & LARDER_NS_READ_ONLY ? "read-only" : "own";
}

static json_t *ns_descriptor_json(const struct larder_descriptor *d)
{
	json_t *o = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(ns_fields); i++) {
		const struct ns_field *f = &ns_fields[i];
		char key[UTIL_TEXT], text[129] = "";

		ns_json_name(f->name, key);
		if (f->text)
			memcpy(text, (const char *)d + f->offset, f->size);
		if (f->text)
			json_set_text(o, key, text);
		else
			json_set_u64(o, key, ns_number(d, f));
	}
	json_set(o, "short_last", json_boolean(d->flags & LARDER_DESCRIPTOR_SHORT_LAST));
	return o;
}

static int ns_show_json(const char *name, const struct larder_descriptor *d,
			const struct larder_ns_info *info)
{
	json_t *doc = json_object();

	json_set_text(doc, "namespace", name);
	json_set_u64(doc, "id", info->ns);
	json_set_u64(doc, "objects", info->objects);
	json_set_u64(doc, "bytes", info->bytes);
	json_set_u64(doc, "created_ms", info->created_ms);
	json_set_text(doc, "admission", ns_admission(info));
	json_set_text(doc, "access", ns_access(info));
	json_set(doc, "descriptor", ns_descriptor_json(d));
	return output_json(doc);
}

static void ns_row(struct table *t, const char *name, const char *value)
{
	table_row(t);
	table_cell(t, 0, "%s", name);
	table_cell(t, 1, "%s", value);
}

static int ns_show(const struct larder_descriptor *d, const struct larder_ns_info *info)
{
	static const struct table_column columns[] = { { "FIELD", false }, { "VALUE", false } };
	struct table *t = table_new(columns, ARRAY_SIZE(columns));
	char text[129];

	for (size_t i = 0; i < ARRAY_SIZE(ns_fields); i++) {
		const struct ns_field *f = &ns_fields[i];
		char key[UTIL_TEXT];

		ns_json_name(f->name, key);
		memset(text, 0, sizeof(text));
		if (f->text)
			memcpy(text, (const char *)d + f->offset, f->size);
		else
			(void)snprintf(text, sizeof(text), "%" PRIu64, ns_number(d, f));
		ns_row(t, key, text);
	}
	ns_row(t, "short_last", d->flags & LARDER_DESCRIPTOR_SHORT_LAST ? "yes" : "no");
	(void)snprintf(text, sizeof(text), "%" PRIu64, info->objects);
	ns_row(t, "objects", text);
	ns_row(t, "bytes", util_format_bytes(info->bytes, text));
	ns_row(t, "admission", ns_admission(info));
	ns_row(t, "access", ns_access(info));
	return table_print(t);
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
	json_set_text(o, "admission", ns_admission(i));
	json_set_text(o, "access", ns_access(i));
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

/* Looks for the namespace that was just opened, so its id is the node's own. */
static bool ns_find_one(void *user, const struct larder_ns_info *i)
{
	struct larder_ns_info *wanted = user;

	if (i->ns != wanted->ns)
		return true;
	*wanted = *i;
	return false;
}

/* Opens by its spelling and asks what is in it. The exit code; a fault was told. */
static int ns_open(struct ctl *ctl, const char *verb, const char *name,
		   const struct larder_descriptor *d, uint32_t flags, struct session *s,
		   struct larder_ns_info *info)
{
	char bytes[SESSION_NS_SIZE];
	int r = session_ns_parse(verb, name, bytes);

	if (!r)
		r = session_connect(ctl, verb, s);
	if (r)
		return r;
	*info = (struct larder_ns_info){ 0 };
	r = larder_ns_open(s->client, bytes, d, flags, ctl->deadline_ms, &info->ns);
	if (!r)
		r = larder_ns_list(s->client, ns_find_one, info, ctl->deadline_ms);
	if (!r)
		return CTL_DONE;
	session_close(s);
	if (r == LARDER_NOT_FOUND)
		return ctl_fail(CTL_NOT_FOUND, "%s %s: no such namespace (NOT_FOUND)", verb, name);
	return ctl_result(r, "%s %s", verb, name);
}

static int ns_open_and_show(struct ctl *ctl, const char *verb, const char *name,
			    const struct larder_descriptor *d, uint32_t flags)
{
	struct larder_descriptor stored = { 0 };
	struct larder_ns_info info;
	struct session s;
	int r = ns_open(ctl, verb, name, d, flags, &s, &info);

	if (r)
		return r;
	r = larder_ns_descriptor(s.client, info.ns, &stored);
	session_close(&s);
	if (r)
		return ctl_result(r, "%s %s", verb, name);
	if (ctl->json)
		return ns_show_json(name, &stored, &info);
	return flags ? CTL_DONE : ns_show(&stored, &info);
}

/* flush and retire: what would go is told first. */
static int ns_empty(struct ctl *ctl, const char *verb, const char *name, bool retire, bool force,
		    bool yes)
{
	uint64_t objects = 0, bytes = 0;
	struct progress_watch watch;
	struct larder_ns_info info;
	char text[UTIL_TEXT], what[SESSION_NS_TEXT_SIZE + UTIL_TEXT];
	struct session s;
	json_t *doc;
	int r = ns_open(ctl, verb, name, NULL, 0, &s, &info);

	if (r)
		return r;
	(void)snprintf(what, sizeof(what), "%s %s", verb, name);
	r = ctl_confirm(what, info.objects, info.bytes, yes);
	if (r) {
		session_close(&s);
		return r;
	}
	progress_watch_begin(&watch, verb);
	r = (retire ? larder_ns_retire : larder_ns_flush)(s.client, info.ns, force,
							  ctl->deadline_ms, &objects, &bytes);
	progress_watch_end(&watch);
	session_close(&s);
	if (r)
		return ctl_result(r, "%s", what);
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

struct ns_options {
	struct larder_descriptor d;
	bool described;		/* a field of the descriptor was among them */
	uint32_t admission;	/* LARDER_NS_ADMIT_ALL or SECOND_TOUCH; 0: not said */
	bool force, yes;
};

static int ns_take_admission(const char *text, uint32_t *ret)
{
	static const char *const words[] = { "all", "second-touch", NULL };
	int which;

	if (ctl_take_word("--admission", text, words, &which))
		return CTL_USAGE;
	*ret = which ? LARDER_NS_SECOND_TOUCH : LARDER_NS_ADMIT_ALL;
	return CTL_DONE;
}

static int ns_take_option(int c, struct ns_options *o)
{
	switch (c) {
	case NS_OPTION_FORCE:
		o->force = true;
		return CTL_DONE;
	case NS_OPTION_YES:
		o->yes = true;
		return CTL_DONE;
	case NS_OPTION_ADMISSION:
		return ns_take_admission(optarg, &o->admission);
	case NS_OPTION_SHORT_LAST:
		o->described = true;
		o->d.flags |= LARDER_DESCRIPTOR_SHORT_LAST;
		return CTL_DONE;
	default:
		o->described = true;
		return ns_set_field(&o->d, &ns_fields[c - NS_OPTION_FIRST], optarg);
	}
}

/* The options of all verbs. */
static int ns_options(struct ctl *ctl, int argc, char **argv, struct ns_options *o)
{
	static const struct option more[] = {
		{ "force", no_argument, NULL, NS_OPTION_FORCE },
		{ "yes", no_argument, NULL, NS_OPTION_YES },
		{ "short-last", no_argument, NULL, NS_OPTION_SHORT_LAST },
		{ "admission", required_argument, NULL, NS_OPTION_ADMISSION },
	};
	struct option own[ARRAY_SIZE(ns_fields) + ARRAY_SIZE(more) + 1] = { 0 };
	int c;

	for (size_t i = 0; i < ARRAY_SIZE(ns_fields); i++)
		own[i] = (struct option){ ns_fields[i].name, required_argument, NULL,
					  NS_OPTION_FIRST + (int)i };
	memcpy(own + ARRAY_SIZE(ns_fields), more, sizeof(more));
	while ((c = ctl_getopt(ctl, argc, argv, "y", own)) != -1)
		if (c == '?' || ns_take_option(c == 'y' ? NS_OPTION_YES : c, o))
			return CTL_USAGE;
	return CTL_DONE;
}

int cmd_ns(struct ctl *ctl, int argc, char **argv)
{
	static const char *const verbs[] = { "ls", "create", "show", "flush", "retire", NULL };
	enum { NS_LS, NS_CREATE, NS_SHOW, NS_FLUSH, NS_RETIRE };
	struct ns_options o = { 0 };
	const char *name;
	int verb = NS_LS;

	if (ns_options(ctl, argc, argv, &o))
		return CTL_USAGE;
	if (ctl->help)
		return ctl_help(ctl_command_find("ns"));
	if (optind < argc && ctl_take_word("ns", argv[optind++], verbs, &verb))
		return CTL_USAGE;
	if (((o.described || o.admission) && verb != NS_CREATE) ||
	    ((o.force || o.yes) && verb != NS_FLUSH && verb != NS_RETIRE))
		return ctl_usage("ns", "an option that %s does not take", verbs[verb]);
	if (verb == NS_LS)
		return optind == argc ? ns_ls(ctl) : ctl_usage("ns", "ls takes no argument");
	if (argc - optind != 1)
		return ctl_usage("ns", "%s: wanted one NAME", verbs[verb]);
	name = argv[optind];
	if (verb == NS_FLUSH)
		return ns_empty(ctl, "ns flush", name, false, o.force, o.yes);
	if (verb == NS_RETIRE)
		return ns_empty(ctl, "ns retire", name, true, o.force, o.yes);
	if (verb == NS_SHOW)
		return ns_open_and_show(ctl, "ns show", name, NULL, 0);
	return ns_open_and_show(ctl, "ns create", name, o.described ? &o.d : NULL,
				LARDER_NS_CREATE | o.admission);
}
