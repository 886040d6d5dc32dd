/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/util.h"
#include "ctl/value.h"
#include "lru_model.h"

static struct fake_store *fake_of(struct replay_store *s)
{
	return container_of(s, struct fake_store, store);
}

static uint64_t fake_block(const struct larder_item *item)
{
	char text[32];
	char *end;
	uint64_t v;

	assert(item->key_len >= 8 && item->key_len < sizeof(text));
	memcpy(text, item->key, item->key_len);
	text[item->key_len] = '\0';
	v = strtoull(text, &end, 10);
	assert(!*end);
	return v;
}

static void fake_exists(struct fake_store *f, struct larder_batch *b)
{
	b->leading_run = 0;
	for (uint32_t i = 0; i < b->n_items; i++) {
		bool there = lru_has(f->lru, fake_block(&b->items[i]));

		b->items[i].status = LARDER_OK;
		b->items[i].presence = !there ? LARDER_ABSENT
				       : b->flags & LARDER_F_LEASE ? LARDER_LEASED : LARDER_PRESENT;
		b->leading_run += there && b->leading_run == i;
	}
	if (b->flags & LARDER_F_LEASE) {
		assert(b->lease_id && b->lease_ms);
		f->leases++;
	}
}

static void fake_get(struct fake_store *f, struct larder_item *item)
{
	uint64_t block = fake_block(item);

	if (!lru_has(f->lru, block)) {
		item->status = LARDER_NOT_FOUND;
		return;
	}
	(void)lru_touch(f->lru, block);
	item->stat.size_bytes = f->stored_bytes ? f->stored_bytes : f->block_bytes;
	if (item->stat.size_bytes > item->iov[0].iov_len) {
		item->status = LARDER_TOO_SMALL;
		return;
	}
	assert(item->iovcnt == 1 && item->iov[0].iov_len == f->block_bytes);
	value_fill(block, item->iov[0].iov_base, f->block_bytes);
	if (block == f->corrupt)
		((unsigned char *)item->iov[0].iov_base)[f->block_bytes - 1] ^= 1;
	item->done_bytes = f->block_bytes;
	item->status = LARDER_OK;
}

static void fake_put(struct fake_store *f, struct larder_item *item)
{
	uint64_t block = fake_block(item);

	assert(item->iovcnt == 1 && value_check(block, item->iov[0].iov_base, f->block_bytes));
	if (block == f->fail_put) {
		item->status = f->fail_status;
		return;
	}
	item->status = lru_touch(f->lru, block) ? LARDER_EXISTS_SAME : LARDER_OK;
	item->done_bytes = f->block_bytes;
}

static int fake_run(struct replay_store *s, struct larder_batch *b)
{
	struct fake_store *f = fake_of(s);

	f->ops++;
	if (b->opcode == LARDER_OP_EXISTS)
		fake_exists(f, b);
	else if (b->opcode == LARDER_OP_RELEASE)
		f->releases++;
	else
		/* as the library: from the last key to the first */
		for (uint32_t i = b->n_items; i-- > 0;)
			(b->opcode == LARDER_OP_GET ? fake_get : fake_put)(f, &b->items[i]);
	for (uint32_t i = 0; i < b->n_items; i++)
		if (b->items[i].status != LARDER_OK && b->items[i].status != LARDER_EXISTS_SAME)
			return b->items[i].status;
	return 0;
}

static int fake_submit(struct replay_store *s, struct larder_batch *b)
{
	struct fake_store *f = fake_of(s);

	assert(f->n_queue < FAKE_BATCHES);
	(void)fake_run(s, b);	/* each item has its status */
	f->queue[f->n_queue++] = b;
	f->in_flight_max = MAX(f->in_flight_max, f->n_queue);
	return 0;
}

static int fake_wait(struct replay_store *s, struct larder_batch **done, int max)
{
	struct fake_store *f = fake_of(s);

	assert(f->n_queue && max > 0);
	done[0] = f->queue[0];
	memmove(f->queue, f->queue + 1, --f->n_queue * sizeof(f->queue[0]));
	return 1;
}

static int fake_set_time(struct replay_store *s, uint64_t ms)
{
	assert(ms >= fake_of(s)->now_ms);
	fake_of(s)->now_ms = ms;
	return 0;
}

static void fake_close(struct replay_store *s)
{
}

static const struct replay_store_ops fake_ops = {
	.run = fake_run, .submit = fake_submit, .wait = fake_wait, .set_time = fake_set_time,
	.close = fake_close,
};

void fake_store_init(struct fake_store *f, uint32_t capacity, uint32_t block_bytes)
{
	*f = (struct fake_store){
		.store = { &fake_ops, 7 }, .lru = lru_new(capacity), .block_bytes = block_bytes,
		.corrupt = UINT64_MAX, .fail_put = UINT64_MAX,
	};
}

void fake_store_done(struct fake_store *f)
{
	lru_free(f->lru);
}
