/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fill leases, as the engine's other files call them. Thread rules are told with each function: the
 * lock is that of the key's shard.
 */
#ifndef LARDER_ENGINE_FILL_H
#define LARDER_ENGINE_FILL_H

#include "engine/engine_internal.h"

int engine_fills_init(struct engine *e);
void engine_fills_done(struct engine *e);
/* What a fill lease lasts for whoever wants @wanted_ms; 0 = no wish. */
uint32_t engine_fill_ms(const struct engine *e, uint32_t wanted_ms);
/*
 * The op misses a key of its batch, in @slot is what the index has of it. Lock held. FILL: the op
 * holds its fill lease; NOT_FOUND; NO_SPACE: no record is free for it, to be asked again after
 * engine_fill_room (no lock held) said true.
 */
int engine_fill_ask(struct engine_reactor *r, const struct larder_op *op,
		    const struct engine_key *k, uint32_t slot, uint64_t now);
bool engine_fill_room(struct engine_reactor *r, const struct larder_op *op, uint64_t now);
/* A PROMISED object; lock held. Has it that key; is its fill lease the one that the op names? */
bool engine_fill_has_key(struct engine *e, uint32_t slot, const struct engine_key *k);
bool engine_fill_is_of(struct engine *e, uint32_t slot, const struct larder_op *op);
/* Its writer has come: the object, with who waits for it, is the caller's. Lock held. */
void engine_fill_end(struct engine *e, uint32_t slot);
/* Ends it without a writer. Lock held; engine_fill_broken, with what it returned, after that. */
uint32_t engine_fill_break(struct engine *e, uint32_t slot);
void engine_fill_broken(struct engine_reactor *r, uint32_t slot, uint32_t waiters);
/* Those that @id of @tenant holds, at most @max; how many. */
uint32_t engine_fill_drop_all(struct engine_reactor *r, uint32_t tenant, uint64_t id, uint32_t max);
void engine_fill_flush(struct engine_reactor *r, uint32_t ns);
/* Takes the one back that would end first, so that its record is free. False: there is none. */
bool engine_fill_reclaim(struct engine_reactor *r);
void engine_fill_expire(struct engine_reactor *r, uint64_t now, uint32_t max);
uint64_t engine_fill_next(struct engine *e);		/* the earliest deadline; UINT64_MAX */
uint32_t engine_fill_count(struct engine *e);
void engine_fill_forgive(struct engine *e, uint64_t gap_ns);

#endif
