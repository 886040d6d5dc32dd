/* SPDX-License-Identifier: Apache-2.0 */
#include "windows.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A read that begins and ends inside of a check block touches one more on each side. */
#define WINDOW_SIZE (WINDOWS_READ_MAX + 2 * LARDER_CHECK_BLOCK)

struct window {
	struct larder_region *region;
	uint8_t *bytes;
	uint32_t space;
	uint64_t created_ms, inode;	/* whose; inode 0: nobody's */
	uint64_t from, len;
	unsigned users;
	bool filling;
	uint64_t used;			/* turn of the last use */
};

struct windows {
	struct fetch *fetch;
	pthread_mutex_t lock;
	pthread_cond_t freed;
	uint64_t turn;
	uint64_t held;		/* bytes, by open files */
	unsigned n;
	struct window window[];
};

int windows_new(struct fetch *f, unsigned n, struct windows **ret)
{
	struct windows *w = calloc(1, sizeof(*w) + n * sizeof(w->window[0]));
	pthread_condattr_t attr;
	int r;

	if (!w)
		return -ENOMEM;
	w->fetch = f;
	r = -pthread_mutex_init(&w->lock, NULL);
	if (!r)
		r = -pthread_condattr_init(&attr);
	if (!r) {
		r = -pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
		r = r ? r : -pthread_cond_init(&w->freed, &attr);
		(void)pthread_condattr_destroy(&attr);
	}
	for (; !r && w->n < n; w->n++) {
		struct window *one = &w->window[w->n];

		r = fetch_memory(f, WINDOW_SIZE, &one->region);
		if (r)
			break;
		one->bytes = larder_region_addr(one->region);
		memset(one->bytes, 0, WINDOW_SIZE);
	}
	if (r) {
		windows_free(w);
		return r > 0 ? -EIO : r;
	}
	*ret = w;
	return 0;
}

void windows_free(struct windows *w)
{
	if (!w)
		return;
	for (unsigned i = 0; i < w->n; i++)
		if (larder_region_free(w->window[i].region))
			process_say(LARDER_LOG_WARNING, "a window is still in use at the end");
	(void)pthread_cond_destroy(&w->freed);	/* nobody waits */
	(void)pthread_mutex_destroy(&w->lock);
	free(w);
}

static bool window_has(const struct window *one, const struct windows_file *file, uint64_t offset,
		       size_t len)
{
	return !one->filling && one->inode == file->inode && one->space == file->space.index &&
	       one->created_ms == file->space.created_ms && offset >= one->from &&
	       offset + len <= one->from + one->len;
}

/* Lock held; waits for one that is not in use, until @end_ns at most. */
static struct window *windows_take(struct windows *w, uint64_t end_ns)
{
	const struct timespec end = { (time_t)(end_ns / NSEC_PER_SEC),
				      (long)(end_ns % NSEC_PER_SEC) };

	for (;;) {
		struct window *oldest = NULL;

		for (unsigned i = 0; i < w->n; i++) {
			struct window *one = &w->window[i];

			if (!one->users && (!oldest || one->used < oldest->used))
				oldest = one;
		}
		if (oldest)
			return oldest;
		if (pthread_cond_timedwait(&w->freed, &w->lock, &end))
			return NULL;
	}
}

/* No lock held; nobody else uses it. */
static int window_fill(struct windows *w, struct window *one, const struct windows_file *file,
		       uint64_t offset, size_t len)
{
	uint64_t mask = LARDER_CHECK_BLOCK - 1, from = offset & ~mask;
	uint64_t end = (offset + len + mask) & ~mask;
	int r;

	if (end > file->size)
		end = file->size;
	one->from = from;
	one->len = end - from;
	r = fetch_range(w->fetch, &file->space, &file->key, file->inode, from, one->bytes,
			(size_t)one->len);
	/* a node that froze inside of it made it slow; no answer: it is tried again next time */
	if (r == -EIO)
		(void)larder_region_renew(one->region);
	return r;
}

int windows_get(struct windows *w, const struct windows_file *file, uint64_t offset, size_t len,
		struct window **ret, const void **ret_bytes)
{
	struct window *one = NULL;
	int r = 0;

	pthread_mutex_lock(&w->lock);
	for (unsigned i = 0; i < w->n && !one; i++)
		if (window_has(&w->window[i], file, offset, len))
			one = &w->window[i];
	if (one) {
		one->users++;
		one->used = ++w->turn;
		pthread_mutex_unlock(&w->lock);
	} else {
		one = windows_take(w, fetch_end(w->fetch));
		if (!one) {
			pthread_mutex_unlock(&w->lock);
			return -EIO;
		}
		one->users = 1;
		one->used = ++w->turn;
		one->filling = true;
		one->inode = file->inode;
		one->space = file->space.index;
		one->created_ms = file->space.created_ms;
		pthread_mutex_unlock(&w->lock);
		r = window_fill(w, one, file, offset, len);
		pthread_mutex_lock(&w->lock);
		one->filling = false;
		if (r)
			one->inode = 0;
		pthread_mutex_unlock(&w->lock);
	}
	if (r) {
		windows_put(w, one);
		return r;
	}
	*ret = one;
	*ret_bytes = one->bytes + (offset - one->from);
	return 0;
}

void windows_put(struct windows *w, struct window *window)
{
	pthread_mutex_lock(&w->lock);
	if (!--window->users)
		pthread_cond_signal(&w->freed);
	pthread_mutex_unlock(&w->lock);
}

/* --- held values ----------------------------------------------------------------------------- */

static bool windows_claim(struct windows *w, uint64_t bytes)
{
	bool can;

	pthread_mutex_lock(&w->lock);
	can = bytes <= WINDOWS_HOLD_MAX && w->held + bytes <= WINDOWS_HOLD_ALL;
	w->held += can ? bytes : 0;
	pthread_mutex_unlock(&w->lock);
	return can;
}

int windows_hold(struct windows *w, struct windows_file *file)
{
	uint64_t at = 0;
	int r = 0;

	file->held = NULL;
	if (!windows_claim(w, file->size))
		return 0;
	file->held = malloc(file->size);
	while (file->held && at < file->size) {
		size_t len = (size_t)(file->size - at);
		struct window *window;
		const void *bytes;

		if (len > WINDOWS_READ_MAX)
			len = WINDOWS_READ_MAX;
		r = windows_get(w, file, at, len, &window, &bytes);
		if (r)
			break;
		memcpy(file->held + at, bytes, len);
		windows_put(w, window);
		at += len;
		/* a slow node, or the view's limit: each read has a deadline of its own */
		if (at < file->size && fetch_is_late(w->fetch))
			break;
	}
	if (!file->held || r || at < file->size)
		windows_let_go(w, file);
	return r;
}

void windows_let_go(struct windows *w, struct windows_file *file)
{
	pthread_mutex_lock(&w->lock);
	w->held -= file->size;
	pthread_mutex_unlock(&w->lock);
	free(file->held);
	file->held = NULL;
}
