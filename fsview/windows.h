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

#define WINDOWS_HOLD_MAX (8u << 20)	/* a value up to this is held while it is open */
#define WINDOWS_HOLD_ALL (32u << 20)	/* by all open files together */

/* An open file: all that reading takes. */
struct windows_file {
	struct space space;
	struct tree_key key;
	uint64_t inode, size;
	uint8_t *held;		/* the whole value; NULL: it is read piece by piece */
	unsigned users;		/* the open file, and each read until its reply was given away */
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
/*
 * Reads the whole value into memory of the file's own, so that eviction does not cut short who has
 * it open. Not when it is large, slow to read, or others hold much: then nothing is done. 0 or as
 * fetch_range.
 */
int windows_hold(struct windows *w, struct windows_file *file);
void windows_let_go(struct windows *w, struct windows_file *file);
void windows_put(struct windows *w, struct window *window);

#endif
