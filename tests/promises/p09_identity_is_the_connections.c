/* SPDX-License-Identifier: Apache-2.0 */
/* P9: tenants can't see, name, fill or flush what is another's; theirs and nothing look alike. */
#include "promise.h"

#define LENGTH 5000u

static struct larder_client *mine, *theirs;
static uint32_t my_ns, their_ns;

static int tenants_setup(void **state)
{
	mine = node_client(&node, NODE_TCP);
	theirs = node_client_as(&node, NODE_SHM, "other");
	my_ns = node_namespace(mine, "same-name");
	their_ns = node_namespace(theirs, "same-name");
	assert_int_equal(promise_put(theirs, their_ns, "theirs", LENGTH, 1), LARDER_OK);
	return 0;
}

static int tenants_teardown(void **state)
{
	assert_int_equal(larder_delete(theirs, their_ns, "theirs", 6, LARDER_F_FORCE, 5000),
			 LARDER_OK);
	larder_close(mine);
	larder_close(theirs);
	return 0;
}

static bool none_listed(void *user, const void *key, size_t len, const struct larder_stat *st)
{
	(*(unsigned *)user)++;
	return true;
}

static bool only_mine(void *user, const struct larder_ns_info *i)
{
	assert_null(strchr(i->name, ':'));
	assert_int_not_equal(i->ns, their_ns);
	return true;
}

static void P9_what_is_theirs_is_not_found(void **state)
{
	uint64_t objects, bytes, cursor = 0;
	uint32_t ns = UINT32_MAX;
	unsigned seen = 0;

	assert_int_not_equal(my_ns, their_ns);
	assert_int_equal(promise_get(mine, my_ns, "theirs", LENGTH, 1), LARDER_NOT_FOUND);
	assert_int_equal(larder_exists(mine, my_ns, "theirs", 6, 5000), LARDER_NOT_FOUND);
	assert_int_equal(larder_delete(mine, my_ns, "theirs", 6, LARDER_F_FORCE, 5000),
			 LARDER_NOT_FOUND);
	assert_int_equal(larder_list(mine, my_ns, "", 0, &cursor, 100, none_listed, &seen, 5000),
			 0);
	assert_int_equal(seen, 0);
	assert_int_equal(larder_ns_list(mine, only_mine, NULL, 5000), 0);
	assert_int_equal(larder_ns_open(mine, "other:same-name", NULL, 0, 5000, &ns),
			 LARDER_NOT_FOUND);
	assert_int_equal(larder_ns_flush(mine, my_ns, true, 5000, &objects, &bytes), 0);
	assert_int_equal(objects, 0);
	assert_int_equal(promise_get(theirs, their_ns, "theirs", LENGTH, 1), LARDER_OK);
}

/* Sends @message and gives the reply's bytes, without what differs by nature: the request's id. */
static size_t answer(struct raw *r, const void *message, int len, uint8_t *out)
{
	assert_true(raw_send(r, message, (size_t)len));
	assert_true(raw_reply(r, 5000));
	memcpy(out, &r->header, sizeof(r->header));
	memset(out + offsetof(struct wire_header, request_id), 0, sizeof(r->header.request_id));
	memset(out + offsetof(struct wire_header, crc), 0, sizeof(r->header.crc));
	memcpy(out + sizeof(r->header), r->body, r->header.body_len);
	return sizeof(r->header) + r->header.body_len;
}

/* Their namespace by its number, which the library would never send. */
static void P9_their_number_and_none_look_alike(void **state)
{
	static struct raw r;
	static uint8_t theirs_says[WIRE_MESSAGE_MAX], none_says[WIRE_MESSAGE_MAX];
	uint8_t message[WIRE_MESSAGE_MAX], *value = promise_value(LENGTH, 2);
	size_t a, b;

	raw_connect(&r, &node);
	assert_int_equal(raw_handshake(&r, "demo", node.secret), LARDER_OK);
	a = answer(&r, message, raw_get_message(message, 20, their_ns, "theirs", LENGTH),
		   theirs_says);
	b = answer(&r, message, raw_get_message(message, 21, 900, "theirs", LENGTH), none_says);
	assert_int_equal(a, b);
	assert_memory_equal(theirs_says, none_says, a);
	assert_int_equal(r.header.status, LARDER_NOT_FOUND);
	for (unsigned i = 0; i < 2; i++) {
		int len = raw_put_message(message, 30 + i, i ? 900 : their_ns, "new", value,
					  LENGTH);

		assert_true(raw_send(&r, message, (size_t)len));
		b = answer(&r, value, LENGTH, i ? none_says : theirs_says);
	}
	assert_memory_equal(theirs_says, none_says, b);
	assert_int_not_equal(r.header.status, LARDER_OK);
	assert_int_equal(promise_get(theirs, their_ns, "new", LENGTH, 2), LARDER_NOT_FOUND);
	raw_close(&r);
	free(value);
}

