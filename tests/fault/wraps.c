/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One wrapper for each call of calls.def: the linker gives them the product's calls (--wrap).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "base/compiler.h"
#include "inject.h"

#define SITE __builtin_return_address(0)

/* A call that fails by a value of its own and errno. */
#define WRAP(type, name, params, args, failed)                                                     \
	type __real_##name params;                                                                 \
	type __wrap_##name params;                                                                 \
	type __wrap_##name params                                                                  \
	{                                                                                          \
		int error = inject_next(FAULT_##name, SITE);                                       \
                                                                                                   \
		if (!error)                                                                        \
			return __real_##name args;                                                 \
		errno = error;                                                                     \
		return failed;                                                                     \
	}

/* --- memory --- */

static void *wrap_counted(void *p)
{
	if (p)
		books_alloc(1);
	return p;
}

#define WRAP_ALLOC(name, params, args)                                                             \
	void *__real_##name params;                                                                \
	void *__wrap_##name params;                                                                \
	void *__wrap_##name params                                                                 \
	{                                                                                          \
		int error = inject_next(FAULT_##name, SITE);                                       \
                                                                                                   \
		if (!error)                                                                        \
			return wrap_counted(__real_##name args);                                   \
		errno = error;                                                                     \
		return NULL;                                                                       \
	}

WRAP_ALLOC(malloc, (size_t n), (n))
WRAP_ALLOC(calloc, (size_t n, size_t size), (n, size))
WRAP_ALLOC(aligned_alloc, (size_t align, size_t n), (align, n))

char *__real_strdup(const char *s);
char *__wrap_strdup(const char *s);
char *__wrap_strdup(const char *s)
{
	if (inject_next(FAULT_strdup, SITE)) {
		errno = ENOMEM;
		return NULL;
	}
	return wrap_counted(__real_strdup(s));
}

void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n)
{
	if (inject_next(FAULT_realloc, SITE)) {
		errno = ENOMEM;
		return NULL;
	}
	return p ? __real_realloc(p, n) : wrap_counted(__real_realloc(p, n));
}

void __real_free(void *p);
void __wrap_free(void *p);
void __wrap_free(void *p)
{
	if (p)
		books_alloc(-1);
	__real_free(p);
}

void *__real_mmap(void *at, size_t length, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t length, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t length, int prot, int flags, int fd, off_t offset)
{
	int error = inject_next(FAULT_mmap, SITE);
	void *p;

	if (error) {
		errno = error;
		return MAP_FAILED;
	}
	p = __real_mmap(at, length, prot, flags, fd, offset);
	if (p != MAP_FAILED)
		books_map(p, length);
	return p;
}

int __real_munmap(void *at, size_t length);
int __wrap_munmap(void *at, size_t length);
int __wrap_munmap(void *at, size_t length)
{
	int r = __real_munmap(at, length);

	if (r == 0)
		books_unmap(at, length);
	return r;
}

void *__real_mremap(void *at, size_t from, size_t to, int flags, ...);
void *__wrap_mremap(void *at, size_t from, size_t to, int flags, ...);
void *__wrap_mremap(void *at, size_t from, size_t to, int flags, ...)
{
	int error = inject_next(FAULT_mremap, SITE);
	void *where = NULL, *p;
	va_list ap;

	if (error) {
		errno = error;
		return MAP_FAILED;
	}
	if (flags & MREMAP_FIXED) {
		va_start(ap, flags);
		where = va_arg(ap, void *);
		va_end(ap);
	}
	p = __real_mremap(at, from, to, flags, where);
	if (p != MAP_FAILED) {
		books_unmap(at, from);
		books_map(p, to);
	}
	return p;
}

WRAP(int, memfd_create, (const char *name, unsigned flags), (name, flags), -1)

/* EINTR is an answer to a request to populate, not to advice about pages. */
int __real_madvise(void *at, size_t length, int advice);
int __wrap_madvise(void *at, size_t length, int advice);
int __wrap_madvise(void *at, size_t length, int advice)
{
	int error = inject_next(FAULT_madvise, SITE);

	if (error == EINTR && advice != 23) {	/* MADV_POPULATE_WRITE */
		inject_unfit();
		error = 0;
	}
	if (!error)
		return __real_madvise(at, length, advice);
	errno = error;
	return -1;
}

/* --- files --- */

static mode_t wrap_mode(int flags, va_list ap)
{
	return flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	int error = inject_next(FAULT_open, SITE);
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = wrap_mode(flags, ap);
	va_end(ap);
	if (!error)
		return __real_open(path, flags, mode);
	errno = error;
	return -1;
}

int __real_openat(int dir, const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, ...)
{
	int error = inject_next(FAULT_openat, SITE);
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = wrap_mode(flags, ap);
	va_end(ap);
	if (!error)
		return __real_openat(dir, path, flags, mode);
	errno = error;
	return -1;
}

WRAP(FILE *, fopen, (const char *path, const char *mode), (path, mode), NULL)
WRAP(int, fflush, (FILE *f), (f), EOF)
WRAP(int, fstat, (int fd, struct stat *st), (fd, st), -1)
WRAP(int, fstatat, (int fd, const char *path, struct stat *st, int flags), (fd, path, st, flags),
     -1)
WRAP(int, lstat, (const char *path, struct stat *st), (path, st), -1)
WRAP(int, stat, (const char *path, struct stat *st), (path, st), -1)
WRAP(int, fstatfs, (int fd, struct statfs *fs), (fd, fs), -1)
WRAP(int, statfs, (const char *path, struct statfs *fs), (path, fs), -1)
WRAP(int, access, (const char *path, int mode), (path, mode), -1)
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode), -1)
WRAP(int, chmod, (const char *path, mode_t mode), (path, mode), -1)
WRAP(int, fchmod, (int fd, mode_t mode), (fd, mode), -1)
WRAP(int, flock, (int fd, int op), (fd, op), -1)
WRAP(int, fallocate, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n), -1)
WRAP(int, posix_fallocate, (int fd, off_t at, off_t n), (fd, at, n), error)
WRAP(int, ftruncate, (int fd, off_t n), (fd, n), -1)
WRAP(int, unlink, (const char *path), (path), -1)
WRAP(int, scandir, (const char *path, struct dirent ***list, int (*pick)(const struct dirent *),
		    int (*order)(const struct dirent **, const struct dirent **)),
     (path, list, pick, order), -1)
