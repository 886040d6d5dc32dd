/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an object costs, measured: memory of the process and of the record file over the number of
 * objects, and the time in which a node that was killed with them serves them again.
 *
 *	LARDER_OBJECTS=100000	how many; several, separated by spaces, one node after another
 *	LARDER_JSON=FILE	figures, a line each (make bench-memory: one and two million)
 *
 * Values are of one small page, so an object costs one record. The record file and the heap are
 * counted as the kernel has them. Two things are told apart: the policy's memory of what it
 * evicted, and what a node without any object takes, which a few objects can not carry.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "usage.h"
#include "harness.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OBJECTS "10000"
#define MEASURE false		/* a sanitizer's own memory and time */
#else
#define OBJECTS "100000"
#define MEASURE true
#endif

#define PAGE 4096u
#define BATCH 250u
#define BYTES_PER_OBJECT_MAX 512u
#define CARRIES_ALL 500000u	/* that many objects carry what a node takes without any, too */
/*
 * One million in a second. The processor's time in user mode may be twice that, as neighbours cost
 * caches; it is what a rebuild takes, as taking the memory is the kernel's work. The clock on the
 * wall is held to it only with very many objects, on a machine that does nothing else.
 */
#define REBUILD_NS_PER_OBJECT 1000u
#define REBUILD_FIXED_MS 40u

static struct node node;

static void key_of(uint64_t i, char key[33])
{
	snprintf(key, 33, "%016" PRIx64 "%016" PRIx64, i * UINT64_C(0x9e3779b97f4a7c15),
		 i);
}

/* A batch of PUTs or of EXISTS; every one must say OK. */
static void run_batch(struct larder_client *c, uint32_t ns, uint8_t opcode, uint64_t from,
		      unsigned n)
{
	static struct larder_item items[BATCH];
	static char keys[BATCH][33];
	static uint64_t values[BATCH][8];
	static struct iovec iov[BATCH];
	struct larder_batch b = { .opcode = opcode, .ns = ns, .deadline_ms = 30000, .items = items,
				  .n_items = n };

	for (unsigned i = 0; i < n; i++) {
		key_of(from + i, keys[i]);
		pattern_fill(values[i], sizeof(values[i]), from + i);
		iov[i] = (struct iovec){ values[i], sizeof(values[i]) };
		items[i] = (struct larder_item){ .key = keys[i], .key_len = 32, .iov = &iov[i],
						 .iovcnt = opcode == LARDER_OP_PUT };
	}
	assert_int_equal(larder_run(c, &b), LARDER_OK);
	if (opcode == LARDER_OP_EXISTS)
		assert_int_equal(b.leading_run, n);
}

static void all_of(uint64_t objects, uint8_t opcode)
{
	struct larder_client *c = node_client(&node, NODE_SHM);
	uint32_t ns = node_namespace(c, "objects");

	for (uint64_t i = 0; i < objects; i += BATCH)
		run_batch(c, ns, opcode, i, objects - i < BATCH ? (unsigned)(objects - i) : BATCH);
	larder_close(c);
}

