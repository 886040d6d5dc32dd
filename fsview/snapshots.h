/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents of status files as they were when somebody looked one up: a snapshot has a length that
 * is true and bytes that stay, under a number of its own. It is kept while FUSE knows its number,
 * or until SNAPSHOTS_MAX newer ones need its place: who has it open keeps it. Looks within a second
 * of each other get the same one, so that stat and the read after it agree.
 *
 * Any thread.
 */
#ifndef FSVIEW_SNAPSHOTS_H
#define FSVIEW_SNAPSHOTS_H

#include <stddef.h>
#include <stdint.h>

#include "process.h"

#define SNAPSHOTS_MAX 4096u	/* kept at a time */
#define SNAPSHOTS_FRESH_MS 1000u

struct snapshots;

struct snapshot {
	uint64_t serial;
	uint64_t ino;		/* st_ino: which file it is of */
	uint64_t parent;	/* number of its directory: who may read it */
	uint64_t made_ms;	/* wall clock */
	size_t len;
	const char *text;	/* stays between get and put */
};

int snapshots_new(const struct process_clock *clock, struct snapshots **ret);
void snapshots_free(struct snapshots *s);
/* The fresh one of @ino with one more reference; -ENOENT. */
int snapshots_find(struct snapshots *s, uint64_t ino, struct snapshot *ret);
/*
 * A new one with one reference; takes @text (from malloc) in any case. -ENFILE: as many as there is
 * room for are open.
 */
int snapshots_add(struct snapshots *s, uint64_t ino, uint64_t parent, char *text, size_t len,
		  struct snapshot *ret);
/* FUSE gives @n references back. */
void snapshots_forget(struct snapshots *s, uint64_t serial, uint64_t n);
/* By number, to be used until it is put: its text stays. -ESTALE. */
int snapshots_get(struct snapshots *s, uint64_t serial, struct snapshot *ret);
void snapshots_put(struct snapshots *s, uint64_t serial);

#endif
