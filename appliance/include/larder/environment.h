/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time and randomness, handed in: the libraries ask for nothing by themselves where one is given.
 * NULL members mean the kernel's.
 */
#ifndef LARDER_ENVIRONMENT_H
#define LARDER_ENVIRONMENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct larder_environment {
	uint64_t (*monotonic_ns)(void *user);	/* never goes back */
	uint64_t (*wall_ms)(void *user);	/* milliseconds since 1970 */
	int (*random_bytes)(void *user, void *out, size_t len);	/* 0 or -errno */
	void *user;
};

#ifdef __cplusplus
}
#endif
#endif
