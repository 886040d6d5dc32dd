/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces between a client and a real node: what a descriptor refuses and how it is told, what
 * is left of a namespace that was retired, and tenants who come in another order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "harness.h"

static struct node node;

static int put_text(struct larder_client *c, uint32_t ns, const char *key, const char *value)
{
	return larder_put(c, ns, key, strlen(key), value, strlen(value), 5000);
}

/* NOT_FOUND or the value that it has to be. */
static int get_text(struct larder_client *c, uint32_t ns, const char *key, const char *wanted)
{
	char value[64] = "";
	size_t len = 0;
	int r = larder_get(c, ns, key, strlen(key), value, sizeof(value) - 1, &len, 5000);

	if (r == LARDER_OK)
		assert_string_equal(value, wanted);
	return r;
}

static void expect_error(const char *part)
{
	if (!strstr(larder_last_error(), part))
		fail_msg("\"%s\" does not say \"%s\"", larder_last_error(), part);
}

static bool count_one(void *user, const struct larder_ns_info *i)
{
	++*(unsigned *)user;
	return true;
}

static unsigned namespaces(struct larder_client *c)
{
	unsigned n = 0;

	assert_int_equal(larder_ns_list(c, count_one, &n, 5000), 0);
	return n;
}

/* --- P10 ---------------------------------------------------------------------------------- */

#define FIELD(f) { #f, offsetof(struct larder_descriptor, f) }
static const struct {
	const char *name;
	size_t offset;
} fields[] = {
	FIELD(model), FIELD(revision), FIELD(weights_digest), FIELD(adapter), FIELD(position),
	FIELD(dtype), FIELD(layout), FIELD(hash_scheme), FIELD(hash_seed), FIELD(bytes_per_block),
	FIELD(tokens_per_block), FIELD(tp), FIELD(pp), FIELD(flags),
};

static void P10_every_field__reaches_the_caller(void **state)
{
	const struct larder_descriptor d = {
		.model = "llama", .revision = "7", .weights_digest = "sha256:00", .adapter = "a",
		.position = "rope", .dtype = "bf16", .layout = "NHD", .hash_scheme = "xxh3",
		.hash_seed = 1, .tokens_per_block = 16, .tp = 2, .pp = 1,
	};
	struct larder_client *c = node_client(&node, NODE_TCP);
	struct larder_descriptor got;
	unsigned before;
	uint32_t ns;

	assert_int_equal(larder_ns_open(c, "p10", &d, LARDER_NS_CREATE, 5000, &ns), 0);
	assert_int_equal(put_text(c, ns, "k", "v"), LARDER_OK);
	before = namespaces(c);
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		struct larder_descriptor other = d;
		uint32_t none = 77;

		((unsigned char *)&other)[fields[i].offset] ^= 0x20;
		for (uint32_t create = 0; create < 2; create++) {
			assert_int_equal(larder_ns_open(c, "p10", &other, create, 5000, &none),
					 LARDER_LAYOUT_MISMATCH);
			expect_error(fields[i].name);
			assert_int_equal(none, 77);
		}
	}
	assert_int_equal(namespaces(c), before);
	larder_close(c);
	/* the node's, whatever becomes of its process */
	node_kill(&node);
	node_start(&node);
	c = node_client(&node, NODE_SHM);
	assert_int_equal(larder_ns_open(c, "p10", NULL, 0, 5000, &ns), 0);
	assert_int_equal(larder_ns_descriptor(c, ns, &got), 0);
	assert_memory_equal(&got, &d, sizeof(d));
	assert_int_equal(get_text(c, ns, "k", "v"), LARDER_OK);
	larder_close(c);
}

static void P10_made_without_one__mismatches_any(void **state)
{
	struct larder_client *c = node_client(&node, NODE_SHM);
	struct larder_descriptor d = { .tp = 8 };
	uint32_t ns;

	assert_int_equal(larder_ns_open(c, "bare", NULL, LARDER_NS_CREATE, 5000, &ns), 0);
	assert_int_equal(larder_ns_open(c, "bare", NULL, LARDER_NS_CREATE, 5000, &ns), 0);
	assert_int_equal(larder_ns_open(c, "bare", &d, LARDER_NS_CREATE, 5000, &ns),
			 LARDER_LAYOUT_MISMATCH);
	expect_error("tp");
	larder_close(c);
}

