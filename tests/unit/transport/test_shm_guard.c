/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm's guarded copy: a SIGBUS in the peer's memory ends one connection, any other SIGBUS does what
 * it did before. Faults are made with mappings of files that were cut short, and, through the whole
 * transport, with a hole in a hugetlb memfd while the pool is empty.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "shm_pair.h"

#define PAGE 4096u

#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21u << 26)
#endif

/* Two pages of peer memory of which the second is not there. */
static uint8_t *half_gone(void)
{
	int fd = memfd_create("cut", MFD_CLOEXEC);
	uint8_t *map;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 2 * PAGE), 0);
	map = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(map != MAP_FAILED);
	assert_int_equal(ftruncate(fd, PAGE), 0);
	assert_int_equal(close(fd), 0);
	return map;
}

/* cmocka sets its own SIGBUS handler before each test, the guard is installed once: put it back. */
static int guard_on_top(void **state)
{
	static struct sigaction ours;
	static bool known;

	if (known)
		return sigaction(SIGBUS, &ours, NULL);
	known = true;
	if (shm_guard_install() < 0)
		return -1;
	return sigaction(SIGBUS, NULL, &ours);
}

static int slice(uint8_t *peer, size_t len, uint8_t *own, bool to_peer, _Atomic uint32_t *gate)
{
	struct iovec iov = { .iov_base = own, .iov_len = len };
	struct shm_slice s = {
		.gate = gate, .iov = &iov, .niov = 1, .peer = peer, .length = len,
		.to_peer = to_peer,
	};

	return shm_slice_copy(&s);
}

static void slice__survives_memory_that_is_gone_again_and_again(void **state)
{
	static uint8_t own[2 * PAGE];
	uint8_t *peer = half_gone();

	assert_int_equal(guard_on_top(state), 0);
	for (int i = 0; i < 200; i++) {
		assert_int_equal(slice(peer, PAGE, own, i % 2, NULL), 0);
		assert_int_equal(slice(peer, PAGE + 1, own, i % 2, NULL), -EFAULT);
		assert_int_equal(slice(peer + PAGE, PAGE, own, i % 2, NULL), -EFAULT);
		assert_int_equal(slice(peer + PAGE - 64, 64, own, i % 2, NULL), 0);
	}
	assert_int_equal(munmap(peer, 2 * PAGE), 0);
}

/* Large enough for the streaming copy. */
static void slice__survives_in_the_streaming_copy(void **state)
{
	size_t half = 1u << 20;
	int fd = memfd_create("cut", MFD_CLOEXEC);
	uint8_t *own = calloc(1, 2 * half);
	uint8_t *peer;

	assert_true(fd >= 0 && own);
	assert_int_equal(ftruncate(fd, (off_t)(2 * half)), 0);
	peer = mmap(NULL, 2 * half, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(peer != MAP_FAILED);
	assert_int_equal(ftruncate(fd, (off_t)half), 0);
	assert_int_equal(guard_on_top(state), 0);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(slice(peer + half - SHM_SLICE / 2, SHM_SLICE, own, i % 2, NULL),
				 -EFAULT);
		assert_int_equal(slice(peer + half - SHM_SLICE, SHM_SLICE, own, i % 2, NULL), 0);
	}
	assert_int_equal(munmap(peer, 2 * half), 0);
	assert_int_equal(close(fd), 0);
	free(own);
}

static void slice__that_failed_leaves_its_gate(void **state)
{
	static uint8_t own[2 * PAGE];
	_Atomic uint32_t gate = SHM_GATE_OPEN;
	uint8_t *peer = half_gone();

	assert_int_equal(guard_on_top(state), 0);
	assert_int_equal(slice(peer, 2 * PAGE, own, true, &gate), -EFAULT);
	assert_int_equal(gate, SHM_GATE_OPEN);
	gate = SHM_GATE_TAKEN;
	assert_int_equal(slice(peer, 2 * PAGE, own, true, &gate), -ECANCELED);
	assert_int_equal(munmap(peer, 2 * PAGE), 0);
}

static void slice__survives_a_gate_that_is_gone(void **state)
{
	static uint8_t own[PAGE], peer[PAGE];
	uint8_t *gates = half_gone();

	assert_int_equal(guard_on_top(state), 0);
	memset(own, 1, sizeof(own));
	assert_int_equal(slice(peer, PAGE, own, true, (_Atomic uint32_t *)(void *)(gates + PAGE)),
			 -EFAULT);
	assert_int_equal(peer[0], 0);
	assert_int_equal(munmap(gates, 2 * PAGE), 0);
}

