/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rm: one key is deleted at once. Several, or all that begin with a prefix, are looked at first:
 * how many there are and how large is told, and somebody has to agree (ctl_confirm).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl/confirm.h"
#include "ctl/output.h"
#include "ctl/progress.h"
#include "ctl/session.h"

#define RM_BATCH 512u
#define RM_PAGE 1000u

/* What goes; each key with a batch item of its own. */
struct rm {
	struct session_key *keys;	/* as they were spelled; of a prefix: not used */
	struct larder_item *items;
	uint32_t n, room;
	uint64_t objects, bytes;	/* found before, and then deleted */
	uint64_t kept;			/* of a prefix: leased or pinned */
	bool of_prefix;
	bool failed;			/* no memory */
};

static void rm_done(struct rm *rm)
{
	for (uint32_t i = 0; rm->of_prefix && i < rm->n; i++)
		free((void *)rm->items[i].key);
	free(rm->keys);
	free(rm->items);
}

static int rm_parse(int argc, char **argv, struct rm *rm)
{
	if (optind >= argc)
		return ctl_usage("rm", "wanted KEY... or --prefix PREFIX");
	rm->n = (uint32_t)(argc - optind);
	rm->keys = calloc(rm->n, sizeof(*rm->keys));
	rm->items = calloc(rm->n, sizeof(*rm->items));
	if (!rm->keys || !rm->items)
		return ctl_fail(CTL_FAILED, "rm: %s", strerror(ENOMEM));
	for (uint32_t i = 0; i < rm->n; i++) {
		int r = session_key_parse("rm", argv[optind + (int)i], false, &rm->keys[i]);

		if (r)
			return r;
	}
	return CTL_DONE;
}

/* --- keys ----------------------------------------------------------------------------------- */

/* How much the keys are. What is not there is told when it is to be deleted. */
static int rm_look_at_keys(struct ctl *ctl, const struct session *s, struct rm *rm)
{
	for (uint32_t i = 0; i < rm->n; i++) {
		struct larder_item item = { 0 };
		int r = session_run_one(s, ctl, LARDER_OP_STAT, 0, &rm->keys[i], &item);

		if (r && r != LARDER_NOT_FOUND)
			return ctl_result(r, "rm %s", rm->keys[i].text);
		rm->objects += !r;
		rm->bytes += r ? 0 : item.stat.size_bytes;
	}
	return CTL_DONE;
}

static int rm_delete_keys(struct ctl *ctl, const struct session *s, uint32_t flags, struct rm *rm)
{
	int worst = CTL_DONE;

	for (uint32_t i = 0; i < rm->n; i++) {
		struct larder_item *item = &rm->items[i];
		int r = session_run_one(s, ctl, LARDER_OP_DELETE, flags, &rm->keys[i], item);

		if (r) {
			item->status = r > 0 ? r : LARDER_INTERNAL;
			worst = MAX(worst, ctl_result(r, "rm %s", rm->keys[i].text));
		}
		if (r < 0 || r == LARDER_DISCONNECTED) {
			/* what wasn't asked is not said to be gone */
			for (; i < rm->n; i++)
				rm->items[i].status = r > 0 ? r : LARDER_INTERNAL;
		}
	}
	return worst;
}

static int rm_tell_keys(const struct rm *rm)
{
	json_t *doc = json_object(), *list = json_array();

	for (uint32_t i = 0; i < rm->n; i++) {
		json_t *o = json_object();

		json_set_text(o, "key", rm->keys[i].text);
		json_set_text(o, "status", larder_status_name(rm->items[i].status));
		if (json_array_append_new(list, o))
			json_set(doc, "keys", NULL);
	}
	json_set(doc, "keys", list);
	return output_json(doc);
}

/* --- a prefix ------------------------------------------------------------------------------- */

static bool rm_found(void *user, const void *key, size_t key_len, const struct larder_stat *st)
{
	struct rm *rm = user;
	struct larder_item *item;
	void *copy = malloc(key_len);

	if (rm->n == rm->room) {
		uint32_t room = rm->room ? 2 * rm->room : RM_PAGE;
		struct larder_item *items = realloc(rm->items, room * sizeof(*items));

		if (items) {
			rm->items = items;
			rm->room = room;
		}
	}
	if (!copy || rm->n == rm->room) {
		free(copy);
		rm->failed = true;
		return false;
	}
	memcpy(copy, key, key_len);
	item = &rm->items[rm->n++];
	*item = (struct larder_item){ .key = copy, .key_len = key_len,
				      .length = st->size_bytes };
	rm->objects++;
	rm->bytes += st->size_bytes;
	return true;
}

static int rm_look_at_prefix(struct ctl *ctl, const struct session *s,
			     const struct session_key *prefix, struct rm *rm)
{
	struct progress progress;
	uint64_t cursor = 0;
	int r;

	rm->of_prefix = true;
	progress_begin(&progress, "rm: looking", 0);
	do {
		r = larder_list(s->client, s->ns, prefix->bytes, prefix->len, &cursor, RM_PAGE,
				rm_found, rm, ctl->deadline_ms);
		progress_step(&progress, rm->n);
	} while (!r && !rm->failed && cursor);
	progress_end(&progress);
	if (!r && rm->failed)
		r = -ENOMEM;
	if (r)
		return ctl_result(r, "rm --prefix %s", prefix->text);
	if (!rm->n)
		return ctl_fail(CTL_NOT_FOUND, "rm --prefix %s: no key begins with it",
				prefix->text);
	return CTL_DONE;
}

