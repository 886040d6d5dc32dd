/* SPDX-License-Identifier: Apache-2.0 */
/* What larder_memory holds, for the node and the engine. See <larder/memory.h>. */
#ifndef LARDER_MEM_MEMORY_H
#define LARDER_MEM_MEMORY_H

#include <larder/memory.h>

#include "mem/arena.h"
#include "mem/records.h"

struct larder_memory {
	struct arena *arena;
	struct records *records;
	struct larder_memory_info info;
	bool making;			/* the files are new, and not yet complete */
	void *arena_map;
	size_t arena_map_bytes;
	void *records_map;
	size_t records_map_bytes;
	int arena_fd;
	int records_fd;
};

#endif
