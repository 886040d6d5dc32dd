/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exists, stat, ls, pin, unpin: objects, without their bytes.
 *
 * Several keys: each gets its line; the exit code is the highest of their codes, so that "not
 * found" is 1 only when nothing worse happened.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ctl/output.h"
#include "ctl/progress.h"
#include "ctl/session.h"

#define LS_PAGE 1000u

/* Keys of a command line, and one batch item for each. */
struct object_keys {
	struct session_key *keys;
	struct larder_item *items;
	uint32_t n;
	bool asked;		/* the node was asked: each item has its status */
};

static void object_keys_done(struct object_keys *k)
{
	free(k->keys);
	free(k->items);
}

static int object_keys_parse(const char *what, int argc, char **argv, bool whole,
			     struct object_keys *k)
{
	if (optind >= argc)
		return ctl_usage(what, "wanted KEY...");
	k->n = (uint32_t)(argc - optind);
	k->keys = calloc(k->n, sizeof(*k->keys));
	k->items = calloc(k->n, sizeof(*k->items));
	if (!k->keys || !k->items)
		return ctl_fail(CTL_FAILED, "%s: %s", what, strerror(ENOMEM));
	for (uint32_t i = 0; i < k->n; i++) {
		int r = session_key_parse(what, argv[optind + (int)i], whole, &k->keys[i]);

		if (r)
			return r;
		k->items[i].key = k->keys[i].bytes;
		k->items[i].key_len = k->keys[i].len;
	}
	return CTL_DONE;
}

/* Opens, runs @opcode on each key (alone, since BY_HASH is a batch's flag), closes. */
static int object_keys_run(struct ctl *ctl, const char *what, uint8_t opcode, uint32_t flags,
			   struct object_keys *k)
{
	struct session s;
	int worst = session_open(ctl, what, SESSION_NS_DEFAULT, false, &s);

	if (worst)
		return worst;
	k->asked = true;
	for (uint32_t i = 0; i < k->n; i++) {
		struct larder_item *item = &k->items[i];
		int r = session_run_one(&s, ctl, opcode, flags, &k->keys[i], item);

		if (r && r != LARDER_EXISTS_SAME) {
			item->status = r > 0 ? r : LARDER_INTERNAL;
			worst = MAX(worst, ctl_result(r, "%s %s", what, k->keys[i].text));
		}
		if (r < 0 || r == LARDER_DISCONNECTED) {
			/* what wasn't asked is not said to be there */
			for (; i < k->n; i++)
				k->items[i].status = r > 0 ? r : LARDER_INTERNAL;
		}
	}
	session_close(&s);
	return worst;
}

static json_t *object_json(const struct session_key *key, const struct larder_item *item)
{
	json_t *o = json_object();

	json_set_text(o, "key", key->text);
	json_set_text(o, "status", larder_status_name(item->status));
	return o;
}

static const char *object_presence(const struct larder_item *item)
{
	static const char *const names[] = { "absent", "present", "leased", "filling" };

	return item->presence < ARRAY_SIZE(names) ? names[item->presence] : "?";
}

static int exists_tell(struct ctl *ctl, const struct object_keys *k, uint32_t leading_run)
{
	static const struct table_column columns[] = { { "KEY", false }, { "PRESENCE", false } };
	struct table *t = NULL;
	json_t *doc = NULL, *list = NULL;
	int code = CTL_DONE, r;

	if (ctl->json) {
		doc = json_object();
		list = json_array();
	} else {
		t = table_new(columns, ARRAY_SIZE(columns));
	}
	for (uint32_t i = 0; i < k->n; i++) {
		const char *presence = object_presence(&k->items[i]);
		bool there = k->items[i].presence == LARDER_PRESENT ||
			     k->items[i].presence == LARDER_LEASED;

		if (!there)
			code = CTL_NOT_FOUND;
		if (ctl->json) {
			json_t *o = json_object();

			json_set_text(o, "key", k->keys[i].text);
			json_set(o, "present", json_boolean(there));
			json_set_text(o, "presence", presence);
			if (json_array_append_new(list, o))
				json_set(doc, "keys", NULL);
			continue;
		}
		table_row(t);
		table_cell(t, 0, "%s", k->keys[i].text);
		table_cell(t, 1, "%s", presence);
	}
	if (ctl->json) {
		json_set_u64(doc, "leading_run", leading_run);
		json_set(doc, "keys", list);
		r = output_json(doc);
	} else {
		r = table_print(t);
	}
	return r ? r : code;
}

int cmd_exists(struct ctl *ctl, int argc, char **argv)
{
	__attribute__((cleanup(object_keys_done))) struct object_keys k = { 0 };
	struct larder_batch batch = { .opcode = LARDER_OP_EXISTS };
	struct session s;
	int r;

	if (ctl_getopt(ctl, argc, argv, "", NULL) != -1)
		return CTL_USAGE;
	if (ctl->help)
		return ctl_help(ctl_command_find("exists"));
	r = object_keys_parse("exists", argc, argv, true, &k);
	if (!r)
		r = session_open(ctl, "exists", SESSION_NS_DEFAULT, false, &s);
	if (r)
		return r;
	batch.ns = s.ns;
	batch.deadline_ms = ctl->deadline_ms;
	batch.items = k.items;
	batch.n_items = k.n;
	r = session_run(&s, "exists", &batch);
	session_close(&s);
	/* an absent key is an answer here, not a failure */
	if (r && r != LARDER_NOT_FOUND)
		return ctl_result(r, "exists %s", k.keys[0].text);
	return exists_tell(ctl, &k, batch.leading_run);
}

