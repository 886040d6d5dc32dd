/* SPDX-License-Identifier: Apache-2.0 */
/* Namespaces over the wire: descriptors, sharing, retirement, admission. */
#include "speak.h"

static int peer_ns_admit(struct peer *p, uint8_t op, const char *name, uint32_t admission)
{
	struct wire_ns_open o = { .name_len = (uint16_t)strlen(name), .admission = admission };
	struct draft d;

	draft_begin(&d);
	wire_append(&d.w, &o, sizeof(o));
	wire_append(&d.w, name, o.name_len);
	draft_finish(&d, p, op, 0);
	peer_write(p, d.buffer, d.length);
	return peer_status(p);
}

static int peer_flush(struct peer *p, uint8_t op, uint32_t ns, uint32_t flags)
{
	const struct wire_ns_flush f = { .ns = ns, .flags = flags };

	peer_request(p, op, &f, sizeof(f));
	return peer_status(p);
}

/* The text of the last refusal. */
static void peer_expect_text(struct peer *p, const char *part)
{
	char text[512];

	assert_true(p->reply.is_error && p->reply.tail_len < sizeof(text));
	memcpy(text, p->reply.tail, p->reply.tail_len);
	text[p->reply.tail_len] = '\0';
	if (!strstr(text, part))
		fail_msg("\"%s\" does not say \"%s\"", text, part);
}

/* Names that a listing shows, joined; each with its flags. */
static void peer_list_names(struct peer *p, char *out, size_t size)
{
	const struct wire_ns_list l = { 0 };
	struct wire_ns_entry e;
	const uint8_t *name;
	uint32_t pos = 0;
	size_t at = 0;

	peer_request(p, LARDER_OP_NS_LIST, &l, sizeof(l));
	assert_int_equal(peer_status(p), LARDER_OK);
	out[0] = '\0';
	while (wire_ns_entry_next(&p->reply, &pos, &e, &name) == 1) {
		at += (size_t)snprintf(out + at, size - at, "%.*s/%u ", (int)e.name_len, name,
				       e.flags);
		assert_true(at < size);
	}
}