/* --- threads: the guard is each one's own -------------------------------------------------- */

static void *guard_thread(void *arg)
{
	uint8_t *own = calloc(1, 2 * PAGE);
	uint8_t *peer = arg;
	long wrong = 0;

	for (int i = 0; i < 500; i++) {
		wrong += slice(peer, PAGE, own, i % 2, NULL) != 0;
		wrong += slice(peer, 2 * PAGE, own, i % 2, NULL) != -EFAULT;
	}
	free(own);
	return (void *)wrong;
}

static void slice__faults_in_two_threads_at_once(void **state)
{
	uint8_t *peer[2] = { half_gone(), half_gone() };
	pthread_t thread[2];

	assert_int_equal(guard_on_top(state), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, guard_thread, peer[i]), 0);
	for (int i = 0; i < 2; i++) {
		void *wrong;

		assert_int_equal(pthread_join(thread[i], &wrong), 0);
		assert_null(wrong);
		assert_int_equal(munmap(peer[i], 2 * PAGE), 0);
	}
}

/* --- a SIGBUS that is not ours: in children, before and after the handler ------------------- */

static int child_status(void (*child)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		/* As in a daemon: without the handlers of cmocka or a sanitizer. */
		(void)signal(SIGBUS, SIG_DFL);
		child();
		_exit(99);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static bool died_of_sigbus(int status)
{
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS;
}

static void touch(const volatile uint8_t *at)
{
	(void)*at;
}

static void child_faults_elsewhere(void)
{
	const uint8_t *gone = half_gone();

	if (shm_guard_install() == 0)
		touch(gone + PAGE);
}

static void child_faults_on_its_own_side(void)
{
	uint8_t *gone = half_gone();
	static uint8_t peer[2 * PAGE];

	if (shm_guard_install() == 0)
		(void)slice(peer, 2 * PAGE, gone, true, NULL);	/* our pages are what is gone */
}

static void child_is_sent_sigbus(void)
{
	if (shm_guard_install() == 0)
		(void)kill(getpid(), SIGBUS);
}

static void child_faults_after_a_guarded_fault(void)
{
	static uint8_t own[2 * PAGE];
	uint8_t *gone = half_gone();

	if (shm_guard_install() == 0 && slice(gone, 2 * PAGE, own, true, NULL) == -EFAULT)
		touch(gone + PAGE);
}

static void exit_42(int sig, siginfo_t *info, void *context)
{
	_exit(42);
}

static void exit_43(int sig)
{
	_exit(43);
}

static void child_has_a_handler(void)
{
	struct sigaction action = { .sa_sigaction = exit_42, .sa_flags = SA_SIGINFO };

	(void)sigaction(SIGBUS, &action, NULL);
	child_faults_elsewhere();
}

static void child_has_a_plain_handler(void)
{
	struct sigaction action = { .sa_handler = exit_43 };

	(void)sigaction(SIGBUS, &action, NULL);
	child_faults_elsewhere();
}

static void child_only_connects(void)
{
	struct transport_config config = { .gates = 4 };
	struct sigaction before, after;
	struct transport_conn *c;
	struct transport *t;

	(void)sigaction(SIGBUS, NULL, &before);
	if (transport_shm()->open(&config, &t) < 0 ||
	    t->ops->connect(t, "/nonexistent/larder.sock", NULL, &c) < 0)
		_exit(1);
	(void)sigaction(SIGBUS, NULL, &after);
	_exit(before.sa_sigaction == after.sa_sigaction ? 44 : 2);
}

/* Runs first: in this process nobody has installed the handler yet. */
static void sigbus__of_others_does_what_it_did(void **state)
{
	int status;

	assert_true(died_of_sigbus(child_status(child_faults_elsewhere)));
	assert_true(died_of_sigbus(child_status(child_faults_on_its_own_side)));
	assert_true(died_of_sigbus(child_status(child_is_sent_sigbus)));
	assert_true(died_of_sigbus(child_status(child_faults_after_a_guarded_fault)));
	status = child_status(child_has_a_handler);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);
	status = child_status(child_has_a_plain_handler);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 43);
	status = child_status(child_only_connects);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 44);
}

/* --- through the transport ------------------------------------------------------------------ */

static void punch(int fd, off_t at, off_t len)
{
	assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, len), 0);
}

