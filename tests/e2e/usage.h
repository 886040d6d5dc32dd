/* SPDX-License-Identifier: Apache-2.0 */
/* What a process takes of the machine, as the kernel counts it. */
#ifndef LARDER_TESTS_E2E_USAGE_H
#define LARDER_TESTS_E2E_USAGE_H

#include <stdint.h>
#include <sys/types.h>

struct usage {
	uint64_t anon_kib, file_kib, shared_kib;	/* RssAnon, RssFile, RssShmem */
	unsigned fds, mappings, threads;
};

struct usage usage_of(pid_t pid);
/* The smallest of each over half a second: connections that close late are no part of it. */
struct usage usage_settled(pid_t pid);

#endif
