/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for what is read: a few windows onto values, whole check blocks each, so that the node
 * never sends a block twice to somebody who reads byte by byte, and so that the view's memory is
 * bounded. Objects never change, so a window stays right for as long as it is kept.
 *
 * As many reads as there are windows are under way at a time; more wait.
 */
#ifndef FSVIEW_WINDOWS_H
#define FSVIEW_WINDOWS_H

#include "fetch.h"

#define WINDOWS_READ_MAX (1u << 20)	/* bytes of one read */

struct windows;
struct window;

/* An open file: all that reading takes. */
struct windows_file {
	struct space space;
	struct tree_key key;
	uint64_t inode, size;
};

/* Takes its memory at once, so that it does not grow later. @n windows. */
int windows_new(struct fetch *f, unsigned n, struct windows **ret);
void windows_free(struct windows *w);
/*
 * @len bytes at @offset, inside of the file, at most WINDOWS_READ_MAX. They lie at *@ret_bytes
 * until windows_put. 0 or as fetch_range.
 */
int windows_get(struct windows *w, const struct windows_file *file, uint64_t offset, size_t len,
		struct window **ret, const void **ret_bytes);
void windows_put(struct windows *w, struct window *window);

#endif