static uint64_t file_bytes(const char *name)
{
	char path[400];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", node.memory, name);
	assert_int_equal(stat(path, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

struct told {
	unsigned long long found, dropped, rebuild_ms, ghost_kib;
};

/* What the node's log says of this start. */
static struct told told(void)
{
	FILE *f = fopen(node.log, "r");
	struct told t = { 0 };
	char line[512];

	assert_non_null(f);
	assert_int_equal(fseek(f, node.log_from, SEEK_SET), 0);
	while (fgets(line, sizeof(line), f)) {
		const char *objects = strstr(line, "objects: ");
		const char *rebuilt = strstr(line, "objects rebuilt in ");
		const char *ghost = strstr(line, "remembers what it evicted in ");

		if (objects)
			(void)sscanf(objects, "objects: %llu found, %llu records dropped",
				     &t.found, &t.dropped);
		if (rebuilt)
			(void)sscanf(rebuilt, "objects rebuilt in %llu ms", &t.rebuild_ms);
		if (ghost)
			(void)sscanf(ghost, "remembers what it evicted in %llu", &t.ghost_kib);
	}
	fclose(f);
	return t;
}

/* Of the thread that starts the node; in steps of 10 ms. */
static uint64_t user_ms(void)
{
	char path[64], line[1024];
	unsigned long ticks = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)node.pid, (int)node.pid);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	fclose(f);
	assert_int_equal(sscanf(strrchr(line, ')'), ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u "
				"%lu", &ticks), 1);
	return ticks * 1000 / (unsigned long)sysconf(_SC_CLK_TCK);
}

/* Bytes: of the record file, and of the heap without what is told apart. */
struct figures {
	uint64_t objects, records, heap, heap_restarted, ghost;
	uint64_t rebuild_ms, ready_ms, cpu_ms;
};

static void publish(const struct figures *f)
{
	const char *path = getenv("LARDER_JSON");
	double per = (double)f->objects;
	char line[512];

	snprintf(line, sizeof(line), "{\"objects\": %" PRIu64 ", \"bytes_per_object\": %.1f, "
		 "\"of_records\": %.1f, \"of_heap\": %.1f, \"of_heap_after_restart\": %.1f, "
		 "\"beside_it_memory_of_evictions\": %.1f, \"rebuild_ms\": %" PRIu64
		 ", \"cpu_user_ms\": %" PRIu64 ", \"exec_to_ready_ms\": %" PRIu64 "}", f->objects,
		 (double)(f->records + f->heap) / per, (double)f->records / per,
		 (double)f->heap / per, (double)f->heap_restarted / per, (double)f->ghost / per,
		 f->rebuild_ms, f->cpu_ms, f->ready_ms);
	print_message("%s\n", line);
	if (path) {
		FILE *out = fopen(path, "a");

		assert_non_null(out);
		fprintf(out, "%s\n", line);
		assert_int_equal(fclose(out), 0);
	}
}

static struct figures measure(uint64_t objects)
{
	struct figures f = { .objects = objects };
	char extra[256];
	uint64_t from;

	snprintf(extra, sizeof(extra), "[memory]\npages = %" PRIu64 "\npage_size = %u\n"
		 "[engine]\nreserve = 0\n", objects + objects / 100, PAGE);
	node_setup(&node, extra);
	node_start(&node);
	all_of(objects, LARDER_OP_PUT);
	assert_int_equal(node_stat(&node, "objects", "objects"), objects);
	assert_int_equal(node_stat(&node, "objects", "evictions"), 0);
	f.records = file_bytes("records");
	f.ghost = told().ghost_kib * 1024;
	f.heap = usage_settled(node.pid).anon_kib * 1024 - f.ghost;
	node_kill(&node);
	from = now_ms();
	node_start(&node);
	f.ready_ms = now_ms() - from;
	f.cpu_ms = user_ms();
	assert_int_equal(told().found, objects);
	assert_int_equal(told().dropped, 0);
	f.rebuild_ms = told().rebuild_ms;
	all_of(objects, LARDER_OP_EXISTS);
	f.heap_restarted = usage_settled(node.pid).anon_kib * 1024 - f.ghost;
	node_stop(&node);
	node_cleanup(&node);
	publish(&f);
	return f;
}

static void within_bounds(const struct figures *f, const struct figures *few)
{
	uint64_t bytes = f->records + f->heap, restarted = f->records + f->heap_restarted;
	uint64_t objects = f->objects;

	if (objects < CARRIES_ALL) {
		objects -= few->objects;
		bytes -= few->records + few->heap;
		restarted -= few->records + few->heap_restarted;
	}
	assert_true(bytes <= objects * BYTES_PER_OBJECT_MAX);
	assert_true(restarted <= objects * BYTES_PER_OBJECT_MAX);
	assert_true(f->cpu_ms <=
		    2 * REBUILD_NS_PER_OBJECT * f->objects / 1000000 + REBUILD_FIXED_MS);
	if (f->objects >= CARRIES_ALL)
		assert_true(f->rebuild_ms <= REBUILD_NS_PER_OBJECT * f->objects / 1000000);
}

static void an_object_costs_512_bytes__and_a_microsecond_at_restart(void **state)
{
	struct figures few = measure(1000);
	char *save = NULL, list[200];

	snprintf(list, sizeof(list), "%s",
		 getenv("LARDER_OBJECTS") ? getenv("LARDER_OBJECTS") : OBJECTS);
	for (char *one = strtok_r(list, " ", &save); one; one = strtok_r(NULL, " ", &save)) {
		struct figures f = measure(strtoull(one, NULL, 10));

		if (MEASURE)
			within_bounds(&f, &few);
	}
}

static int teardown(void **state)
{
	node_cleanup(&node);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_object_costs_512_bytes__and_a_microsecond_at_restart),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