static const struct larder_usage *usage(struct rig *r, const char *tenant)
{
	const struct larder_ledger_header *h;
	const struct larder_ledger_name *names;
	int fd = larder_node_ledger_fd(r->node);
	static struct larder_usage sum;
	size_t size = 0;
	char *map;

	assert_true(fd >= 0);
	h = mmap(NULL, sizeof(*h), PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(h, MAP_FAILED);
	for (int i = 0; i < LARDER_SECTIONS; i++)
		size = MAX(size, h->section[i].offset + h->section[i].size);
	map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	names = (const void *)(map + h->section[LARDER_SECTION_NAMES].offset);
	for (uint32_t i = 0; i < h->tenants; i++)
		if (!strcmp(names[i].tenant, tenant))	/* the only reactor is writer 0 */
			sum = ((const struct larder_usage *)
			       (map + h->section[LARDER_SECTION_USAGE].offset))[i];
	(void)munmap(map, size);
	(void)munmap((void *)h, sizeof(*h));
	(void)close(fd);
	return &sum;
}

/* --- descriptors -------------------------------------------------------------------------- */

#define FIELD(f) { #f, offsetof(struct larder_descriptor, f) }
static const struct {
	const char *name;
	size_t offset;
} fields[] = {
	FIELD(model), FIELD(revision), FIELD(weights_digest), FIELD(adapter), FIELD(position),
	FIELD(dtype), FIELD(layout), FIELD(hash_scheme), FIELD(hash_seed), FIELD(bytes_per_block),
	FIELD(tokens_per_block), FIELD(tp), FIELD(pp), FIELD(flags),
};

static void P10_mismatch__is_named_and_counted(void **state)
{
	const struct larder_descriptor d = { .model = "llama", .tokens_per_block = 16 };
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	uint32_t n = 0, ns = UINT32_MAX;
	char names[128];

	assert_int_equal(peer_ns(p, LARDER_OP_NS_CREATE, "m", &d, NULL), LARDER_OK);
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		struct larder_descriptor other = d;

		((uint8_t *)&other)[fields[i].offset] ^= 0x20;
		assert_int_equal(peer_ns(p, LARDER_OP_NS_OPEN, "m", &other, &ns),
				 LARDER_LAYOUT_MISMATCH);
		peer_expect_text(p, fields[i].name);
		assert_int_equal(p->reply.tail_len, strlen(fields[i].name));
		assert_int_equal(peer_ns(p, LARDER_OP_NS_CREATE, "m", &other, &ns),
				 LARDER_LAYOUT_MISMATCH);
		assert_int_equal(ns, UINT32_MAX);
		n += 2;
		assert_int_equal(usage(r, "demo")->layout_mismatches, n);
	}
	peer_list_names(p, names, sizeof(names));
	assert_string_equal(names, "m/0 ");
	assert_int_equal(peer_ns(p, LARDER_OP_NS_OPEN, "m", NULL, NULL), LARDER_OK);
	assert_memory_equal(&p->reply.u.ns_opened.descriptor, &d, sizeof(d));
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

static void P10_put__of_another_length_says_both(void **state)
{
	struct larder_descriptor d = { .bytes_per_block = 5000,
				       .flags = LARDER_DESCRIPTOR_SHORT_LAST };
	const struct wire_put begin = { .length = 5001, .key_len = 1 };
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	struct wire_put b = begin;
	struct draft q;
	uint32_t ns = 0;

	assert_int_equal(peer_ns(p, LARDER_OP_NS_CREATE, "m", &d, &ns), LARDER_OK);
	assert_int_equal(peer_put_key(p, ns, "k", 6000), LARDER_BAD_REQUEST);
	peer_expect_text(p, "6000");
	peer_expect_text(p, "5000 or less");
	assert_int_equal(peer_put_key(p, ns, "k", 4000), LARDER_OK);
	assert_int_equal(peer_put_key(p, ns, "l", 5000), LARDER_OK);
	b.c.ns = ns;
	draft_begin(&q);
	wire_append(&q.w, &b, sizeof(b));
	wire_append(&q.w, "k", 1);
	draft_finish(&q, p, LARDER_OP_PUT_BEGIN, 0);
	peer_write(p, q.buffer, q.length);
	assert_int_equal(peer_status(p), LARDER_BAD_REQUEST);
	peer_expect_text(p, "5001");
	assert_int_equal(peer_ping(p), LARDER_OK);	/* and the connection goes on */
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

/* --- sharing ------------------------------------------------------------------------------ */

static void P9_shared__is_there_for_reading_only(void **state)
{
	static const char *const key[] = { "k" };
	const struct larder_share share = { .ns = "m", .ns_len = 1, .reader = "other" };
	struct larder_descriptor d = { .model = "else" };
	struct rig *r = rig_start();
	struct peer *a = peer_login(r), *b = peer_login_as(r, "other", "tom");
	uint32_t ns = peer_open_ns(a), seen = 0;
	char names[128], none[WIRE_MESSAGE_MAX];
	uint32_t none_len;

	assert_int_equal(peer_put_key(a, ns, "k", 5000), LARDER_OK);
	assert_int_equal(peer_ns(b, LARDER_OP_NS_OPEN, "demo:x", NULL, NULL), LARDER_NOT_FOUND);
	none_len = b->h.body_len;
	memcpy(none, b->message, none_len);
	assert_int_equal(peer_ns(b, LARDER_OP_NS_OPEN, "demo:m", NULL, NULL), LARDER_NOT_FOUND);
	assert_int_equal(b->h.body_len, none_len);
	assert_memory_equal(b->message, none, none_len);
	assert_int_equal(peer_ns(b, LARDER_OP_NS_CREATE, "demo:m", NULL, NULL), LARDER_NOT_FOUND);

	assert_int_equal(larder_node_set_shares(r->node, "demo", &share, 1), 0);
	assert_int_equal(peer_ns(b, LARDER_OP_NS_OPEN, "demo:m", NULL, &seen), LARDER_OK);
	assert_int_equal(seen, ns);
	assert_int_equal(b->reply.u.ns_opened.flags, WIRE_NS_READ_ONLY);
	assert_int_equal(peer_ns(b, LARDER_OP_NS_OPEN, "demo:m", &d, NULL),
			 LARDER_LAYOUT_MISMATCH);
	assert_int_equal(peer_ns(b, LARDER_OP_NS_OPEN, "demo:x", NULL, NULL), LARDER_NOT_FOUND);
	assert_int_equal(peer_ns(b, LARDER_OP_NS_CREATE, "demo:m", NULL, NULL), LARDER_DENIED);
	peer_list_names(b, names, sizeof(names));
	assert_string_equal(names, "demo:m/4 ");
	assert_int_equal(peer_get(b, ns, "k", 5000), LARDER_OK);
	peer_check_value(b, "k", 5000);
	assert_int_equal(peer_keys(b, LARDER_OP_EXISTS, ns, LARDER_F_LEASE, 9, 1000, key, 1),
			 LARDER_OK);
	assert_int_equal(peer_key_status(b, 0).presence, LARDER_LEASED);
	assert_int_equal(peer_keys(b, LARDER_OP_LEASE, ns, 0, 9, 1000, key, 1), LARDER_OK);
	assert_int_equal(peer_keys(b, LARDER_OP_RELEASE, ns, 0, 9, 0, key, 1), LARDER_OK);
	assert_int_equal(peer_put_key(b, ns, "k2", 100), LARDER_DENIED);
	assert_int_equal(peer_keys(b, LARDER_OP_DELETE, ns, LARDER_F_FORCE, 0, 0, key, 1),
			 LARDER_DENIED);
	assert_int_equal(peer_flush(b, LARDER_OP_NS_FLUSH, ns, LARDER_F_FORCE), LARDER_DENIED);
	assert_int_equal(peer_flush(b, LARDER_OP_NS_RETIRE, ns, LARDER_F_FORCE), LARDER_DENIED);

	assert_int_equal(larder_node_set_shares(r->node, "demo", NULL, 0), 0);
	assert_int_equal(peer_get(b, ns, "k", 5000), LARDER_NOT_FOUND);
	assert_int_equal(peer_put_key(b, ns, "k2", 100), LARDER_NOT_FOUND);
	assert_int_equal(peer_flush(b, LARDER_OP_NS_RETIRE, ns, 0), LARDER_NOT_FOUND);
	assert_int_equal(peer_ns(b, LARDER_OP_NS_OPEN, "demo:m", NULL, NULL), LARDER_NOT_FOUND);
	peer_list_names(b, names, sizeof(names));
	assert_string_equal(names, "");
	peer_close(a);
	peer_close(b);
	rig_check_released(r);
	rig_stop(r);
}

/* Either side may come later; the end of the tenant ends it. */
static void P9_shared__by_name_before_either_side_is_there(void **state)
{
	const struct larder_share shares[] = {
		{ .ns = "m", .ns_len = 1, .reader = "late" },
		{ .ns = "m", .ns_len = 1, .reader = "demo" },	/* itself: no matter */
		{ .ns = "n", .ns_len = 1, .reader = "other" },
	};
	struct larder_share bad = { .ns = "m", .ns_len = 0, .reader = "late" };
	struct rig *r = rig_start();
	struct peer *a = peer_login(r), *b;
	uint32_t ns = 0;

	assert_int_equal(larder_node_set_shares(r->node, "nobody", shares, 3), -ENOENT);
	assert_int_equal(larder_node_set_shares(r->node, "demo", shares, 3), 0);
	assert_int_equal(larder_node_set_shares(r->node, "demo", &bad, 1), -EINVAL);
	bad.ns_len = 1;
	bad.reader = "No";
	assert_int_equal(larder_node_set_shares(r->node, "demo", &bad, 1), -EINVAL);
	ns = peer_open_ns(a);
	assert_int_equal(peer_put_key(a, ns, "k", 50), LARDER_OK);
	assert_int_equal(larder_node_tenant_add(r->node, "late", "l", 1, NULL, 0), 0);
	b = peer_login_as(r, "late", "l");
	assert_int_equal(peer_ns(b, LARDER_OP_NS_OPEN, "demo:m", NULL, NULL), LARDER_OK);
	assert_int_equal(peer_get(b, ns, "k", 50), LARDER_OK);
	assert_int_equal(larder_node_tenant_remove(r->node, "demo"), 0);
	assert_int_equal(peer_get(b, ns, "k", 50), LARDER_NOT_FOUND);
	/* back, and nothing is shared until that is said again */
	assert_int_equal(larder_node_tenant_add(r->node, "demo", "x", 1, NULL, 0), 0);
	assert_int_equal(peer_get(b, ns, "k", 50), LARDER_NOT_FOUND);
	assert_int_equal(larder_node_set_shares(r->node, "demo", shares, 3), 0);
	assert_int_equal(peer_get(b, ns, "k", 50), LARDER_OK);
	peer_close(b);
	peer_expect_closed(a);
	peer_close(a);
	rig_check_released(r);
	rig_stop(r);
}

/* --- retirement --------------------------------------------------------------------------- */

static void retire__flushes_and_forgets(void **state)
{
	static const char *const key[] = { "k" };
	struct rig *r = rig_start();
	struct peer *p = peer_login(r), *w = peer_login(r);
	uint32_t ns = peer_open_ns(p), next;
	char names[64];

	assert_int_equal(peer_put_key(p, ns, "k", 100), LARDER_OK);
	assert_int_equal(peer_put_key(p, ns, "l", 200), LARDER_OK);
	assert_int_equal(peer_keys(p, LARDER_OP_LEASE, ns, 0, 1, 60000, key, 1), LARDER_OK);
	assert_int_equal(peer_flush(p, LARDER_OP_NS_RETIRE, ns, 0), LARDER_BUSY);
	peer_expect_text(p, "1 objects are leased");
	assert_int_equal(peer_get(p, ns, "l", 200), LARDER_NOT_FOUND);
	assert_int_equal(peer_get(p, ns, "k", 100), LARDER_OK);
	/* someone puts: its bytes are still to come */
	put_partly(w, ns, "w", 300, 100, 0);
	assert_int_equal(peer_flush(p, LARDER_OP_NS_RETIRE, ns, LARDER_F_FORCE), LARDER_BUSY);
	peer_expect_text(p, "still putting");
	put_rest(w, "w", 300, 100);
	assert_int_equal(peer_status(w), LARDER_OK);
	assert_int_equal(peer_flush(p, LARDER_OP_NS_RETIRE, ns, LARDER_F_FORCE), LARDER_OK);
	assert_int_equal(p->reply.u.ns_flushed.objects, 1);
	assert_int_equal(p->reply.u.ns_flushed.bytes, 300);
	assert_int_equal(peer_flush(p, LARDER_OP_NS_RETIRE, ns, 0), LARDER_NOT_FOUND);
	/* who still has the id meets nothing, also when the name is there again */
	assert_int_equal(peer_ns(p, LARDER_OP_NS_OPEN, "m", NULL, NULL), LARDER_NOT_FOUND);
	next = peer_open_ns(p);
	assert_int_not_equal(next, ns);
	assert_int_equal(peer_put_key(p, next, "k", 100), LARDER_OK);
	assert_int_equal(peer_get(w, ns, "k", 100), LARDER_NOT_FOUND);
	assert_int_equal(peer_put_key(w, ns, "k", 100), LARDER_NOT_FOUND);
	peer_list_names(w, names, sizeof(names));
	assert_string_equal(names, "m/0 ");
	peer_close(p);
	peer_close(w);
	rig_check_released(r);
	rig_stop(r);
}

/* --- admission ---------------------------------------------------------------------------- */

static void admission__is_chosen_when_a_namespace_is_made(void **state)
{
	struct rig *r = rig_start();
	struct peer *p = peer_login(r);
	uint32_t ns = 0;

	assert_int_equal(peer_ns_admit(p, LARDER_OP_NS_CREATE, "m", WIRE_ADMISSION_SECOND_TOUCH),
			 LARDER_OK);
	assert_int_equal(p->reply.u.ns_opened.flags, WIRE_NS_CREATED | WIRE_NS_SECOND_TOUCH);
	ns = p->reply.u.ns_opened.ns;
	assert_int_equal(peer_put_key(p, ns, "k", 100), LARDER_QUOTA);
	assert_int_equal(peer_put_key(p, ns, "k", 100), LARDER_OK);
	assert_int_equal(peer_ns_admit(p, LARDER_OP_NS_CREATE, "m", WIRE_ADMISSION_LEAVE),
			 LARDER_OK);
	assert_int_equal(p->reply.u.ns_opened.flags, WIRE_NS_SECOND_TOUCH);
	assert_int_equal(peer_ns_admit(p, LARDER_OP_NS_CREATE, "m", WIRE_ADMISSION_ALL),
			 LARDER_OK);
	assert_int_equal(p->reply.u.ns_opened.flags, 0);
	assert_int_equal(peer_put_key(p, ns, "l", 100), LARDER_OK);
	assert_int_equal(peer_ns_admit(p, LARDER_OP_NS_OPEN, "m", WIRE_ADMISSION_ALL),
			 LARDER_BAD_REQUEST);
	assert_int_equal(peer_ns_admit(p, LARDER_OP_NS_CREATE, "m", 3), LARDER_BAD_REQUEST);
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

static void admission__that_the_policy_can_not_do_makes_nothing(void **state)
{
	struct rig *r = rig_new();
	struct peer *p;

	r->config.policy = "lru";
	rig_open(r);
	p = peer_login(r);
	assert_int_equal(peer_ns_admit(p, LARDER_OP_NS_CREATE, "m", WIRE_ADMISSION_SECOND_TOUCH),
			 LARDER_UNSUPPORTED);
	assert_int_equal(peer_ns(p, LARDER_OP_NS_OPEN, "m", NULL, NULL), LARDER_NOT_FOUND);
	assert_int_equal(peer_ns_admit(p, LARDER_OP_NS_CREATE, "m", WIRE_ADMISSION_ALL),
			 LARDER_OK);
	peer_close(p);
	rig_check_released(r);
	rig_stop(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(P10_mismatch__is_named_and_counted),
		cmocka_unit_test(P10_put__of_another_length_says_both),
		cmocka_unit_test(P9_shared__is_there_for_reading_only),
		cmocka_unit_test(P9_shared__by_name_before_either_side_is_there),
		cmocka_unit_test(retire__flushes_and_forgets),
		cmocka_unit_test(admission__is_chosen_when_a_namespace_is_made),
		cmocka_unit_test(admission__that_the_policy_can_not_do_makes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
