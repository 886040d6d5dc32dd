/* SPDX-License-Identifier: Apache-2.0 */
/* Between the client of the torture and what judges its answers. */
#ifndef LARDER_TESTS_E2E_TORTURE_INTERNAL_H
#define LARDER_TESTS_E2E_TORTURE_INTERNAL_H

#include "torture.h"

#define BATCH_MAX 4u
#define DEADLINE_MS 2000u

struct tormentor {
	struct torture *t;
	struct torture_key *keys;
	struct torture_counts *counts;
	unsigned index;
	uint64_t random;
	enum node_transport transport;
	struct torture_handle h;
	bool away;			/* the last answer was lost: look for the node first */
	uint64_t swept;			/* generation after which every key was looked at */
	uint64_t budget;		/* bytes of memory that its values may take */
};

/* One request of up to four keys. */
struct torture_call {
	unsigned key[BATCH_MAX], n;
	struct larder_item item[BATCH_MAX];
	struct iovec iov[BATCH_MAX];
	char name[BATCH_MAX][1024];
	struct larder_batch batch;
	uint64_t started_ms, ended_ms;
	bool repeated;			/* the library may have sent it more than once */
};

uint64_t generation(const struct tormentor *c);
/* Tells what was seen beside what the journal says. Always false. */
bool complain(const struct tormentor *c, unsigned key, const char *text, ...)
	__attribute__((format(printf, 3, 4)));
/* The status tells nothing of what the node did. */
bool is_lost(int status);
/* Nothing that was asked of the key may still be carried out. */
bool is_settled(const struct tormentor *c, unsigned key);
/* Noted before the request leaves, so that it holds if this process is killed, too. */
void change_begins(struct torture_key *k, enum torture_change change);
/* @known: the answer came, and it was sent once. */
void change_ends(struct tormentor *c, struct torture_key *k, bool known);

/* What an answer makes of the journal; false after it told that the journal forbids it. */
bool got_own(struct tormentor *c, unsigned key, const struct larder_item *item, const void *memory);
bool put_answered(struct tormentor *c, unsigned key, int status, bool repeated);
bool overwrite_answered(struct tormentor *c, unsigned key, int status, bool repeated);
bool delete_answered(struct tormentor *c, const struct torture_call *call, unsigned i,
		     bool was_sure);

#endif
