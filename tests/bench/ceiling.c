/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the machine can do without us, measured the way our figures are measured.
 *
 *	ceiling memcpy SIZE SET DEST SECONDS
 *		one thread copies values of SIZE with the C library's memcpy from a shared mapping
 *		of SET bytes (tmpfs, as the arena) into one of DEST bytes (memfd, as a region)
 *	ceiling socket SIZE SET DEST SECONDS DEPTH
 *		a process answers each 88-byte request on a loopback TCP connection with SIZE
 *		bytes from SET; another keeps DEPTH requests under way and receives into DEST
 *	ceiling socket-put SIZE SET DEST SECONDS DEPTH
 *		the other way: values are sent, each acknowledged with 48 bytes
 *
 * Prints one figure: GB/s (10^9 bytes a second).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REQUEST 88
#define ACKNOWLEDGEMENT 48

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void die(const char *what)
{
	fprintf(stderr, "ceiling: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint8_t *mapping(size_t size, const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC);
	uint8_t *p;

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		die(name);
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (p == MAP_FAILED)
		die(name);
	close(fd);
	for (size_t i = 0; i < size; i += 8)
		*(uint64_t *)(p + i) = i * 0x9e3779b97f4a7c15ull;
	return p;
}

static void measure_memcpy(size_t size, size_t set, size_t dest, double seconds)
{
	uint8_t *from = mapping(set, "set"), *to = mapping(dest, "dest");
	size_t n_from = set / size, n_to = dest / size;
	uint64_t bytes = 0;
	double start, end;

	for (size_t i = 0; i < n_from; i++)	/* once unmeasured: every page and table is there */
		memcpy(to + (i % n_to) * size, from + i * size, size);
	start = now();
	do {
		for (size_t i = 0; i < n_from; i++) {
			memcpy(to + (i % n_to) * size, from + i * size, size);
			__asm__ volatile("" : : "r"(to) : "memory");
		}
		bytes += n_from * size;
		end = now();
	} while (end - start < seconds);
	printf("%.3f\n", (double)bytes / (end - start) / 1e9);
}

static bool send_all(int fd, const uint8_t *p, size_t len)
{
	while (len) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

static bool recv_all(int fd, uint8_t *p, size_t len)
{
	while (len) {
		ssize_t n = recv(fd, p, len, 0);

		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

static void serve(int fd, size_t size, size_t set, bool put)
{
	uint8_t *memory = mapping(set, "set");
	uint8_t small[REQUEST] = { 0 };
	size_t n = set / size;

	for (size_t i = 0;; i++) {
		if (put ? !recv_all(fd, memory + (i % n) * size, size) ||
				  !send_all(fd, small, ACKNOWLEDGEMENT)
			: !recv_all(fd, small, REQUEST) ||
				  !send_all(fd, memory + (i % n) * size, size))
			_exit(0);
	}
}

static void measure_socket(size_t size, size_t set, size_t dest, double seconds, unsigned depth,
			   bool put)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd, one = 1;
	uint8_t small[REQUEST] = { 0 };
	uint8_t *to;
	size_t n = dest / size;
	uint64_t done = 0;
	double start = 0, end;
	pid_t child;

	if (listener < 0 || bind(listener, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    listen(listener, 1) < 0 || getsockname(listener, (struct sockaddr *)&a, &len) < 0)
		die("listen");
	child = fork();
	if (child < 0)
		die("fork");
	if (child == 0) {
		fd = accept(listener, NULL, NULL);
		if (fd < 0)
			_exit(1);
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		serve(fd, size, set, put);
	}
	to = mapping(dest, "dest");
	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		die("connect");
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	for (unsigned i = 0; !put && i < depth; i++)
		if (!send_all(fd, small, REQUEST))
			die("send");
	for (uint64_t i = 0;; i++) {
		/* one pass over the set is warm-up */
		if (i == set / size + depth)
			start = now();
		if (put) {
			if (!send_all(fd, to + (i % n) * size, size))
				die("send");
			if (i >= depth && !recv_all(fd, small, ACKNOWLEDGEMENT))
				die("receive");
		} else {
			if (!recv_all(fd, to + (i % n) * size, size) ||
			    !send_all(fd, small, REQUEST))
				die("receive");
		}
		if (start > 0) {
			done++;
			end = now();
			if (end - start >= seconds)
				break;
		}
	}
	printf("%.3f\n", (double)(done * size) / (end - start) / 1e9);
	close(fd);
	close(listener);
	(void)waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
	size_t size, set, dest;

	if (argc < 6) {
		fprintf(stderr, "ceiling memcpy|socket|socket-put SIZE SET DEST SECONDS [DEPTH]\n");
		return 2;
	}
	size = strtoull(argv[2], NULL, 10);
	set = strtoull(argv[3], NULL, 10);
	dest = strtoull(argv[4], NULL, 10);
	if (!size || set < size || dest < size) {
		fprintf(stderr, "ceiling: sets must hold at least one value\n");
		return 2;
	}
	if (strcmp(argv[1], "memcpy") == 0)
		measure_memcpy(size, set, dest, atof(argv[5]));
	else
		measure_socket(size, set, dest, atof(argv[5]),
			       argc > 6 ? (unsigned)atoi(argv[6]) : 2,
			       strcmp(argv[1], "socket-put") == 0);
	return 0;
}