static void lengths_are_kept(enum node_transport t, const char *name)
{
	const size_t block = 3 << 20;
	struct larder_descriptor d = { .bytes_per_block = block };
	struct larder_client *c = node_client(&node, t);
	char *value = malloc(block + 1);
	struct larder_put_stream *s;
	uint32_t ns;

	assert_non_null(value);
	pattern_fill(value, block + 1, 1);
	assert_int_equal(larder_ns_open(c, name, &d, LARDER_NS_CREATE, 5000, &ns), 0);
	assert_int_equal(larder_put(c, ns, "k", 1, value, block + 1, 5000), LARDER_BAD_REQUEST);
	expect_error("3145729");
	expect_error("3145728");
	assert_int_equal(larder_put(c, ns, "k", 1, value, 1, 5000), LARDER_BAD_REQUEST);
	assert_int_equal(larder_put_begin(c, ns, "k", 1, 5, 5000, &s), LARDER_BAD_REQUEST);
	assert_int_equal(larder_exists(c, ns, "k", 1, 5000), LARDER_NOT_FOUND);
	assert_int_equal(larder_put(c, ns, "k", 1, value, block, 5000), LARDER_OK);
	free(value);
	larder_close(c);
}

static void P10_length_of_a_block__tcp(void **state)
{
	lengths_are_kept(NODE_TCP, "block-tcp");
}

static void P10_length_of_a_block__shm(void **state)
{
	lengths_are_kept(NODE_SHM, "block-shm");
}

/* A handle whose node was killed fails fast until it has found the new one. */
static void await_session(struct larder_client *c)
{
	uint64_t give_up = now_ms() + 10000;
	int r;

	while ((r = larder_ping(c, 1000)) != 0 && now_ms() < give_up)
		sleep_ms(10);
	assert_int_equal(r, 0);
}

/* --- retired ------------------------------------------------------------------------------ */

static void retire__ends_ids_until_the_name_is_opened_again(void **state)
{
	struct larder_client *c = node_client(&node, NODE_TCP), *other;
	uint64_t objects = 0, bytes = 0;
	uint32_t ns, theirs, again;

	other = node_client(&node, NODE_SHM);
	assert_int_equal(larder_ns_open(c, "short-lived", NULL, LARDER_NS_CREATE, 5000, &ns), 0);
	assert_int_equal(larder_ns_open(other, "short-lived", NULL, 0, 5000, &theirs), 0);
	assert_int_equal(put_text(c, ns, "a", "1"), LARDER_OK);
	assert_int_equal(put_text(c, ns, "b", "22"), LARDER_OK);
	assert_int_equal(larder_ns_retire(c, ns, false, 5000, &objects, &bytes), 0);
	assert_int_equal(objects, 2);
	assert_int_equal(bytes, 3);
	assert_int_equal(get_text(c, ns, "a", ""), LARDER_NOT_FOUND);
	assert_int_equal(put_text(c, ns, "a", "1"), LARDER_NOT_FOUND);
	assert_int_equal(larder_ns_retire(c, ns, false, 5000, NULL, NULL), LARDER_NOT_FOUND);
	assert_int_equal(get_text(other, theirs, "a", ""), LARDER_NOT_FOUND);
	/* a reconnect does not make it again */
	node_kill(&node);
	node_start(&node);
	await_session(c);
	await_session(other);
	assert_int_equal(put_text(c, ns, "a", "1"), LARDER_NOT_FOUND);
	assert_int_equal(get_text(other, theirs, "a", ""), LARDER_NOT_FOUND);
	assert_int_equal(larder_ns_open(other, "short-lived", NULL, 0, 10000, &again),
			 LARDER_NOT_FOUND);
	/* the caller does */
	assert_int_equal(larder_ns_open(c, "short-lived", NULL, LARDER_NS_CREATE, 5000, &again), 0);
	assert_int_equal(again, ns);	/* the handle's own number for the name */
	assert_int_equal(put_text(c, ns, "a", "new"), LARDER_OK);
	larder_close(c);
	larder_close(other);
}