/* An operation on a list with one key, as it would never leave the library. */
static int keys_message(uint8_t *message, uint8_t opcode, uint64_t id, uint32_t ns, const char *key,
			uint32_t flags)
{
	struct wire_keys k = { .c.ns = ns, .c.deadline_ms = 5000, .c.flags = flags, .n_keys = 1,
			       .lease_id = 1, .lease_ms = 1000 };
	uint16_t len = (uint16_t)strlen(key);
	struct wire_writer w;
	int r;

	wire_begin(&w, message, WIRE_MESSAGE_MAX);
	wire_append(&w, &k, sizeof(k));
	wire_append(&w, &len, sizeof(len));
	wire_append(&w, key, len);
	r = wire_finish(&w, opcode, 0, 0, id, 0);
	assert_true(r > 0);
	return r;
}

static void P9_no_operation_tells_theirs_from_none(void **state)
{
	static const struct {
		uint8_t opcode;
		uint32_t flags;
	} ops[] = { { LARDER_OP_EXISTS, 0 }, { LARDER_OP_EXISTS, LARDER_F_LEASE },
		    { LARDER_OP_EXISTS, LARDER_F_FILL }, { LARDER_OP_LEASE, 0 },
		    { LARDER_OP_RELEASE, 0 }, { LARDER_OP_PIN, LARDER_F_HARD },
		    { LARDER_OP_UNPIN, 0 }, { LARDER_OP_STAT, 0 },
		    { LARDER_OP_DELETE, LARDER_F_FORCE } };
	static uint8_t theirs_says[WIRE_MESSAGE_MAX], none_says[WIRE_MESSAGE_MAX];
	static struct raw r;
	uint8_t message[WIRE_MESSAGE_MAX];

	raw_connect(&r, &node);
	assert_int_equal(raw_handshake(&r, "demo", node.secret), LARDER_OK);
	for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		size_t a = answer(&r, message, keys_message(message, ops[i].opcode, 100 + i,
							    their_ns, "theirs", ops[i].flags),
				  theirs_says);
		size_t b = answer(&r, message, keys_message(message, ops[i].opcode, 200 + i, 900,
							    "theirs", ops[i].flags), none_says);

		assert_int_equal(a, b);
		assert_memory_equal(theirs_says, none_says, a);
	}
	raw_close(&r);
	assert_int_equal(promise_get(theirs, their_ns, "theirs", LENGTH, 1), LARDER_OK);
	assert_int_equal(larder_delete(theirs, their_ns, "theirs", 6, 0, 5000), LARDER_OK);
	assert_int_equal(promise_put(theirs, their_ns, "theirs", LENGTH, 1), LARDER_OK);
}

static void P9_a_name_says_nothing_to_another_secret(void **state)
{
	static struct raw r;

	raw_connect(&r, &node);
	assert_int_equal(raw_handshake(&r, "other", "guessed"), LARDER_DENIED);
	raw_close(&r);
	raw_connect(&r, &node);
	assert_int_equal(raw_handshake(&r, "nobody", "guessed"), LARDER_DENIED);
	raw_close(&r);
}

static int add_tenant(void **state)
{
	node_add_tenant(&node, "other", NULL);
	return tenants_setup(state);
}

PROMISE("", cmocka_unit_test_setup_teardown(P9_what_is_theirs_is_not_found, add_tenant,
					    tenants_teardown),
	cmocka_unit_test_setup_teardown(P9_their_number_and_none_look_alike, tenants_setup,
					tenants_teardown),
	cmocka_unit_test_setup_teardown(P9_no_operation_tells_theirs_from_none, tenants_setup,
					tenants_teardown),
	cmocka_unit_test(P9_a_name_says_nothing_to_another_secret))
