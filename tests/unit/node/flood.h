/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers that keep the node busy without end: each has a number of GETs or PUTs of one value under
 * way and begins another whenever one is answered. Answers are of one length, so a stream's bytes
 * tell how many there were; nothing is looked at.
 */
#ifndef LARDER_TESTS_NODE_FLOOD_H
#define LARDER_TESTS_NODE_FLOOD_H

#include "limit_speak.h"

#define FLOOD_SINK (64u * 1024u)
#define FLOOD_PUTS 16u		/* more than can be at the transport */

struct flood {
	struct peer *p;
	struct draft d;			/* GET */
	struct draft *puts;		/* PUT: FLOOD_PUTS of them, in turn */
	uint32_t ns, region, gate;
	uint32_t checks[64];
	const uint8_t *payload;		/* PUT: follows the message */
	size_t payload_len;
	uint8_t *sink;
	uint64_t answer;		/* bytes of one */
	uint64_t bytes;			/* that have come */
	uint64_t sent;
	uint32_t seen, posted;
	uint32_t rx_size;
	uint32_t depth;
};

static inline void flood_begin(struct flood *f, struct peer *p, uint32_t depth, uint32_t rx_size)
{
	f->p = p;
	f->depth = depth;
	f->rx_size = rx_size;
	f->sink = malloc(rx_size);
	assert_non_null(f->sink);
	f->seen = p->rx_events;
}

/* GETs of @key, @len bytes: it is there. */
static inline void flood_gets(struct flood *f, struct peer *p, uint32_t ns, const char *key,
			      size_t len, uint32_t depth)
{
	*f = (struct flood){ .payload_len = 0 };
	draft_get(&f->d, p, ns, LARDER_F_WHOLE, key, 0, 0, len);
	f->answer = WIRE_HEADER_SIZE + sizeof(struct wire_got) + 4 * larder_check_count(len) + len;
	flood_begin(f, p, depth, FLOOD_SINK);
}

/* Writes the message of the next PUT, of a key that was never there. */
static inline void flood_next_put(struct flood *f)
{
	struct draft *d = &f->puts[f->sent % FLOOD_PUTS];
	char key[32];
	int n = snprintf(key, sizeof(key), "%p-%llu", (void *)f, (unsigned long long)f->sent);
	const struct wire_put w = { .c = { .ns = f->ns }, .length = f->payload_len,
				    .digest = key_digest(0, key, (size_t)n),
				    .n_segs = f->region ? 1 : 0, .gate = f->region ? f->gate : 0,
				    .n_checks = larder_check_count(f->payload_len),
				    .key_len = (uint16_t)n };
	const struct wire_seg seg = { .region = f->region, .length = (uint32_t)f->payload_len };

	draft_begin(d);
	wire_append(&d->w, &w, sizeof(w));
	if (f->region)
		wire_append(&d->w, &seg, sizeof(seg));
	wire_append(&d->w, f->checks, w.n_checks * 4);
	wire_append(&d->w, key, w.key_len);
	draft_finish(d, f->p, LARDER_OP_PUT, f->region ? 0 : f->payload_len);
}

/* PUTs of the @len bytes at @value, inline or (@region not 0) out of the region of that number. */
static inline void flood_puts(struct flood *f, struct peer *p, uint32_t ns, const uint8_t *value,
			      size_t len, uint32_t region, uint32_t depth)
{
	*f = (struct flood){ .payload = value, .payload_len = len, .ns = ns, .region = region };
	f->puts = calloc(FLOOD_PUTS, sizeof(*f->puts));
	assert_non_null(f->puts);
	value_checks(value, len, f->checks);
	/* where messages are kept apart, an answer is a buffer */
	f->answer = peer_is_stream(p) ? WIRE_HEADER_SIZE + sizeof(struct wire_put_done) :
					WIRE_MESSAGE_MAX;
	flood_begin(f, p, depth, (uint32_t)f->answer);
}

static inline void flood_send(struct flood *f)
{
	const struct draft *d = &f->d;

	if (f->puts) {
		d = &f->puts[f->sent % FLOOD_PUTS];
		if (f->region) {
			f->gate = (f->gate + 1) % 16;
			assert_int_equal(f->p->rig->ops->gate_arm(f->p->c, f->gate), 0);
		}
		flood_next_put(f);
	}
	peer_send_raw(f->p, d->buffer, d->length);
	if (f->puts && !f->region)
		peer_send_raw(f->p, f->payload, f->payload_len);
	f->sent++;
}

static inline void flood_step(struct flood *f)
{
	const struct transport_rx rx = { .data = f->sink, .length = f->rx_size };

	f->bytes += (uint64_t)(f->p->rx_events - f->seen) * f->rx_size;
	f->posted -= f->p->rx_events - f->seen;
	f->seen = f->p->rx_events;
	while (f->posted < 8 && transport_post_rx(f->p->c, &rx, 1) == 0)
		f->posted++;
	while (f->sent < f->bytes / f->answer + f->depth && f->p->tx_out < 8)
		flood_send(f);
}

static inline void flood_end(struct flood *f)
{
	assert_false(f->p->down);
	peer_close(f->p);
	free(f->sink);
	free(f->puts);
}

#endif
