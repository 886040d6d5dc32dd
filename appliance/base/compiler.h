/* SPDX-License-Identifier: Apache-2.0 */
/* Small things that every file wants: no functions of ours behind them. */
#ifndef LARDER_BASE_COMPILER_H
#define LARDER_BASE_COMPILER_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ({ __typeof__(a) a_ = (a); __typeof__(b) b_ = (b); a_ < b_ ? a_ : b_; })
#define MAX(a, b) ({ __typeof__(a) c_ = (a); __typeof__(b) d_ = (b); c_ > d_ ? c_ : d_; })
#define ALIGN_UP(x, to) ((((x) + (to) - 1) / (to)) * (to))
#define ALIGN_DOWN(x, to) (((x) / (to)) * (to))
#define CACHE_LINE 64

/* Takes a pointer out of a variable: the owner changes at this line. */
#define TAKE_PTR(p) ({ __typeof__(p) p_ = (p); (p) = NULL; p_; })
#define TAKE_FD(fd) ({ int fd_ = (fd); (fd) = -1; fd_; })

static inline void cleanup_freep(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_closep(const int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);	/* nothing can be done about it here */
}

#define _cleanup_free_ __attribute__((cleanup(cleanup_freep)))
#define _cleanup_close_ __attribute__((cleanup(cleanup_closep)))
/* On the definition of every larder_* function: objects are built with hidden visibility. */
#define LARDER_PUBLIC __attribute__((visibility("default")))
#define _printf_(fmt, first) __attribute__((format(printf, fmt, first)))

#endif
