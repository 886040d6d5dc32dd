/* SPDX-License-Identifier: Apache-2.0 */
/* Small things that every file of larderctl wants. */
#ifndef LARDERCTL_UTIL_H
#define LARDERCTL_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ({ __typeof__(a) a_ = (a); __typeof__(b) b_ = (b); a_ < b_ ? a_ : b_; })
#define MAX(a, b) ({ __typeof__(a) x_ = (a); __typeof__(b) y_ = (b); x_ > y_ ? x_ : y_; })
#define TAKE_PTR(p) ({ __typeof__(p) p_ = (p); (p) = NULL; p_; })
#define TAKE_FD(fd) ({ int fd_ = (fd); (fd) = -1; fd_; })
#define container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))

#define NSEC_PER_SEC 1000000000ull
#define NSEC_PER_MSEC 1000000ull
#define NSEC_PER_USEC 1000ull

static inline void util_freep(void *p)
{
	free(*(void **)p);
}

static inline void util_closep(const int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);	/* nothing can be done about it here */
}

#define _cleanup_free_ __attribute__((cleanup(util_freep)))
#define _cleanup_close_ __attribute__((cleanup(util_closep)))
#define _printf_(fmt, first) __attribute__((format(printf, fmt, first)))

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t util_now_ns(void);

/* "64K", "4MiB", "1G", "4096": powers of 1024. 0, -EINVAL, -ERANGE. */
int util_parse_size(const char *text, uint64_t *ret);
/* "500ms", "10s", "2m", "1.5": seconds when there is no unit. 0, -EINVAL, -ERANGE. */
int util_parse_duration_ns(const char *text, uint64_t *ret);
/* A whole decimal number between the bounds. 0, -EINVAL, -ERANGE. */
int util_parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *ret);
/* A finite decimal fraction >= 0. 0, -EINVAL. */
int util_parse_real(const char *text, double *ret);

#define UTIL_TEXT 32		/* room for what the two below write */
/* "17 B", "4.0 MiB". Returns @text. */
const char *util_format_bytes(uint64_t bytes, char text[UTIL_TEXT]);
/* "950 ns", "12.3 us", "4.56 ms", "7.8 s". Returns @text. */
const char *util_format_ns(uint64_t ns, char text[UTIL_TEXT]);

/* All of @fd up to @max bytes, allocated. 0, -EFBIG when there is more, -errno. */
int util_read_all(int fd, size_t max, void **ret, size_t *ret_len);
/* All of @data. 0 or -errno. */
int util_write_all(int fd, const void *data, size_t len);

/* splitmix64's finalizer: a bijection of 64-bit words that looks random. */
static inline uint64_t util_mix64(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

/* Pseudo-random words from a seed (splitmix64): the state is the only thing it has. */
static inline uint64_t util_random64(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15ull;
	return util_mix64(*state);
}

/* Uniform in [0, bound), bound > 0: the high half of a product, biased by less than 2^-32. */
static inline uint64_t util_random_below(uint64_t *state, uint64_t bound)
{
	return (uint64_t)(((unsigned __int128)util_random64(state) * bound) >> 64);
}

#endif