/* A hole in an ordinary memfd is filled again by whoever touches it: nothing to see. */
static void hole__in_a_plain_memfd_is_reallocated(void **state)
{
	struct pair *p = pair_connected();
	static uint8_t pages[1u << 20];
	struct shared s;

	memset(pages, 0x77, sizeof(pages));
	shared_join(p, &s, sizeof(pages));
	assert_int_equal(node_move(p, TRANSPORT_WRITE, s.node, pages, sizeof(pages), 0,
				   TRANSPORT_NO_GATE), 1);
	side_step(&p->node, 16);
	punch(s.fd, 0, 1 << 20);		/* in the middle of it */
	pair_settle(p);
	assert_int_equal(side_find(&p->node, TRANSPORT_WRITE_DONE)->status, 0);
	assert_int_equal(s.addr[0], 0);
	assert_memory_equal(s.addr + TRANSPORT_TURN_BYTES, pages + TRANSPORT_TURN_BYTES,
			    sizeof(pages) - TRANSPORT_TURN_BYTES);
	assert_non_null(p->node.conn);
	shared_free(&s);
	pair_free(p);
}

/* A client that punches its gates away has locked the node out, and only for its own requests. */
static void hole__in_the_gates_reads_as_taken(void **state)
{
	struct pair *p = pair_connected();
	struct shm_conn *c = shm_conn_of(p->client.conn);
	uint8_t pages[PAGE];
	struct shared s;

	shared_join(p, &s, PAGE);
	memset(pages, 0x77, sizeof(pages));
	assert_int_equal(p->client.t->ops->gate_arm(p->client.conn, 3), 0);
	assert_int_equal(madvise(c->gates.map, c->gates.bytes, MADV_REMOVE), 0);
	assert_int_equal(node_move(p, TRANSPORT_WRITE, s.node, pages, PAGE, 0, 3), 1);
	pair_settle(p);
	assert_int_equal(side_find(&p->node, TRANSPORT_WRITE_DONE)->status, -ECANCELED);
	assert_int_equal(s.addr[0], 0);
	assert_non_null(p->node.conn);
	shared_free(&s);
	pair_free(p);
}

/* --- hugepages ------------------------------------------------------------------------------ */

#define POOL "/proc/sys/vm/nr_hugepages"

static long pool_before = -1;

static long pool_read(const char *path)
{
	FILE *f = fopen(path, "re");
	long n = -1;

	if (f && fscanf(f, "%ld", &n) != 1)
		n = -1;
	if (f)
		fclose(f);
	return n;
}

static bool pool_write(long n)
{
	FILE *f = fopen(POOL, "we");
	bool ok;

	if (!f)
		return false;
	ok = fprintf(f, "%ld\n", n) > 0;
	return fclose(f) == 0 && ok;
}

