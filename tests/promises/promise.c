/* SPDX-License-Identifier: Apache-2.0 */
/* See promise.h. */
#include "promise.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct node node;

static const char *promise_settings;

static int promise_setup(void **state)
{
	node_setup(&node, promise_settings);
	node_start(&node);
	return 0;
}

static int promise_teardown(void **state)
{
	if (node.pid > 0)
		node_stop(&node);
	return 0;
}

int promise_run(const char *extra, const struct CMUnitTest *tests, size_t n)
{
	int r;

	promise_settings = extra;
	r = _cmocka_run_group_tests("promise", tests, n, promise_setup, promise_teardown);
	node_cleanup(&node);
	return r;
}

uint8_t *promise_value(size_t len, uint64_t seed)
{
	uint8_t *value = malloc(len ? len : 1);

	assert_non_null(value);
	pattern_fill(value, len, seed);
	return value;
}

int promise_put(struct larder_client *c, uint32_t ns, const char *key, size_t len, uint64_t seed)
{
	uint8_t *value = promise_value(len, seed);
	int r = larder_put(c, ns, key, strlen(key), value, len, 10000);

	free(value);
	return r;
}

int promise_get(struct larder_client *c, uint32_t ns, const char *key, size_t len, uint64_t seed)
{
	uint8_t *back = calloc(1, len + 1);
	size_t got = 0;
	int r;

	assert_non_null(back);
	r = larder_get(c, ns, key, strlen(key), back, len + 1, &got, 10000);
	if (r == LARDER_OK) {
		assert_int_equal(got, len);
		assert_int_equal(pattern_check(back, len, seed), -1);
	}
	free(back);
	return r;
}

int promise_ask(struct larder_client *c, uint8_t opcode, uint32_t ns, const char *key,
		uint32_t flags, uint64_t lease_id, uint32_t lease_ms, uint8_t *presence)
{
	struct larder_item item = { .key = key, .key_len = strlen(key) };
	struct larder_batch b = { .opcode = opcode, .ns = ns, .flags = flags,
				  .lease_id = lease_id, .lease_ms = lease_ms,
				  .deadline_ms = 10000, .items = &item, .n_items = 1 };
	int r = larder_run(c, &b);

	if (presence)
		*presence = item.presence;
	return r < 0 ? r : item.status;
}

void promise_flip(uint64_t seed, size_t len, size_t at)
{
	uint8_t *value = promise_value(len, seed), *memory, *found;
	size_t n = len - at < 64 ? len - at : 64;
	unsigned flipped = 0;
	char path[400];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/arena", node.memory);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	memory = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	/* each copy: pages that are free again hold what was in them, too */
	while ((found = memmem(memory, (size_t)st.st_size, value + at, n)) != NULL) {
		__atomic_xor_fetch(found, 0x20, __ATOMIC_SEQ_CST);
		flipped++;
	}
	assert_true(flipped > 0);
	assert_int_equal(munmap(memory, (size_t)st.st_size), 0);
	assert_int_equal(close(fd), 0);
	free(value);
}