static void stat_json(json_t *o, const struct larder_stat *st)
{
	json_set_u64(o, "size_bytes", st->size_bytes);
	json_set_u64(o, "commit_time_ms", st->commit_time_ms);
	json_set_u64(o, "age_ms", st->age_ms);
	json_set_u64(o, "hits", st->hits);
	json_set_u64(o, "lease_ms", st->lease_ms);
	json_set_u64(o, "soft_pins", st->pins & 0xffff);
	json_set_u64(o, "hard_pins", st->pins >> 16);
	json_set_u64(o, "runs", st->runs);
	json_set_u64(o, "tier", st->tier);
	json_set_u64(o, "inode", st->inode);
	json_set_u64(o, "crc32c", st->crc32c);
	json_set(o, "digest", json_sprintf("%016" PRIx64, st->digest));
	json_set(o, "checked_by_node", json_boolean(st->flags & LARDER_F_CHECKED_BY_NODE));
}

static void stat_time(uint64_t ms, char *text, size_t size)
{
	time_t seconds = (time_t)(ms / 1000);
	struct tm tm;

	if (!localtime_r(&seconds, &tm) || !strftime(text, size, "%F %T", &tm))
		(void)snprintf(text, size, "%" PRIu64, ms);
}

static const struct table_column stat_columns[] = {
	{ "KEY", false }, { "SIZE", true }, { "AGE", true }, { "HITS", true },
	{ "LEASE", true }, { "PINS", true }, { "COMMITTED", false }, { "CRC32C", true },
};

static void stat_row(struct table *t, const char *key, const struct larder_stat *st)
{
	char size[UTIL_TEXT], age[UTIL_TEXT], lease[UTIL_TEXT], when[UTIL_TEXT];

	stat_time(st->commit_time_ms, when, sizeof(when));
	table_row(t);
	table_cell(t, 0, "%s", key);
	table_cell(t, 1, "%s", util_format_bytes(st->size_bytes, size));
	table_cell(t, 2, "%s", util_format_ns(st->age_ms * NSEC_PER_MSEC, age));
	table_cell(t, 3, "%" PRIu32, st->hits);
	table_cell(t, 4, "%s", st->lease_ms ? util_format_ns(st->lease_ms * NSEC_PER_MSEC, lease)
					    : "-");
	table_cell(t, 5, "%" PRIu32 "/%" PRIu32, st->pins & 0xffff, st->pins >> 16);
	table_cell(t, 6, "%s", when);
	table_cell(t, 7, "%08" PRIx32, st->crc32c);
}

static int stat_tell(struct ctl *ctl, const struct object_keys *k)
{
	struct table *t = NULL;
	json_t *doc = NULL, *list = NULL;
	uint32_t found = 0;

	if (ctl->json) {
		doc = json_object();
		list = json_array();
	} else {
		t = table_new(stat_columns, ARRAY_SIZE(stat_columns));
	}
	for (uint32_t i = 0; i < k->n; i++) {
		bool there = k->items[i].status == LARDER_OK;

		found += there;
		if (ctl->json) {
			json_t *o = object_json(&k->keys[i], &k->items[i]);

			if (there)
				stat_json(o, &k->items[i].stat);
			if (json_array_append_new(list, o))
				json_set(doc, "keys", NULL);
		} else if (there) {
			stat_row(t, k->keys[i].text, &k->items[i].stat);
		}
	}
	if (ctl->json) {
		json_set(doc, "keys", list);
		return output_json(doc);
	}
	if (!found) {
		table_free(t);
		return CTL_DONE;
	}
	return table_print(t);
}

int cmd_stat(struct ctl *ctl, int argc, char **argv)
{
	__attribute__((cleanup(object_keys_done))) struct object_keys k = { 0 };
	int r, code;

	if (ctl_getopt(ctl, argc, argv, "", NULL) != -1)
		return CTL_USAGE;
	if (ctl->help)
		return ctl_help(ctl_command_find("stat"));
	r = object_keys_parse("stat", argc, argv, false, &k);
	if (r)
		return r;
	code = object_keys_run(ctl, "stat", LARDER_OP_STAT, 0, &k);
	if (!k.asked)
		return code;
	r = stat_tell(ctl, &k);
	return MAX(r, code);
}

/* A command that does one thing to each key and has one option of its own, @own[0]. */
struct object_change {
	const char *name;
	uint8_t opcode;
	bool whole;		/* takes no hash for a key */
	const char *letter;	/* short form of the option, for getopt */
	struct option own[2];
	uint32_t flag;		/* what it sets */
};

