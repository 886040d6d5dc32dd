/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger's sections as BPF arrays that larder-bpf made and pinned: found, checked, locked. All
 * of it needs a file permission and no capability (kernels from 5.19).
 */
#ifndef LARDER_DAEMON_BPF_MAPS_H
#define LARDER_DAEMON_BPF_MAPS_H

#include <stdbool.h>
#include <stdint.h>

#include <larder/ledger.h>
#include <larder/log.h>

/* In the pins' directory; flocked by the daemon that counts in them and by who replaces them. */
#define BPF_MAPS_LOCK "lock"

struct bpf_maps {
	bool there;
	int map[LARDER_SECTIONS];
	int lock;
};

/*
 * Opens what is pinned in @dir ("": nowhere) for @writers. When something is not as it has to be,
 * one line says what and @ret->there is false: the node counts in memory of its own.
 */
void bpf_maps_open(const char *dir, uint32_t writers, const struct larder_log *log,
		   struct bpf_maps *ret);
void bpf_maps_close(struct bpf_maps *m);

#endif