static long pool_free(void)
{
	return pool_read("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
}

static int pool_restore(void **state)
{
	if (pool_before >= 0)
		(void)pool_write(pool_before);
	return 0;
}

#define HUGE (2u << 20)

/* A region of two hugepages, both there; the rest of the pool can be emptied by pool_drain. */
static bool huge_shared(struct shared *s)
{
	pool_before = pool_read(POOL);
	if (pool_before < 0 || pool_free() < 0 || !pool_write(pool_before + 2))
		return false;
	memset(s, 0, sizeof(*s));
	s->bytes = 2 * HUGE;
	s->fd = memfd_make(s->bytes, MFD_HUGETLB | MFD_HUGE_2MB, PAIR_SEALS);
	s->addr = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
	if (s->addr == MAP_FAILED) {
		assert_int_equal(close(s->fd), 0);
		return false;
	}
	memset(s->addr, 0x11, s->bytes);
	return true;
}

/* Shrinking the pool takes every page that nobody uses. */
static bool pool_drain(void)
{
	for (int i = 0; i < 100 && pool_free() > 0; i++) {
		if (!pool_write(pool_read(POOL) - pool_free()))
			return false;
	}
	return pool_free() == 0;
}

static void hole__in_a_hugetlb_memfd_with_an_empty_pool(void **state)
{
	static uint8_t pages[HUGE];
	struct pair *p;
	struct shared s;

	if (!huge_shared(&s))
		SKIP_BECAUSE("no hugepages to be had here (root, and 4 MiB of free memory)");
	assert_int_equal(guard_on_top(state), 0);
	p = pair_connected();
	assert_int_equal(shared_add(p, &s), 0);
	pair_settle(p);
	assert_int_equal(shared_import(p, &s), 0);
	pair_settle(p);
	for (int direction = 0; direction < 2; direction++) {
		memset(pages, 0x22, sizeof(pages));
		assert_int_equal(node_move(p, direction ? TRANSPORT_WRITE : TRANSPORT_READ, s.node,
					   pages, HUGE, HUGE / 2, TRANSPORT_NO_GATE), 1);
		pair_settle(p);
		assert_int_equal(p->node.ev[p->node.n - 1].status, 0);
	}
	assert_int_equal(node_move(p, TRANSPORT_WRITE, s.node, pages, HUGE, HUGE / 2, 9), 1);
	assert_int_equal(p->client.t->ops->gate_arm(p->client.conn, 9), 0);
	assert_int_equal(side_send(&p->node, "reply", 5, 4), 1);
	side_step(&p->node, 16);			/* a slice is copied */
	punch(s.fd, HUGE, HUGE);
	if (!pool_drain()) {
		shared_free(&s);
		pair_free(p);
		SKIP_BECAUSE("others are taking hugepages from the pool");
	}
	pair_settle(p);
	assert_int_equal(side_find(&p->node, TRANSPORT_WRITE_DONE)->status, -EFAULT);
	assert_int_equal(side_find(&p->node, TRANSPORT_CONN_DOWN)->status, -EFAULT);
	assert_int_equal(side_find(&p->node, TRANSPORT_TX_DONE)->status, -ECONNRESET);
	assert_int_equal(side_count(&p->client, TRANSPORT_RX), PAIR_RX);	/* all returned */
	assert_non_null(strstr(p->last_line, "SIGBUS"));
	p->node.n = p->client.n = 0;
	pair_connect(p);				/* the node serves on */
	assert_int_equal(side_send(&p->client, "hello", 5, 1), 1);
	pair_settle(p);
	assert_int_equal(side_count(&p->node, TRANSPORT_RX), 1);
	shared_free(&s);
	pair_free(p);
}

/* Made, sized, but without pages: the mapping fails, as it must, and nothing else. */
static void region__of_hugepages_that_are_not_there(void **state)
{
	struct pair *p = pair_connected();
	struct shared s = { .bytes = 2 * HUGE };

	if (pool_free() != 0)
		SKIP_BECAUSE("the pool of hugepages is in use");
	s.fd = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB | MFD_HUGE_2MB);
	if (s.fd < 0)
		SKIP_BECAUSE("no hugetlb memfd here");
	assert_int_equal(ftruncate(s.fd, (off_t)s.bytes), 0);
	assert_int_equal(fcntl(s.fd, F_ADD_SEALS, PAIR_SEALS), 0);
	assert_int_equal(p->client.t->ops->region_add(p->client.conn, p, s.bytes, s.fd, 0, s.opaque,
						      &s.opaque_len, &s.client), -EINVAL);
	assert_int_equal(close(s.fd), 0);
	pair_free(p);
}

/* Hugepages for gates are refused: a hole there could fault for ever. */
static void gates__of_hugepages_are_refused(void **state)
{
	struct shm_frame frame = {
		.type = SHM_FRAME_GATES, .version = SHM_VERSION, .gates = 4,
	};
	struct pair *p;
	struct shared s;
	int sock;

	if (!huge_shared(&s))
		SKIP_BECAUSE("no hugepages to be had here (root, and 4 MiB of free memory)");
	p = pair_new();
	pair_listen(p);
	sock = raw_connect(p->path);
	pair_settle(p);
	assert_int_equal(raw_send(sock, &frame, sizeof(frame), &s.fd, 1), 0);
	pair_settle(p);
	assert_int_equal(side_find(&p->node, TRANSPORT_CONN_DOWN)->status, -EPROTO);
	assert_non_null(strstr(p->last_line, "hugepages"));
	assert_int_equal(close(sock), 0);
	shared_free(&s);
	pair_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sigbus__of_others_does_what_it_did),
		cmocka_unit_test(slice__survives_memory_that_is_gone_again_and_again),
		cmocka_unit_test(slice__survives_in_the_streaming_copy),
		cmocka_unit_test(slice__that_failed_leaves_its_gate),
		cmocka_unit_test(slice__survives_a_gate_that_is_gone),
		cmocka_unit_test(slice__faults_in_two_threads_at_once),
		cmocka_unit_test(hole__in_a_plain_memfd_is_reallocated),
		cmocka_unit_test(hole__in_the_gates_reads_as_taken),
		cmocka_unit_test(region__of_hugepages_that_are_not_there),
		cmocka_unit_test_teardown(hole__in_a_hugetlb_memfd_with_an_empty_pool,
					  pool_restore),
		cmocka_unit_test_teardown(gates__of_hugepages_are_refused, pool_restore),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