WRAP(ssize_t, read, (int fd, void *to, size_t n), (fd, to, n), -1)
WRAP(ssize_t, write, (int fd, const void *from, size_t n), (fd, from, n), -1)

ssize_t __real_pread(int fd, void *to, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void *to, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void *to, size_t n, off_t at)
{
	int error = inject_next(FAULT_pread, SITE);

	if (error == FAULT_SHORT)
		return __real_pread(fd, to, n / 2, at);
	if (!error)
		return __real_pread(fd, to, n, at);
	errno = error;
	return -1;
}

/* --- descriptors and sockets --- */

/* Where a descriptor is watched edge-triggered: EAGAIN and a short count promise a new edge. */
#define WRAP_WATCHED 4096
static struct {
	int epoll;
	struct epoll_event event;
} wrap_watched[WRAP_WATCHED];

static void wrap_edge(int fd)
{
	int __real_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event);

	if (fd < 0 || fd >= WRAP_WATCHED || !(wrap_watched[fd].event.events & EPOLLET))
		return;
	/* fails when it is not watched any more: then nobody waits for an edge */
	(void)__real_epoll_ctl(wrap_watched[fd].epoll, EPOLL_CTL_MOD, fd, &wrap_watched[fd].event);
}

int __real_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	/* taking away asks for no memory */
	int error = op == EPOLL_CTL_DEL ? 0 : inject_next(FAULT_epoll_ctl, SITE);

	if (error == ENOSPC && op == EPOLL_CTL_MOD) {
		inject_unfit();
		error = 0;
	}
	if (error) {
		errno = error;
		return -1;
	}
	if (fd >= 0 && fd < WRAP_WATCHED) {
		wrap_watched[fd].epoll = epoll;
		wrap_watched[fd].event = event ? *event : (struct epoll_event){ 0 };
	}
	return __real_epoll_ctl(epoll, op, fd, event);
}

static bool wrap_is_stream(int fd)
{
	int __real_getsockopt(int fd, int level, int option, void *value, socklen_t *len);
	socklen_t len = sizeof(int);
	int type = 0;

	return __real_getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
	       type == SOCK_STREAM;
}

/* A socket's way to fail, if it is one of its ways; the edge that goes with it. */
static int wrap_socket(int fd, int error)
{
	if (error == FAULT_SHORT && !wrap_is_stream(fd)) {
		inject_unfit();
		return 0;
	}
	if (error == EAGAIN || error == FAULT_SHORT)
		wrap_edge(fd);
	if (error && error != FAULT_SHORT)
		errno = error;
	return error;
}

