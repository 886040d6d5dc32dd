/* SPDX-License-Identifier: Apache-2.0 */
/*
 * malloc and its relatives, defined here and handed on to glibc's own: the documented way to
 * replace them in a program, with nothing replaced but the count.
 */
#include "alloc.h"

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)

bool alloc_can_count(void)
{
	return false;
}

uint64_t alloc_count(void)
{
	return 0;
}

#else

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void *malloc(size_t size);
void *calloc(size_t n, size_t size);
void *realloc(void *old, size_t size);
void *aligned_alloc(size_t alignment, size_t size);

static uint64_t calls;

static void count_one(void)
{
	__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
}

void *malloc(size_t size)
{
	count_one();
	return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	count_one();
	return __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
	count_one();
	return __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	count_one();
	return __libc_memalign(alignment, size);
}

bool alloc_can_count(void)
{
	return true;
}

uint64_t alloc_count(void)
{
	return __atomic_load_n(&calls, __ATOMIC_RELAXED);
}

#endif