static int rm_delete_prefix(struct ctl *ctl, const struct session *s, uint32_t flags,
			    struct rm *rm)
{
	struct progress progress;
	int worst = CTL_DONE;

	rm->objects = rm->bytes = 0;
	progress_begin(&progress, "rm", rm->n);
	for (uint32_t at = 0; at < rm->n; at += RM_BATCH) {
		struct larder_batch b = {
			.opcode = LARDER_OP_DELETE, .ns = s->ns, .flags = flags,
			.deadline_ms = ctl->deadline_ms, .items = rm->items + at,
			.n_items = MIN(rm->n - at, RM_BATCH),
		};
		int r = larder_run(s->client, &b);

		for (uint32_t i = 0; i < b.n_items; i++) {
			rm->objects += b.items[i].status == LARDER_OK;
			rm->bytes += b.items[i].status == LARDER_OK ? b.items[i].length : 0;
			rm->kept += b.items[i].status == LARDER_BUSY;
		}
		/* gone meanwhile is as good; kept is told once, for all */
		if (r && r != LARDER_NOT_FOUND && r != LARDER_BUSY) {
			progress_end(&progress);
			return ctl_result(r, "rm: after %" PRIu64 " objects", rm->objects);
		}
		progress_step(&progress, at + b.n_items);
	}
	progress_end(&progress);
	if (rm->kept)
		worst = ctl_fail(CTL_REFUSED, "rm: %" PRIu64 " are leased or pinned and stay: "
				 "--force takes them too (BUSY)", rm->kept);
	return worst;
}

static int rm_tell_prefix(struct ctl *ctl, const struct rm *rm)
{
	char text[UTIL_TEXT];
	json_t *doc;

	if (!ctl->json) {
		printf("%" PRIu64 " objects, %s\n", rm->objects,
		       util_format_bytes(rm->bytes, text));
		return output_end();
	}
	doc = json_object();
	json_set_u64(doc, "objects", rm->objects);
	json_set_u64(doc, "bytes", rm->bytes);
	json_set_u64(doc, "kept", rm->kept);
	return output_json(doc);
}

/* --- the command ---------------------------------------------------------------------------- */

static int rm_keys(struct ctl *ctl, const struct session *s, uint32_t flags, bool yes,
		   struct rm *rm)
{
	int code = CTL_DONE, told;

	if (rm->n > 1) {
		code = rm_look_at_keys(ctl, s, rm);
		if (!code)
			code = ctl_confirm("rm", rm->objects, rm->bytes, yes);
		if (code)
			return code;
	}
	code = rm_delete_keys(ctl, s, flags, rm);
	told = ctl->json ? rm_tell_keys(rm) : CTL_DONE;
	return MAX(code, told);
}

static int rm_prefix(struct ctl *ctl, const struct session *s, const struct session_key *prefix,
		     uint32_t flags, bool yes, struct rm *rm)
{
	int code = rm_look_at_prefix(ctl, s, prefix, rm), told;

	if (!code)
		code = ctl_confirm("rm", rm->objects, rm->bytes, yes);
	if (code)
		return code;
	code = rm_delete_prefix(ctl, s, flags, rm);
	told = rm_tell_prefix(ctl, rm);
	return MAX(code, told);
}

int cmd_rm(struct ctl *ctl, int argc, char **argv)
{
	static const struct option own[] = {
		{ "force", no_argument, NULL, 'f' },
		{ "prefix", required_argument, NULL, 'p' },
		{ "yes", no_argument, NULL, 'y' },
		{ 0 },
	};
	__attribute__((cleanup(rm_done))) struct rm rm = { 0 };
	struct session_key prefix = { .text = NULL };
	uint32_t flags = 0;
	bool yes = false;
	struct session s;
	int c, code;

	while ((c = ctl_getopt(ctl, argc, argv, "fy", own)) != -1) {
		if (c == '?')
			return CTL_USAGE;
		if (c == 'f')
			flags = LARDER_F_FORCE;
		else if (c == 'y')
			yes = true;
		else if (session_key_parse("rm", optarg, true, &prefix))
			return CTL_USAGE;
	}
	if (ctl->help)
		return ctl_help(ctl_command_find("rm"));
	if (prefix.text && optind < argc)
		return ctl_usage("rm", "either keys or --prefix");
	code = prefix.text ? CTL_DONE : rm_parse(argc, argv, &rm);
	if (!code)
		code = session_open(ctl, "rm", SESSION_NS_DEFAULT, false, &s);
	if (code)
		return code;
	code = prefix.text ? rm_prefix(ctl, &s, &prefix, flags, yes, &rm)
			   : rm_keys(ctl, &s, flags, yes, &rm);
	session_close(&s);
	return code;
}
