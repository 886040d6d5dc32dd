/* SPDX-License-Identifier: Apache-2.0 */
/* P10: a reader of another layout is refused, and told which field it is; never a hit. */
#include "promise.h"

static const struct larder_descriptor stored = {
	.model = "llama-3.1-8b", .revision = "r7", .weights_digest = "sha256:0011",
	.adapter = "none", .position = "rope-500000", .dtype = "bf16", .layout = "hnd",
	.hash_scheme = "sha256-chain", .hash_seed = 7, .bytes_per_block = 8192,
	.tokens_per_block = 16, .tp = 2, .pp = 1,
};

static void refused(struct larder_client *c, const struct larder_descriptor *d, const char *field)
{
	uint32_t ns = 12345;

	assert_int_equal(larder_ns_open(c, "described", d, LARDER_NS_CREATE, 5000, &ns),
			 LARDER_LAYOUT_MISMATCH);
	assert_int_equal(ns, 12345);
	assert_non_null(strstr(larder_last_error(), field));
}

static void P10_every_field_is_compared(void **state)
{
	struct larder_client *c = node_client(&node, NODE_TCP);
	struct larder_descriptor d;
	uint32_t ns;

	assert_int_equal(larder_ns_open(c, "described", &stored, LARDER_NS_CREATE, 5000, &ns), 0);
	assert_int_equal(promise_put(c, ns, "block", 8192, 1), LARDER_OK);
#define OTHER(field, change) \
	do { d = stored; change; refused(c, &d, #field); } while (0)
	OTHER(model, d.model[0] = 'm');
	OTHER(revision, d.revision[1] = '8');
	OTHER(weights_digest, d.weights_digest[9] = '2');
	OTHER(adapter, memset(d.adapter, 0, sizeof(d.adapter)));
	OTHER(position, d.position[5] = '1');
	OTHER(dtype, d.dtype[0] = 'f');
	OTHER(layout, d.layout[0] = 'n');
	OTHER(hash_scheme, d.hash_scheme[0] = 'x');
	OTHER(hash_seed, d.hash_seed++);
	OTHER(bytes_per_block, d.bytes_per_block++);
	OTHER(tokens_per_block, d.tokens_per_block = 32);
	OTHER(tp, d.tp = 4);
	OTHER(pp, d.pp = 2);
	OTHER(flags, d.flags ^= 1);
#undef OTHER
	assert_int_equal(larder_ns_open(c, "described", &stored, 0, 5000, &ns), 0);
	assert_int_equal(promise_get(c, ns, "block", 8192, 1), LARDER_OK);
	larder_close(c);
}

static void P10_descriptors_survive_and_are_told(void **state)
{
	struct larder_descriptor back, other = stored;
	struct larder_client *c;
	uint32_t ns;

	node_kill(&node);
	node_start(&node);
	c = node_client(&node, NODE_SHM);
	other.tp = 8;
	refused(c, &other, "tp");
	assert_int_equal(larder_ns_open(c, "described", NULL, 0, 5000, &ns), 0);
	assert_int_equal(larder_ns_descriptor(c, ns, &back), 0);
	assert_memory_equal(&back, &stored, sizeof(back));
	assert_int_equal(promise_get(c, ns, "block", 8192, 1), LARDER_OK);
	larder_close(c);
}

static void P10_an_empty_descriptor_is_one_too(void **state)
{
	struct larder_client *c = node_client(&node, NODE_TCP);
	uint32_t ns;

	assert_int_equal(larder_ns_open(c, "empty", NULL, LARDER_NS_CREATE, 5000, &ns), 0);
	assert_int_equal(larder_ns_open(c, "empty", &stored, LARDER_NS_CREATE, 5000, &ns),
			 LARDER_LAYOUT_MISMATCH);
	assert_int_equal(larder_ns_open(c, "empty", NULL, 0, 5000, &ns), 0);
	assert_int_equal(larder_ns_open(c, "never-made", &stored, 0, 5000, &ns),
			 LARDER_NOT_FOUND);
	larder_close(c);
}

/* A block of another size is no block of this namespace. */
static void P10_a_block_has_the_descriptors_size(void **state)
{
	struct larder_client *c = node_client(&node, NODE_TCP);
	struct larder_descriptor d = stored;
	uint32_t ns, shorter;

	assert_int_equal(larder_ns_open(c, "described", &stored, 0, 5000, &ns), 0);
	assert_int_equal(promise_put(c, ns, "long", 8193, 1), LARDER_BAD_REQUEST);
	assert_int_equal(promise_put(c, ns, "short", 8191, 1), LARDER_BAD_REQUEST);
	assert_int_equal(promise_put(c, ns, "right", 8192, 1), LARDER_OK);
	d.flags = 1;
	assert_int_equal(larder_ns_open(c, "shorter", &d, LARDER_NS_CREATE, 5000, &shorter), 0);
	assert_int_equal(promise_put(c, shorter, "long", 8193, 1), LARDER_BAD_REQUEST);
	assert_int_equal(promise_put(c, shorter, "last", 100, 1), LARDER_OK);
	larder_close(c);
}

PROMISE("", cmocka_unit_test(P10_every_field_is_compared),
	cmocka_unit_test(P10_descriptors_survive_and_are_told),
	cmocka_unit_test(P10_an_empty_descriptor_is_one_too),
	cmocka_unit_test(P10_a_block_has_the_descriptors_size))
