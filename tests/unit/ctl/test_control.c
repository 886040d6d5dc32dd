/* SPDX-License-Identifier: Apache-2.0 */
/* The asking side of the control socket, against a scripted daemon; the ledger's reader. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include <larder/status.h>

#include "control_protocol.h"
#include "ctl/control.h"
#include "ctl/ledger_read.h"

/* Answers one connection with the given bytes, in two parts, and perhaps a descriptor. */
struct daemon {
	char path[64];
	int listener;
	pthread_t thread;
	const char *reply;
	size_t reply_len;
	int pass_fd;
	bool silent;		/* takes the request and says nothing until the peer gives up */
	char request[128];
};

static void daemon_send(const struct daemon *d, int fd)
{
	union {
		char buffer[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} ancillary = { { 0 } };
	struct iovec iov = { (void *)(uintptr_t)d->reply, d->reply_len / 2 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (d->pass_fd >= 0) {
		struct cmsghdr *h;

		m.msg_control = ancillary.buffer;
		m.msg_controllen = sizeof(ancillary.buffer);
		h = CMSG_FIRSTHDR(&m);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(h), &d->pass_fd, sizeof(int));
	}
	if (d->reply_len < 2)
		return;
	n = sendmsg(fd, &m, MSG_NOSIGNAL);
	/* the peer may have had enough: then there is nobody to tell */
	while (n > 0 && (size_t)n < d->reply_len) {
		ssize_t k = send(fd, d->reply + n, d->reply_len - (size_t)n, MSG_NOSIGNAL);

		if (k <= 0)
			return;
		n += k;
	}
}

static void *daemon_main(void *user)
{
	struct daemon *d = user;
	int fd = accept(d->listener, NULL, NULL);
	size_t n = 0;

	while (fd >= 0 && n < sizeof(d->request) - 1) {
		ssize_t k = read(fd, d->request + n, sizeof(d->request) - 1 - n);

		if (k <= 0)
			break;
		n += (size_t)k;
		if (memchr(d->request, '\n', n))
			break;
	}
	if (d->silent) {
		char byte;

		(void)!read(fd, &byte, 1);	/* returns when the peer closes */
	} else {
		daemon_send(d, fd);
	}
	close(fd);
	return NULL;
}

static void daemon_start(struct daemon *d, const char *reply, size_t len)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	memset(d->request, 0, sizeof(d->request));
	(void)snprintf(d->path, sizeof(d->path), "/tmp/larder-ctl-%d.sock", (int)getpid());
	(void)unlink(d->path);
	strcpy(sa.sun_path, d->path);
	d->reply = reply;
	d->reply_len = len;
	d->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(d->listener >= 0);
	assert_int_equal(bind(d->listener, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(d->listener, 1), 0);
	assert_int_equal(pthread_create(&d->thread, NULL, daemon_main, d), 0);
}

static void daemon_stop(struct daemon *d)
{
	assert_int_equal(pthread_join(d->thread, NULL), 0);
	close(d->listener);
	assert_int_equal(unlink(d->path), 0);
}

static int ask(struct daemon *d, const char *reply, size_t len, json_t **result, int *fd,
	       uint32_t deadline_ms)
{
	struct ctl ctl = { .control = d->path, .deadline_ms = deadline_ms };
	int r;

	daemon_start(d, reply, len);
	r = control_ask(&ctl, "test", LARDER_CONTROL_STATS, result, fd);
	daemon_stop(d);
	return r;
}

static void control_ask__result_and_descriptor(void **state)
{
	static const char reply[] = "{\"ok\":true,\"result\":{\"pages\":17}}\n";
	struct daemon d = { .pass_fd = -1 };
	json_t *result = NULL;
	int fd = -1;

	d.pass_fd = memfd_create("ledger", MFD_CLOEXEC);
	assert_true(d.pass_fd >= 0);
	assert_int_equal(ask(&d, reply, strlen(reply), &result, &fd, 2000), CTL_DONE);
	assert_string_equal(d.request, "{\"cmd\":\"stats\"}\n");
	assert_int_equal(json_integer_value(json_object_get(result, "pages")), 17);
	assert_true(fd >= 0 && fd != d.pass_fd);
	json_decref(result);
	close(fd);
	/* nobody asked for it: it doesn't stay open */
	assert_int_equal(ask(&d, reply, strlen(reply), &result, NULL, 2000), CTL_DONE);
	json_decref(result);
	assert_int_equal(dup(fd), -1);
	close(d.pass_fd);
}

static void control_ask__refusals_map_to_exit_codes(void **state)
{
	static const struct { const char *reply; int code; } cases[] = {
		{ "{\"ok\":false,\"error\":\"no\",\"status\":\"DENIED\"}\n", CTL_REFUSED },
		{ "{\"ok\":false,\"error\":\"no\",\"status\":\"BAD_REQUEST\"}\n", CTL_REFUSED },
		{ "{\"ok\":false,\"error\":\"no\",\"status\":\"INTERNAL\"}\n", CTL_FAILED },
		{ "{\"ok\":false,\"error\":\"no\",\"status\":\"NEWER\"}\n", CTL_FAILED },
		{ "{\"ok\":false,\"status\":\"OK\"}\n", CTL_FAILED },
		{ "{\"ok\":false}\n", CTL_FAILED },
		{ "{\"ok\":1,\"result\":{}}\n", CTL_FAILED },
		{ "[]\n", CTL_FAILED },
		{ "rubbish\n", CTL_FAILED },
		{ "{\"ok\":true,\"result\":", CTL_UNREACHABLE },	/* hung up in the middle */
		{ "", CTL_UNREACHABLE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct daemon d = { .pass_fd = -1 };
		json_t *result = NULL;
		int r = ask(&d, cases[i].reply, strlen(cases[i].reply), &result, NULL, 2000);

		if (r != cases[i].code)
			fail_msg("%s: exit %d", cases[i].reply, r);
		assert_null(result);
	}
}

static void control_ask__bounds_length_and_time(void **state)
{
	struct daemon d = { .pass_fd = -1 };
	size_t n = LARDER_CONTROL_REPLY_MAX + 2;
	char *reply = malloc(n);
	json_t *result = NULL;

	assert_non_null(reply);
	memset(reply, ' ', n);
	assert_int_equal(ask(&d, reply, n, &result, NULL, 10000), CTL_FAILED);
	d.silent = true;
	assert_int_equal(ask(&d, reply, n, &result, NULL, 30), CTL_FAILED);
	assert_null(result);
	free(reply);
}

static void control_ask__a_result_that_is_no_object(void **state)
{
	static const char reply[] = "{\"ok\":true}\n";
	struct daemon d = { .pass_fd = -1 };
	json_t *result = NULL;

	assert_int_equal(ask(&d, reply, strlen(reply), &result, NULL, 2000), CTL_DONE);
	assert_true(json_is_object(result));
	assert_int_equal(json_object_size(result), 0);
	json_decref(result);
}

/* A ledger of two writers in a memfd; the caller closes it and frees the picture. */
static int ledger_make(unsigned char **ret, size_t *ret_size)
{
	static const size_t sizes[LARDER_SECTIONS] = {
		2 * LARDER_LEDGER_TENANTS * sizeof(struct larder_usage),
		LARDER_LEDGER_TENANTS * sizeof(struct larder_gauges),
		2 * sizeof(struct larder_latency),
		LARDER_LEDGER_TENANTS * LARDER_LEDGER_LIMITS * 8,
		LARDER_LEDGER_TENANTS * LARDER_LEDGER_LIMITS * 8,
		LARDER_LEDGER_TENANTS * sizeof(struct larder_ledger_name),
		sizeof(struct larder_node_section),
	};
	struct larder_ledger_header h = {
		.magic = LARDER_LEDGER_MAGIC, .layout = LARDER_LEDGER_LAYOUT, .writers = 2,
		.tenants = LARDER_LEDGER_TENANTS,
	};
	size_t at = 4096;
	int fd = memfd_create("ledger", MFD_CLOEXEC);

	assert_true(fd >= 0);
	for (unsigned i = 0; i < LARDER_SECTIONS; i++) {
		h.section[i].offset = at;
		h.section[i].size = sizes[i];
		at += (sizes[i] + 4095) / 4096 * 4096;
	}
	assert_int_equal(ftruncate(fd, (off_t)at), 0);
	*ret = mmap(NULL, at, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(*ret != MAP_FAILED);
	memcpy(*ret, &h, sizeof(h));
	*ret_size = at;
	return fd;
}

static void ledger_reader__sums_over_writers(void **state)
{
	struct ledger_reader l = LEDGER_READER_NULL;
	struct larder_ledger_header h;
	struct larder_usage *usage, sum;
	struct larder_ledger_name *names;
	struct larder_gauges *gauges, g;
	struct larder_latency *latency;
	unsigned char *base;
	char name[40];
	size_t size;
	int fd = ledger_make(&base, &size);

	memcpy(&h, base, sizeof(h));
	usage = (void *)(base + h.section[LARDER_SECTION_USAGE].offset);
	names = (void *)(base + h.section[LARDER_SECTION_NAMES].offset);
	gauges = (void *)(base + h.section[LARDER_SECTION_GAUGES].offset);
	latency = (void *)(base + h.section[LARDER_SECTION_LATENCY].offset);
	usage[3].get_hits = 5;
	usage[LARDER_LEDGER_TENANTS + 3].get_hits = 7;
	usage[LARDER_LEDGER_TENANTS + 4].get_hits = 1000;
	gauges[3].objects = 11;
	memset(names[3].tenant, 'x', sizeof(names[3].tenant));	/* not terminated */
	assert_int_equal(ledger_reader_open(fd, &l), 0);
	ledger_reader_usage(&l, 3, &sum);
	assert_int_equal(sum.get_hits, 12);
	ledger_reader_gauges(&l, 3, &g);
	assert_int_equal(g.objects, 11);
	ledger_reader_name(&l, 3, name);
	assert_int_equal(strlen(name), 39);
	latency[0].buckets[LARDER_LATENCY_GET][20] = 1;
	latency[1].buckets[LARDER_LATENCY_GET][20] = 2;
	{
		struct larder_latency *sums = calloc(1, sizeof(*sums));

		assert_non_null(sums);
		ledger_reader_latency(&l, sums);
		assert_int_equal(sums->buckets[LARDER_LATENCY_GET][20], 3);
		free(sums);
	}
	ledger_reader_close(&l);
	munmap(base, size);
	close(fd);
}

static void ledger_reader__refuses_what_is_no_ledger(void **state)
{
	struct larder_ledger_header good, bad;
	struct ledger_reader l = LEDGER_READER_NULL;
	unsigned char *base;
	size_t size;
	int fd = ledger_make(&base, &size);

	memcpy(&good, base, sizeof(good));
	for (unsigned i = 0; i < 5 + 3 * LARDER_SECTIONS; i++) {
		unsigned section = (i - 5) / 3;

		bad = good;
		switch (i) {
		case 0: bad.magic++; break;
		case 1: bad.layout++; break;
		case 2: bad.writers = 0; break;
		case 3: bad.writers = LARDER_LEDGER_WRITERS_MAX + 1; break;
		case 4: bad.tenants = LARDER_LEDGER_TENANTS + 1; break;
		default:
			if (i % 3 == 0)
				bad.section[section].offset = size;
			else if (i % 3 == 1)
				bad.section[section].size = UINT64_MAX;
			else
				bad.section[section].offset += 4;
		}
		memcpy(base, &bad, sizeof(bad));
		if (ledger_reader_open(fd, &l) != -EPROTO)
			fail_msg("case %u was taken", i);
	}
	memcpy(base, &good, sizeof(good));
	assert_int_equal(ledger_reader_open(fd, &l), 0);
	ledger_reader_close(&l);
	assert_int_equal(ftruncate(fd, 16), 0);
	assert_int_equal(ledger_reader_open(fd, &l), -EPROTO);
	munmap(base, size);
	close(fd);
}

static void ledger_quantile__of_an_interval(void **state)
{
	uint64_t before[LARDER_LATENCY_BUCKETS] = { 0 }, after[LARDER_LATENCY_BUCKETS] = { 0 };

	/* the bounds that the layout documents: 0 to 4, then four an octave */
	assert_int_equal(ledger_bucket_bound(0), 0);
	assert_int_equal(ledger_bucket_bound(4), 4);
	assert_int_equal(ledger_bucket_bound(8), 8);
	assert_int_equal(ledger_bucket_bound(9), 10);
	assert_int_equal(ledger_bucket_bound(12), 16);
	assert_int_equal(ledger_bucket_bound(16), 32);
	assert_int_equal(ledger_quantile(before, after, 0.5), 0);
	before[100] = after[100] = 1000;	/* all of it earlier */
	after[20] = 99;
	after[40] = 1;
	assert_int_equal(ledger_quantile(before, after, 0.5), ledger_bucket_bound(20));
	assert_int_equal(ledger_quantile(before, after, 0.99), ledger_bucket_bound(20));
	assert_int_equal(ledger_quantile(before, after, 0.999), ledger_bucket_bound(40));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(control_ask__result_and_descriptor),
		cmocka_unit_test(control_ask__refusals_map_to_exit_codes),
		cmocka_unit_test(control_ask__bounds_length_and_time),
		cmocka_unit_test(control_ask__a_result_that_is_no_object),
		cmocka_unit_test(ledger_reader__sums_over_writers),
		cmocka_unit_test(ledger_reader__refuses_what_is_no_ledger),
		cmocka_unit_test(ledger_quantile__of_an_interval),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