static int object_change(struct ctl *ctl, const struct object_change *what, int argc, char **argv)
{
	__attribute__((cleanup(object_keys_done))) struct object_keys k = { 0 };
	json_t *doc, *list;
	uint32_t flags = 0;
	int c, code;

	while ((c = ctl_getopt(ctl, argc, argv, what->letter, what->own)) != -1) {
		if (c == '?')
			return CTL_USAGE;
		flags = what->flag;
	}
	if (ctl->help)
		return ctl_help(ctl_command_find(what->name));
	code = object_keys_parse(what->name, argc, argv, what->whole, &k);
	if (code)
		return code;
	code = object_keys_run(ctl, what->name, what->opcode, flags, &k);
	if (!ctl->json || !k.asked)
		return code;
	doc = json_object();
	list = json_array();
	for (uint32_t i = 0; i < k.n; i++)
		if (json_array_append_new(list, object_json(&k.keys[i], &k.items[i])))
			json_set(doc, "keys", NULL);
	json_set(doc, "keys", list);
	c = output_json(doc);
	return MAX(c, code);
}

int cmd_pin(struct ctl *ctl, int argc, char **argv)
{
	static const struct object_change what = {
		"pin", LARDER_OP_PIN, true, "",
		{ { "hard", no_argument, NULL, 256 }, { 0 } }, LARDER_F_HARD,
	};

	return object_change(ctl, &what, argc, argv);
}

int cmd_unpin(struct ctl *ctl, int argc, char **argv)
{
	static const struct object_change what = {
		"unpin", LARDER_OP_UNPIN, true, "",
		{ { "hard", no_argument, NULL, 256 }, { 0 } }, LARDER_F_HARD,
	};

	return object_change(ctl, &what, argc, argv);
}

struct ls_state {
	struct table *table;
	json_t *list;
	bool names;		/* one spelling a line, nothing else */
	bool failed;
	uint64_t n;
};

static bool ls_one(void *user, const void *key, size_t key_len, const struct larder_stat *st)
{
	struct ls_state *ls = user;
	char text[LARDER_KEY_TEXT_SIZE];

	if (larder_key_format(key, key_len, text, sizeof(text)) < 0) {
		ls->failed = true;
		return false;
	}
	ls->n++;
	if (ls->list) {
		json_t *o = json_object();

		json_set_text(o, "key", text);
		stat_json(o, st);
		if (json_array_append_new(ls->list, o)) {
			ls->failed = true;
			return false;
		}
	} else if (ls->names) {
		puts(text);
	} else {
		stat_row(ls->table, text, st);
	}
	return true;
}

static int ls_tell(struct ls_state *ls, const struct session *s)
{
	json_t *doc;

	if (ls->names)
		return output_end();
	if (!ls->list) {
		if (ls->n)
			return table_print(TAKE_PTR(ls->table));
		return CTL_DONE;
	}
	doc = json_object();
	json_set_text(doc, "namespace", s->ns_name);
	json_set_u64(doc, "count", ls->n);
	json_set(doc, "objects", TAKE_PTR(ls->list));
	return output_json(doc);
}

static int ls_run(struct ctl *ctl, const struct session *s, const struct session_key *prefix,
		  bool names)
{
	struct ls_state ls = { .names = names && !ctl->json };
	struct progress progress;
	uint64_t cursor = 0;
	int r;

	if (ctl->json)
		ls.list = json_array();
	else if (!names)
		ls.table = table_new(stat_columns, ARRAY_SIZE(stat_columns));
	progress_begin(&progress, "ls", 0);
	/* names are printed as they come: they show the progress themselves */
	progress.terminal = progress.terminal && !ls.names;
	do {
		r = larder_list(s->client, s->ns, prefix->bytes, prefix->len, &cursor, LS_PAGE,
				ls_one, &ls, ctl->deadline_ms);
		progress_step(&progress, ls.n);
	} while (!r && !ls.failed && cursor);
	progress_end(&progress);
	if (!r && ls.failed)
		r = -ENOMEM;
	r = r ? ctl_result(r, "ls %s", prefix->text) : ls_tell(&ls, s);
	table_free(ls.table);
	json_decref(ls.list);
	return r;
}

int cmd_ls(struct ctl *ctl, int argc, char **argv)
{
	static const struct option own[] = { { "names", no_argument, NULL, '1' }, { 0 } };
	struct session_key prefix = { .text = "" };
	bool names = false;
	struct session s;
	int c, r;

	while ((c = ctl_getopt(ctl, argc, argv, "1", own)) != -1) {
		if (c == '?')
			return CTL_USAGE;
		names = true;
	}
	if (ctl->help)
		return ctl_help(ctl_command_find("ls"));
	if (argc - optind > 1)
		return ctl_usage("ls", "wanted at most one PREFIX");
	if (optind < argc) {
		r = session_key_parse("ls", argv[optind], true, &prefix);
		if (r)
			return r;
	}
	r = session_open(ctl, "ls", SESSION_NS_DEFAULT, false, &s);
	if (r)
		return r;
	r = ls_run(ctl, &s, &prefix, names);
	session_close(&s);
	return r;
}