#define WRAP_SOCKET(type, name, params, args, fewer)                                               \
	type __real_##name params;                                                                 \
	type __wrap_##name params;                                                                 \
	type __wrap_##name params                                                                  \
	{                                                                                          \
		int error = wrap_socket(fd, inject_next(FAULT_##name, SITE));                      \
                                                                                                   \
		if (error == FAULT_SHORT) {                                                        \
			type r = __real_##name fewer;                                              \
                                                                                                   \
			wrap_edge(fd);                                                             \
			return r;                                                                  \
		}                                                                                  \
		return error ? -1 : __real_##name args;                                            \
	}

/* Of a gathering or scattering call: no more than half of the first piece. */
static const struct iovec *wrap_half(const struct iovec *iov)
{
	static __thread struct iovec half;

	half = iov[0];
	half.iov_len = (half.iov_len + 1) / 2;
	return &half;
}

static const struct msghdr *wrap_half_message(const struct msghdr *msg)
{
	static __thread struct msghdr half;

	half = *msg;
	half.msg_iov = (struct iovec *)wrap_half(msg->msg_iov);	/* sendmsg only reads it */
	half.msg_iovlen = 1;
	return &half;
}

WRAP_SOCKET(ssize_t, readv, (int fd, const struct iovec *iov, int n), (fd, iov, n),
	    (fd, wrap_half(iov), 1))
WRAP_SOCKET(ssize_t, recv, (int fd, void *to, size_t n, int flags), (fd, to, n, flags),
	    (fd, to, n, flags))
WRAP_SOCKET(ssize_t, recvmsg, (int fd, struct msghdr *msg, int flags), (fd, msg, flags),
	    (fd, msg, flags))
WRAP_SOCKET(ssize_t, sendmsg, (int fd, const struct msghdr *msg, int flags), (fd, msg, flags),
	    (fd, wrap_half_message(msg), flags))

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...)
{
	/* the others only look at a descriptor that is there */
	int error = command == F_DUPFD_CLOEXEC || command == F_ADD_SEALS ?
			    inject_next(FAULT_fcntl, SITE) : 0;
	va_list ap;
	long arg;

	va_start(ap, command);
	arg = va_arg(ap, long);		/* of calls without one it is whatever, and not looked at */
	va_end(ap);
	if (!error)
		return __real_fcntl(fd, command, arg);
	errno = command == F_DUPFD_CLOEXEC ? error : EBUSY;
	return -1;
}

int __real_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
	int error = inject_next(FAULT_ioctl, SITE);

	if (!error)
		return __real_ioctl(fd, request, arg);
	errno = error;
	return -1;
}

WRAP(int, dup, (int fd), (fd), -1)
WRAP(int, eventfd, (unsigned start, int flags), (start, flags), -1)
WRAP(int, epoll_create1, (int flags), (flags), -1)
WRAP(int, epoll_wait, (int fd, struct epoll_event *events, int max, int ms),
     (fd, events, max, ms), -1)
WRAP(int, poll, (struct pollfd *fds, nfds_t n, int ms), (fds, n, ms), -1)
WRAP(int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1)
WRAP(int, bind, (int fd, const struct sockaddr *sa, socklen_t len), (fd, sa, len), -1)
WRAP(int, listen, (int fd, int backlog), (fd, backlog), -1)
WRAP(int, accept4, (int fd, struct sockaddr *sa, socklen_t *len, int flags), (fd, sa, len, flags),
     -1)
WRAP(int, connect, (int fd, const struct sockaddr *sa, socklen_t len), (fd, sa, len), -1)
WRAP(int, setsockopt, (int fd, int level, int option, const void *value, socklen_t len),
     (fd, level, option, value, len), -1)
WRAP(int, getsockopt, (int fd, int level, int option, void *value, socklen_t *len),
     (fd, level, option, value, len), -1)
WRAP(int, getsockname, (int fd, struct sockaddr *sa, socklen_t *len), (fd, sa, len), -1)
WRAP(int, shutdown, (int fd, int how), (fd, how), -1)

/* --- the rest --- */

WRAP(unsigned, if_nametoindex, (const char *name), (name), 0)
WRAP(int, sigaction, (int sig, const struct sigaction *to, struct sigaction *from),
     (sig, to, from), -1)
WRAP(int, pthread_create, (pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
			   void *user), (thread, attr, fn, user), error)
WRAP(ssize_t, getrandom, (void *to, size_t n, unsigned flags), (to, n, flags), -1)
WRAP(int, getaddrinfo, (const char *node, const char *service, const struct addrinfo *hints,
			struct addrinfo **ret), (node, service, hints, ret), EAI_MEMORY)
WRAP(EVP_MAC *, EVP_MAC_fetch, (OSSL_LIB_CTX *ctx, const char *name, const char *properties),
     (ctx, name, properties), NULL)
WRAP(EVP_MAC_CTX *, EVP_MAC_CTX_new, (EVP_MAC *mac), (mac), NULL)
WRAP(int, EVP_MAC_init, (EVP_MAC_CTX *ctx, const unsigned char *key, size_t len,
			 const OSSL_PARAM *params), (ctx, key, len, params), 0)
WRAP(int, EVP_MAC_update, (EVP_MAC_CTX *ctx, const unsigned char *data, size_t len),
     (ctx, data, len), 0)
WRAP(int, EVP_MAC_final, (EVP_MAC_CTX *ctx, unsigned char *out, size_t *ret_len, size_t size),
     (ctx, out, ret_len, size), 0)
