/* SPDX-License-Identifier: Apache-2.0 */
/* What bpftool is told of the maps, against the layout that the node writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <larder/ledger.h>

#include "ebpf/maps_btf.h"

struct maps {
	struct btf *btf;
	struct maps_btf types;
};

static int setup(void **state)
{
	static struct maps m;

	*state = &m;
	return maps_btf_new(&m.btf, &m.types);
}

static int teardown(void **state)
{
	struct maps *m = *state;

	btf__free(m->btf);
	return 0;
}

/* Marks each byte that some field names; one that two name fails. */
static void mark(const struct btf *btf, uint32_t id, size_t at, uint8_t *named, size_t size)
{
	const struct btf_type *t = btf__type_by_id(btf, id);
	const struct btf_member *member = btf_members(t);

	assert_non_null(t);
	if (!btf_is_struct(t)) {
		int64_t bytes = btf__resolve_size(btf, id);

		assert_true(bytes > 0 && at + (size_t)bytes <= size);
		for (size_t i = at; i < at + (size_t)bytes; i++)
			assert_int_equal(named[i]++, 0);
		return;
	}
	for (unsigned i = 0; i < btf_vlen(t); i++)
		mark(btf, member[i].type, at + member[i].offset / 8, named, size);
}

static void value__has_the_size_of_the_layout(void **state)
{
	struct maps *m = *state;

	for (unsigned s = 0; s < LARDER_SECTIONS; s++) {
		uint32_t value_size, entries;

		larder_ledger_geometry(s, 2, &value_size, &entries);
		assert_int_equal(btf__resolve_size(m->btf, m->types.value[s]), value_size);
	}
	assert_int_equal(btf__resolve_size(m->btf, m->types.key), 4);
}

/* A field that is taken out of `reserved` and not named here fails this. */
static void every_word_is_named_but_the_reserved_ones(void **state)
{
	static const struct {
		unsigned section;
		size_t reserved, bytes;
	} gaps[] = {
		{ LARDER_SECTION_USAGE, offsetof(struct larder_usage, reserved),
		  sizeof(((struct larder_usage *)0)->reserved) },
		{ LARDER_SECTION_GAUGES, offsetof(struct larder_gauges, reserved),
		  sizeof(((struct larder_gauges *)0)->reserved) },
		{ LARDER_SECTION_LATENCY, sizeof(struct larder_latency), 0 },
		{ LARDER_SECTION_LIMITS, sizeof(uint64_t), 0 },
		{ LARDER_SECTION_EFFECTIVE, sizeof(uint64_t), 0 },
		{ LARDER_SECTION_NAMES, offsetof(struct larder_ledger_name, reserved),
		  sizeof(((struct larder_ledger_name *)0)->reserved) },
		{ LARDER_SECTION_NODE, offsetof(struct larder_node_section, reserved),
		  sizeof(((struct larder_node_section *)0)->reserved) },
	};
	/* arrays by number have places whose number stands for nothing yet */
	static const struct {
		size_t from, words, named;
	} numbers[] = {
		{ offsetof(struct larder_usage, ops), LARDER_OP_MAX, 25 },
		{ offsetof(struct larder_usage, status), 32, LARDER_STATUS_COUNT },
		{ offsetof(struct larder_usage, bytes), LARDER_CAUSES, LARDER_CAUSES },
		{ offsetof(struct larder_usage, refused), LARDER_LEDGER_LIMITS, LARDER_LIMITS },
	};
	struct maps *m = *state;

	for (unsigned s = 0; s < LARDER_SECTIONS; s++) {
		uint8_t named[sizeof(struct larder_latency)] = { 0 };
		uint32_t size, entries;

		larder_ledger_geometry(s, 2, &size, &entries);
		mark(m->btf, m->types.value[s], 0, named, size);
		for (unsigned i = 0; s == LARDER_SECTION_USAGE && i < 4; i++) {
			size_t n = 0;

			for (size_t w = 0; w < numbers[i].words; w++) {
				n += named[numbers[i].from + 8 * w];
				memset(&named[numbers[i].from + 8 * w], 1, 8);
			}
			assert_int_equal(n, numbers[i].named);
		}
		for (size_t b = 0; b < size; b++)
			assert_int_equal(named[b], b < gaps[s].reserved ||
					 b >= gaps[s].reserved + gaps[s].bytes);
	}
}

static uint32_t offset_of(const struct btf *btf, uint32_t id, const char *name, uint32_t *type)
{
	const struct btf_type *t = btf__type_by_id(btf, id);
	const struct btf_member *member = btf_members(t);

	for (unsigned i = 0; i < btf_vlen(t); i++)
		if (!strcmp(btf__name_by_offset(btf, member[i].name_off), name)) {
			*type = member[i].type;
			return member[i].offset / 8;
		}
	fail_msg("no field %s", name);
	return 0;
}

static void names__are_those_of_their_places(void **state)
{
	struct maps *m = *state;
	uint32_t usage = m->types.value[LARDER_SECTION_USAGE], in, type;

	assert_int_equal(offset_of(m->btf, usage, "get_hits", &type),
			 offsetof(struct larder_usage, get_hits));
	assert_int_equal(offset_of(m->btf, usage, "tenant", &type),
			 offsetof(struct larder_usage, tenant));
	assert_int_equal(offset_of(m->btf, usage, "ops", &in), offsetof(struct larder_usage, ops));
	assert_int_equal(offset_of(m->btf, in, "GET", &type), 8 * LARDER_OP_GET);
	assert_int_equal(offset_of(m->btf, in, "DELETE", &type), 8 * LARDER_OP_DELETE);
	(void)offset_of(m->btf, usage, "status", &in);
	assert_int_equal(offset_of(m->btf, in, "THROTTLED", &type), 8 * LARDER_THROTTLED);
	(void)offset_of(m->btf, usage, "bytes", &in);
	assert_int_equal(offset_of(m->btf, in, "client_write", &type),
			 8 * LARDER_CAUSE_CLIENT_WRITE);
	(void)offset_of(m->btf, usage, "refused", &in);
	assert_int_equal(offset_of(m->btf, in, "ops_per_s", &type), 8 * LARDER_LIMIT_ops_per_s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(value__has_the_size_of_the_layout),
		cmocka_unit_test(every_word_is_named_but_the_reserved_ones),
		cmocka_unit_test(names__are_those_of_their_places),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
