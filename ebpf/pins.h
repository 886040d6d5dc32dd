/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pinned maps of the ledger: DIR/NAME_LAYOUT on a bpffs, 0640 USER:GROUP, so that the daemon's
 * user maps them for writing and members of the group for reading; DIR/lock (0700 USER) is held by
 * the daemon that counts in them.
 */
#ifndef LARDER_EBPF_PINS_H
#define LARDER_EBPF_PINS_H

#include <stdint.h>
#include <sys/types.h>

#include <larder/ledger.h>

#define PINS_PATH 4096
#define PINS_LOCK "lock"	/* daemon/bpf_maps.h has the other side */

struct pins {
	const char *dir;
	uint32_t writers;	/* reactors + control */
	uid_t uid;		/* the daemon's */
	gid_t gid;
};

void pins_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Makes what is missing, replaces what is of another layout or geometry. 0 or -1, after lines. */
int pins_load(const struct pins *p);
/* Removes them, and the mount when nothing else is left on it. */
int pins_unload(const struct pins *p);
/* Tells on stdout what is there. 0: all of it, good for @p. */
int pins_status(const struct pins *p);

/* --- pins_map.c --- */

enum pins_found { PINS_GOOD, PINS_MISSING, PINS_OTHER };

void pins_path(const struct pins *p, unsigned section, char path[PINS_PATH]);
/* *@ret_why, where it is neither good nor missing: a sentence. */
enum pins_found pins_look(const struct pins *p, unsigned section, char *why, size_t size);
/* Creates all and pins them. 0 or -1, after a line; nothing is left then. */
int pins_create(const struct pins *p);

#endif
