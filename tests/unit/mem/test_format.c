/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Promise 7: a version reads its own and the previous format. tests/data/format-1.hex is a node's
 * memory as the first version with format 1 left it; it is never made anew by a later version. A
 * version with another format keeps this test and adds a file of its own:
 *
 *	test_format --make tests/data/format-N.hex
 *
 * The file is text: "file NAME SIZE", then lines of an offset and 32 bytes; the rest is zeros.
 */
#include <inttypes.h>

#include "place.h"

#include "base/check.h"
#include "mem/records_internal.h"

enum { OBJECTS = 14, CHUNK = 32, PAGE = 4096, NOW_NS = 9000, BEAT_NS = 4000 };

static const char *const names[] = { "arena", "records" };

static void format_place(struct place *p)
{
	place_init(p, access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	p->config.pages = 48;
	p->config.page_size_bytes = PAGE;
	p->config.records = 40;
	p->config.leases = 8;
	p->config.namespaces = 4;
	p->config.prefault_step_bytes = 0;
	p->config.progress = NULL;
}

/* --- what is in it ------------------------------------------------------------------------- */

struct content {
	uint8_t key[LARDER_KEY_MAX];
	uint8_t value[6 * PAGE];
	uint32_t check;
	struct record_content c;
	uint32_t pins, hits;
	uint64_t last_ns, commit_ms;
};

static struct larder_descriptor format_descriptor(uint32_t space)
{
	struct larder_descriptor d = { .pp = space + 1, .tp = 4 };

	(void)snprintf(d.model, sizeof(d.model), "model-%u", space);
	(void)snprintf(d.layout, sizeof(d.layout), "layout of %u", space);
	return d;
}

static void content_make(struct content *o, uint32_t i)
{
	static const uint16_t key_lens[] = { 1, 17, 140, 400, 1024 };
	static const uint32_t lengths[] = { 1, 100, PAGE, PAGE + 1, 3 * PAGE - 7 };

	*o = (struct content){
		/* namespace n is of tenant n % 2 */
		.c = { .tenant = i % 3 % 2, .ns = i % 3, .length = lengths[i % 5],
		       .digest = 0x1122334455667788ull + i, .expire_ns = i % 4 ? 0 : 1000000 + i,
		       .flags = i % 2 ? RECORD_CHECKED_BY_NODE : 0,
		       .key_len = key_lens[(i / 2) % 5], .n_checks = 1 },
		.pins = i % 3 == 0 ? 1 + (i << 16) : 0, .hits = i, .last_ns = 100 + i,
		.commit_ms = 1700000000000ull + i,
	};
	o->c.key = o->key;
	for (uint32_t k = 0; k < o->c.key_len; k++)
		o->key[k] = (uint8_t)(k ? k * 3 : i);
	/* mostly zeros, so that the file stays small */
	for (uint64_t k = 0; k < o->c.length; k += 509)
		o->value[k] = (uint8_t)(i + k / 509 + 1);
	o->check = crc32c(0, o->value, o->c.length);
	o->c.checks = &o->check;
}

/* --- --make -------------------------------------------------------------------------------- */

static void format_object(struct larder_memory *m, uint32_t i)
{
	static struct content o;
	struct larder_run runs[6];
	struct lease_record *l;
	uint32_t slot = records_slot_take(m->records);
	struct record *rec = records_at(m->records, slot);
	uint64_t at = 0;
	int n;

	content_make(&o, i);
	n = arena_alloc(m->arena, arena_pages_of(PAGE, o.c.length), runs, 6);
	assert_true(n > 0);
	o.c.runs = runs;
	o.c.n_runs = (uint32_t)n;
	assert_int_equal(records_fill(m->records, slot, &o.c), 0);
	for (int k = 0; k < n; k++) {
		uint64_t bytes = MIN((uint64_t)runs[k].count * PAGE, o.c.length - at);

		memcpy((char *)arena_base(m->arena) + (uint64_t)runs[k].page * PAGE, o.value + at,
		       bytes);
		at += bytes;
	}
	rec->pins = o.pins;
	rec->hits = o.hits;
	rec->last_ns = o.last_ns;
	records_commit(m->records, slot, NULL, o.commit_ms);
	if (i % 4)
		return;
	l = records_lease_take(m->records);
	l->tenant = o.c.tenant;
	l->id = 7000 + i;
	l->deadline_ns = rec->lease_ns = 20000 + i;
	l->record = slot;
	l->generation = (uint32_t)rec->generation;
	records_lease_commit(l);
}

static void format_write(const struct place *p, const char *name, FILE *out)
{
	unsigned char chunk[CHUNK];
	char path[96];
	uint64_t at = 0;
	FILE *in;

	(void)snprintf(path, sizeof(path), "%s/%s", p->dir, name);
	in = fopen(path, "re");
	assert_non_null(in);
	(void)fseek(in, 0, SEEK_END);
	(void)fprintf(out, "file %s %ld\n", name, ftell(in));
	rewind(in);
	for (; fread(chunk, 1, CHUNK, in) == CHUNK; at += CHUNK) {
		static const unsigned char zeros[CHUNK];

		if (memcmp(chunk, zeros, CHUNK) == 0)
			continue;
		(void)fprintf(out, "%" PRIx64 " ", at);
		for (unsigned i = 0; i < CHUNK; i++)
			(void)fprintf(out, "%02x", chunk[i]);
		(void)fputc('\n', out);
	}
	(void)fclose(in);
}

static void format_make(const char *file)
{
	struct larder_memory *m;
	struct place p;
	FILE *out;

	format_place(&p);
	m = place_open(&p);
	assert_int_equal(records_set_boot(m->records, "the boot of the file"), 0);
	for (uint32_t t = 0; t < 2; t++) {
		uint32_t id;

		assert_int_equal(records_tenant_add(m->records, t ? "beta" : "alpha", &id), 0);
		assert_int_equal(id, t);
	}
	for (uint32_t s = 0; s < 3; s++) {
		struct larder_descriptor d = format_descriptor(s);
		uint32_t id;

		assert_int_equal(records_namespace_add(m->records, s % 2, &"xyz"[s], 1, &d,
						       1600000000000ull + s, &id), 0);
		assert_int_equal(id, s);
	}
	records_namespace_set_flags(m->records, 1, NAMESPACE_SECOND_TOUCH);
	for (uint32_t i = 0; i < OBJECTS; i++)
		format_object(m, i);
	records_heartbeat(m->records, BEAT_NS);
	larder_memory_close(m);
	out = fopen(file, "we");
	assert_non_null(out);
	for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
		format_write(&p, names[i], out);
	assert_int_equal(fclose(out), 0);
	place_remove(&p);
}

/* --- the test ------------------------------------------------------------------------------ */

static void format_unpack(const struct place *p, const char *file)
{
	char line[2 * CHUNK + 64], name[32], path[96], hex[2 * CHUNK + 1];
	FILE *in = fopen(file, "re");
	uint64_t at, size;
	int fd = -1;

	if (!in)
		fail_msg("%s: %s (tests run in the tree's top folder)", file, strerror(errno));
	assert_int_equal(mkdir(p->dir, 0700), 0);
	while (fgets(line, sizeof(line), in)) {
		unsigned char chunk[CHUNK];

		if (sscanf(line, "file %31s %" SCNu64, name, &size) == 2) {
			(void)snprintf(path, sizeof(path), "%s/%s", p->dir, name);
			if (fd >= 0)
				assert_int_equal(close(fd), 0);
			fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
			assert_true(fd >= 0);
			assert_int_equal(posix_fallocate(fd, 0, (off_t)size), 0);
			continue;
		}
		assert_int_equal(sscanf(line, "%" SCNx64 " %64s", &at, hex), 2);
		for (unsigned i = 0; i < CHUNK; i++)
			assert_int_equal(sscanf(hex + 2 * i, "%2hhx", &chunk[i]), 1);
		assert_int_equal(pwrite(fd, chunk, CHUNK, (off_t)at), CHUNK);
	}
	assert_int_equal(close(fd), 0);
	assert_int_equal(fclose(in), 0);
}

static void format_check_directory(struct larder_memory *m)
{
	assert_string_equal(records_tenant_name(m->records, 0), "alpha");
	assert_string_equal(records_tenant_name(m->records, 1), "beta");
	assert_null(records_tenant_name(m->records, 2));
	for (uint32_t s = 0; s < 3; s++) {
		struct larder_descriptor d = format_descriptor(s);
		const struct namespace_record *ns = records_namespace(m->records, s);

		assert_non_null(ns);
		assert_int_equal(ns->tenant, s % 2);
		assert_int_equal(ns->name_len, 1);
		assert_int_equal(ns->name[0], "xyz"[s]);
		assert_int_equal(ns->created_ms, 1600000000000ull + s);
		assert_int_equal(ns->flags, s == 1 ? NAMESPACE_SECOND_TOUCH : 0);
		assert_null(larder_descriptor_difference(&ns->descriptor, &d));
	}
	assert_null(records_namespace(m->records, 3));
}

static void format_check_value(struct larder_memory *m, uint32_t slot, const struct content *o)
{
	const struct record *rec = records_at(m->records, slot);
	struct larder_run runs[6];
	uint32_t check;
	uint64_t at = 0;

	assert_int_equal(rec->n_checks, 1);
	records_checks(m->records, slot, &check, 0, 1);
	assert_int_equal(check, o->check);
	assert_in_range(rec->n_runs, 1, 6);
	records_runs(m->records, slot, runs, 0, rec->n_runs);
	for (uint32_t i = 0; i < rec->n_runs; i++) {
		uint64_t bytes = MIN((uint64_t)runs[i].count * PAGE, o->c.length - at);

		assert_memory_equal((char *)arena_base(m->arena) + (uint64_t)runs[i].page * PAGE,
				    o->value + at, bytes);
		at += bytes;
	}
	assert_int_equal(at, o->c.length);
}

static void format_check_object(struct larder_memory *m, uint32_t i)
{
	static struct content o;
	const struct record *rec;
	uint32_t slot = 0;

	content_make(&o, i);
	/* the key and the namespace name it */
	for (;; slot++) {
		if (slot == records_count(m->records))
			fail_msg("object %u is not there", i);
		rec = records_at(m->records, slot);
		if (rec->state == RECORD_COMMITTED && rec->ns == o.c.ns &&
		    records_key_equal(m->records, slot, o.key, o.c.key_len))
			break;
	}
	assert_int_equal(rec->tenant, o.c.tenant);
	assert_true(rec->length == o.c.length && rec->digest == o.c.digest);
	assert_true(rec->expire_ns == o.c.expire_ns && rec->flags == o.c.flags);
	assert_true(rec->pins == o.pins && rec->hits == o.hits && rec->last_ns == o.last_ns);
	assert_int_equal(rec->commit_time_ms, o.commit_ms);
	/* nobody looked between the last beat and now */
	assert_int_equal(rec->lease_ns, i % 4 ? 0 : 20000 + i + NOW_NS - BEAT_NS);
	format_check_value(m, slot, &o);
}

static void format_check_leases(struct larder_memory *m)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < 8; k++) {
		const struct lease_record *l = records_lease_at(m->records, k);
		uint32_t i = (uint32_t)(l->id - 7000);
		static struct content o;

		if (l->state != LEASE_HELD)
			continue;
		content_make(&o, i);
		assert_true(i < OBJECTS && i % 4 == 0);
		assert_int_equal(l->tenant, o.c.tenant);
		assert_int_equal(l->deadline_ns, 20000 + i + NOW_NS - BEAT_NS);
		assert_true(records_key_equal(m->records, l->record, o.key, o.c.key_len));
		n++;
	}
	assert_int_equal(n, (OBJECTS + 3) / 4);
}

static void format__1_is_read(void **state)
{
	struct records_rebuilt found;
	struct larder_memory *m;
	struct place p;

	format_place(&p);
	format_unpack(&p, "tests/data/format-1.hex");
	m = place_open(&p);
	/* the same boot: what it left is believed */
	assert_int_equal(records_set_boot(m->records, "the boot of the file"), 0);
	assert_int_equal(records_rebuild(m->records, m->arena, NOW_NS, NULL, NULL, NULL, &found),
			 0);
	assert_int_equal(found.objects, OBJECTS);
	assert_int_equal(found.dropped_bad + found.dropped_twice + found.dropped_unfinished, 0);
	format_check_directory(m);
	for (uint32_t i = 0; i < OBJECTS; i++)
		format_check_object(m, i);
	format_check_leases(m);
	larder_memory_close(m);
	place_remove(&p);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(format__1_is_read),
	};

	if (argc == 3 && strcmp(argv[1], "--make") == 0) {
		format_make(argv[2]);
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
