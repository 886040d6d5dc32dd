/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LARDER_DAEMON_MEMORY_DIR_H
#define LARDER_DAEMON_MEMORY_DIR_H

#include <stdint.h>

#define MEMORY_DIR_HUGE "/dev/hugepages/larder"
#define MEMORY_DIR_MOUNT "/run/larder/arena"	/* packaging/systemd/run-larder-arena.mount */
#define MEMORY_DIR_SHM "/dev/shm/larder"

/*
 * For memory.dir = auto: the first of these that holds an arena; else hugepages when @bytes of them
 * are free, else the mount when it is there, else shared memory.
 */
const char *memory_dir_pick(uint64_t bytes);

#endif
