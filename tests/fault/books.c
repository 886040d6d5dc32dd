/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the product holds: allocations by count, mappings by their ranges. Mappings overlap and are
 * given back in pieces (mem/memory_file.c reserves more than it keeps): they are a set of ranges.
 */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "inject.h"

#define BOOKS_RANGES 4096u

struct range {
	uintptr_t from, to;
};

static pthread_mutex_t books_lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t books_allocations;
static struct range books_range[BOOKS_RANGES];
static unsigned books_n;

static void books_add(uintptr_t from, uintptr_t to)
{
	if (from >= to)
		return;
	if (books_n == BOOKS_RANGES) {
		(void)fprintf(stderr, "fault: more than %u mappings\n", BOOKS_RANGES);
		abort();
	}
	books_range[books_n++] = (struct range){ from, to };
}

static void books_cut(uintptr_t from, uintptr_t to)
{
	for (unsigned i = 0; i < books_n;) {
		struct range r = books_range[i];

		if (r.to <= from || r.from >= to) {
			i++;
			continue;
		}
		books_range[i] = books_range[--books_n];
		books_add(r.from, MIN(r.to, from));
		books_add(MAX(r.from, to), r.to);
	}
}

static uintptr_t books_end(void *at, size_t length)
{
	return ALIGN_UP((uintptr_t)at + length, (uintptr_t)4096);
}

void books_map(void *at, size_t length)
{
	(void)pthread_mutex_lock(&books_lock);
	books_cut((uintptr_t)at, books_end(at, length));
	books_add((uintptr_t)at, books_end(at, length));
	(void)pthread_mutex_unlock(&books_lock);
}

void books_unmap(void *at, size_t length)
{
	(void)pthread_mutex_lock(&books_lock);
	books_cut((uintptr_t)at, books_end(at, length));
	(void)pthread_mutex_unlock(&books_lock);
}

void books_alloc(int64_t n)
{
	(void)__atomic_add_fetch(&books_allocations, n, __ATOMIC_RELAXED);
}

void books_get(struct books *ret)
{
	ret->allocations = __atomic_load_n(&books_allocations, __ATOMIC_RELAXED);
	ret->mapped_bytes = 0;
	for (unsigned i = 0; i < books_n; i++)
		ret->mapped_bytes += books_range[i].to - books_range[i].from;
}

unsigned books_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	if (!d)
		return 0;
	while (readdir(d))
		n++;
	(void)closedir(d);
	return n;
}
