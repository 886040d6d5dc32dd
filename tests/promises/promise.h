/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program for each promise of docs/promises.md: pNN_what.c. Each drives a real larderd through
 * the public library, or by hand where the library has too good manners. `make promises` runs all
 * and prints a line each.
 */
#ifndef LARDER_TESTS_PROMISES_PROMISE_H
#define LARDER_TESTS_PROMISES_PROMISE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../e2e/raw.h"

extern struct node node;		/* running, with a tenant "demo" */

/* Runs @tests against a node with the settings @extra. The exit code of the program. */
int promise_run(const char *extra, const struct CMUnitTest *tests, size_t n);
#define PROMISE(extra, ...)                                                                        \
	int main(void)                                                                             \
	{                                                                                          \
		const struct CMUnitTest tests[] = { __VA_ARGS__ };                                 \
                                                                                                   \
		return promise_run(extra, tests, sizeof(tests) / sizeof(tests[0]));                \
	}

/* Makes a value of @len bytes out of @seed; the caller frees it. */
uint8_t *promise_value(size_t len, uint64_t seed);
/* Puts a value made from @seed; returns the status. */
int promise_put(struct larder_client *c, uint32_t ns, const char *key, size_t len, uint64_t seed);
/* Gets it whole. LARDER_OK only when every byte is that of @seed. Any other bytes fail the test. */
int promise_get(struct larder_client *c, uint32_t ns, const char *key, size_t len, uint64_t seed);
/* One key of an EXISTS, LEASE or RELEASE with @flags. The key's status; *@presence may be NULL. */
int promise_ask(struct larder_client *c, uint8_t opcode, uint32_t ns, const char *key,
		uint32_t flags, uint64_t lease_id, uint32_t lease_ms, uint8_t *presence);
/* Changes one byte of the stored value made from @seed, in the memory of the running node. */
void promise_flip(uint64_t seed, size_t len, size_t at);

#endif
