/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions that a peer spoils. A hole in a hugetlb memfd whose pool is exhausted is a SIGBUS in the
 * node's copy: that connection ends and nothing else. A hole in a plain memfd is filled again by
 * the kernel, and the region's bytes stay what they are. (A memfd without the seal, with holes from
 * the start, or that is none, is refused: tests/unit/transport/test_shm_hostile.c.)
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "raw_shm.h"

#define VALUE (4u << 20)
#define HUGE (2u << 20)

static struct node node;
static uint32_t ns;

static int make_memfd(unsigned flags, size_t size, int seals)
{
	int fd = memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)size) < 0 || fallocate(fd, 0, 0, (off_t)size) < 0 ||
	    fcntl(fd, F_ADD_SEALS, seals) < 0) {
		int r = -errno;

		close(fd);
		return r;
	}
	return fd;
}

static void the_node_is_well(void)
{
	struct larder_client *c = node_client(&node, NODE_SHM);
	uint8_t *back = malloc(VALUE);
	size_t got;

	assert_int_equal(node_namespace(c, "regions"), ns);
	assert_int_equal(larder_get(c, ns, "value", 5, back, VALUE, &got, 5000), LARDER_OK);
	assert_int_equal(pattern_check(back, VALUE, 1), -1);
	free(back);
	larder_close(c);
	assert_int_equal(node_stat_wait(&node, "connections", "connections", 0), 0);
	assert_int_equal(node_stat_wait(&node, "connections", "regions", 0), 0);
	assert_int_equal(node_stat_wait(&node, "objects", "references", 0), 0);
}

static void hole_in_a_plain_region__is_filled_again(void **state)
{
	struct raw_shm r;
	int fd = make_memfd(0, VALUE, F_SEAL_SHRINK);
	uint8_t *p;

	assert_true(fd >= 0);
	p = mmap(NULL, VALUE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	raw_shm_open(&r, &node);
	assert_int_equal(raw_shm_region(&r, 1, p, VALUE, fd), LARDER_OK);
	assert_int_equal(node_stat(&node, "connections", "region_bytes"), VALUE);
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096 * i,
					   VALUE / 2), 0);
		assert_int_equal(raw_shm_get(&r, ns, "value", 1, VALUE), LARDER_OK);
		assert_int_equal(pattern_check(p, VALUE, 1), -1);
	}
	assert_int_equal(node_stat(&node, "connections", "region_bytes"), VALUE);
	raw_shm_close(&r);
	munmap(p, VALUE);
	close(fd);
	the_node_is_well();
}

static long read_pool(void)
{
	FILE *f = fopen("/proc/sys/vm/nr_hugepages", "r");
	long n = -1;

	if (f) {
		if (fscanf(f, "%ld", &n) != 1)
			n = -1;
		fclose(f);
	}
	return n;
}

static bool write_pool(long n)
{
	FILE *f = fopen("/proc/sys/vm/nr_hugepages", "w");
	bool good;

	if (!f)
		return false;
	good = fprintf(f, "%ld\n", n) > 0;
	return fclose(f) == 0 && good;
}

static void hole_in_a_hugetlb_region__ends_that_connection_only(void **state)
{
	long before = read_pool();
	struct raw_shm r;
	uint8_t *p, *thief;
	int fd;

	if (before < 0 || !write_pool(before + VALUE / HUGE)) {
		print_message("skipped: /proc/sys/vm/nr_hugepages can not be written here\n");
		skip();
	}
	fd = make_memfd(MFD_HUGETLB, VALUE, F_SEAL_SHRINK);
	if (fd < 0) {
		write_pool(before);
		print_message("skipped: no hugepages to be had: %s\n", strerror(-fd));
		skip();
	}
	p = mmap(NULL, VALUE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	raw_shm_open(&r, &node);
	assert_int_equal(raw_shm_region(&r, 1, p, VALUE, fd), LARDER_OK);
	assert_int_equal(raw_shm_get(&r, ns, "value", 1, VALUE), LARDER_OK);
	assert_int_equal(pattern_check(p, VALUE, 1), -1);
	/* punch the second page out, and let nobody have one any more */
	assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, HUGE, HUGE), 0);
	thief = mmap(NULL, HUGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (thief != MAP_FAILED)
		thief[0] = 1;
	write_pool(before);	/* surplus pages go with their owners */
	assert_int_equal(raw_shm_get(&r, ns, "value", 1, VALUE), LARDER_DISCONNECTED);
	assert_true(r.down);
	raw_shm_close(&r);
	munmap(p, VALUE);
	close(fd);
	if (thief != MAP_FAILED)
		munmap(thief, HUGE);
	write_pool(before);
	the_node_is_well();
	assert_int_equal(read_pool(), before);
}

static int setup(void **state)
{
	struct larder_client *c;
	uint8_t *value = malloc(VALUE);

	node_setup(&node, NULL);
	node_start(&node);
	c = node_client(&node, NODE_TCP);
	ns = node_namespace(c, "regions");
	pattern_fill(value, VALUE, 1);
	assert_int_equal(larder_put(c, ns, "value", 5, value, VALUE, 5000), LARDER_OK);
	free(value);
	larder_close(c);
	return 0;
}

static int teardown(void **state)
{
	node_stop(&node);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hole_in_a_plain_region__is_filled_again),
		cmocka_unit_test(hole_in_a_hugetlb_region__ends_that_connection_only),
	};
	int r = cmocka_run_group_tests(tests, setup, teardown);

	node_cleanup(&node);
	return r;
}