static void admission__is_chosen_by_the_caller(void **state)
{
	struct larder_client *c = node_client(&node, NODE_TCP);
	uint32_t ns;

	assert_int_equal(larder_ns_open(c, "twice", NULL, LARDER_NS_SECOND_TOUCH, 5000, &ns), -22);
	assert_int_equal(larder_ns_open(c, "twice", NULL, LARDER_NS_CREATE |
					LARDER_NS_SECOND_TOUCH | LARDER_NS_ADMIT_ALL, 5000, &ns),
			 -22);
	assert_int_equal(larder_ns_open(c, "twice", NULL, LARDER_NS_CREATE |
					LARDER_NS_SECOND_TOUCH, 5000, &ns), 0);
	assert_int_equal(put_text(c, ns, "k", "v"), LARDER_QUOTA);
	assert_int_equal(put_text(c, ns, "k", "v"), LARDER_OK);
	assert_int_equal(larder_ns_open(c, "twice", NULL, LARDER_NS_CREATE | LARDER_NS_ADMIT_ALL,
					5000, &ns), 0);
	assert_int_equal(put_text(c, ns, "l", "v"), LARDER_OK);
	larder_close(c);
}

/* --- P9: who is who after a restart ------------------------------------------------------- */

static void tenant_objects(struct node *n, const char *tenant, bool write, const char *owner)
{
	struct larder_client *c = node_client_as(n, NODE_TCP, tenant);
	char key[16], value[32];
	uint32_t ns;

	assert_int_equal(larder_ns_open(c, "cache", NULL, LARDER_NS_CREATE, 5000, &ns), 0);
	for (int i = 0; i < 20; i++) {
		(void)snprintf(key, sizeof(key), "block-%d", i);
		(void)snprintf(value, sizeof(value), "%s %d", owner ? owner : "", i);
		if (write)
			assert_int_equal(put_text(c, ns, key, value), LARDER_OK);
		assert_int_equal(get_text(c, ns, key, value),
				 owner ? LARDER_OK : LARDER_NOT_FOUND);
	}
	larder_close(c);
}

/* The files are read by name: one that sorts first comes, the middle one goes. */
static void P9_restart__with_other_tenants_gives_each_its_own(void **state)
{
	struct node n;
	char path[400];

	node_setup(&n, NULL);
	node_start(&n);
	node_add_tenant(&n, "mia", NULL);
	node_add_tenant(&n, "leo", NULL);
	node_add_tenant(&n, "zoe", NULL);
	tenant_objects(&n, "mia", true, "mia");
	tenant_objects(&n, "leo", true, "leo");
	tenant_objects(&n, "zoe", true, "zoe");
	node_stop(&n);
	(void)snprintf(path, sizeof(path), "%s/tenants.d/mia.conf", n.dir);
	assert_int_equal(unlink(path), 0);
	node_add_tenant(&n, "ada", NULL);
	node_start(&n);
	tenant_objects(&n, "ada", false, NULL);
	tenant_objects(&n, "leo", false, "leo");
	tenant_objects(&n, "zoe", false, "zoe");
	tenant_objects(&n, "ada", true, "ada");
	/* back again, it finds what it left */
	node_add_tenant(&n, "mia", NULL);
	tenant_objects(&n, "mia", false, "mia");
	tenant_objects(&n, "leo", false, "leo");
	node_stop(&n);
	node_cleanup(&n);
}

static int start(void **state)
{
	node_setup(&node, NULL);
	node_start(&node);
	return 0;
}

static int stop(void **state)
{
	node_cleanup(&node);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(P10_every_field__reaches_the_caller),
		cmocka_unit_test(P10_made_without_one__mismatches_any),
		cmocka_unit_test(P10_length_of_a_block__tcp),
		cmocka_unit_test(P10_length_of_a_block__shm),
		cmocka_unit_test(retire__ends_ids_until_the_name_is_opened_again),
		cmocka_unit_test(admission__is_chosen_by_the_caller),
		cmocka_unit_test(P9_restart__with_other_tenants_gives_each_its_own),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
