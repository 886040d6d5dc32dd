/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of a tenant.
 *
 * One table names every limit, its number (its place in the ledger's `limits` and `effective`
 * sections), its unit and what goes over it. Configuration files, `larderctl quota`, the ledger and
 * the messages all take the name from here. A value is a uint64_t; 0 means "no limit", with two
 * exceptions: weight 0 is the default weight, and over_cap is a choice.
 *
 * Thread rules: constants and pure functions.
 */
#ifndef LARDER_LIMITS_H
#define LARDER_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Places in the ledger; the unused ones are reserved. */
#define LARDER_LIMITS_MAX 32u

/*
 * X(name, number, unit, status, text): numbers are layout, never reuse one.
 *	unit: BYTES, COUNT, RATE_BYTES (a second), RATE_COUNT (a second), CHOICE
 *	status: what a request over it ends as; OK: nothing is refused for it
 */
#define LARDER_LIMIT_TABLE(X)                                                                      \
	X(resident_bytes, 0, BYTES, QUOTA, "memory that its objects hold, in whole pages")         \
	X(guarantee_bytes, 1, BYTES, OK,                                                           \
	  "memory that others can not take from it; all guarantees fit the node together")         \
	X(objects, 2, COUNT, QUOTA, "objects, being written or there")                             \
	X(namespaces, 3, COUNT, QUOTA, "namespaces")                                               \
	X(pinned_bytes, 4, BYTES, QUOTA, "values that it has pinned hard")                         \
	X(leased_bytes, 5, BYTES, QUOTA, "values that it has leased")                              \
	X(in_bytes_per_s, 6, RATE_BYTES, THROTTLED, "payload that it writes")                      \
	X(out_bytes_per_s, 7, RATE_BYTES, THROTTLED, "payload that it reads")                      \
	X(ops_per_s, 8, RATE_COUNT, THROTTLED, "requests, a batch's message being one")            \
	X(in_flight_lookup, 9, COUNT, THROTTLED, "EXISTS, LEASE, STAT and LIST under way")         \
	X(in_flight_fetch, 10, COUNT, THROTTLED, "GETs under way")                                 \
	X(in_flight_write, 11, COUNT, THROTTLED, "PUTs and parts of PUTs under way")               \
	X(connections, 12, COUNT, QUOTA, "open sessions")                                          \
	X(regions, 13, COUNT, QUOTA, "registered regions, all its sessions together")              \
	X(region_bytes, 14, BYTES, QUOTA, "of all its regions")                                    \
	X(weight, 15, COUNT, OK, "its share of the node's transfers; 0 is 100")                    \
	X(over_cap, 16, CHOICE, OK,                                                                \
	  "at resident_bytes or objects: 0 evict-own, its own objects go; 1 reject, QUOTA")

enum larder_limit {
#define LARDER_LIMIT_ENUM(name, number, unit, status, text) LARDER_LIMIT_##name = number,
	LARDER_LIMIT_TABLE(LARDER_LIMIT_ENUM)
#undef LARDER_LIMIT_ENUM
	LARDER_LIMITS,			/* how many there are */
	LARDER_LIMIT_NONE = 255		/* in places that name one: none */
};

#define LARDER_WEIGHT_DEFAULT 100u
#define LARDER_WEIGHT_MAX 10000u

enum larder_over_cap { LARDER_OVER_CAP_EVICT_OWN, LARDER_OVER_CAP_REJECT };

enum larder_limit_unit {
	LARDER_UNIT_BYTES, LARDER_UNIT_COUNT, LARDER_UNIT_RATE_BYTES, LARDER_UNIT_RATE_COUNT,
	LARDER_UNIT_CHOICE
};

/* All limits of one tenant. All zero: none. */
struct larder_limits {
	uint64_t value[LARDER_LIMITS_MAX];	/* by enum larder_limit */
};

/* "resident_bytes"; "?" for a number that is none. */
const char *larder_limit_name(unsigned limit);
/* Number of a name, or -1. */
int larder_limit_find(const char *name);
enum larder_limit_unit larder_limit_unit(unsigned limit);
/* The table's sentence. */
const char *larder_limit_text(unsigned limit);
/* Is @value one that @limit can have by itself (weight, over_cap)? */
bool larder_limit_valid(unsigned limit, uint64_t value);

/*
 * Values as people write them: bytes with a suffix K, M, G or T (powers of 1024), counts, the words
 * of a choice, "none" where 0 means no limit. 0 or -EINVAL; larder_limit_allowed then says what it
 * may be ("a number of bytes, with K, M, G or T, or none").
 */
int larder_limit_parse(unsigned limit, const char *text, uint64_t *ret);
const char *larder_limit_allowed(unsigned limit);
#define LARDER_LIMIT_TEXT 24	/* room for what larder_limit_format writes */
/* In a form that larder_limit_parse takes, without loss. Returns @text. */
const char *larder_limit_format(unsigned limit, uint64_t value, char text[LARDER_LIMIT_TEXT]);

#ifdef __cplusplus
}
#endif
#endif
