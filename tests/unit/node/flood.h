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

struct flood {
	struct peer *p;
	struct draft d;
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

/* PUTs of @key, @len bytes at @value: it is there already, or each would be another key. */
static inline void flood_puts(struct flood *f, struct peer *p, uint32_t ns, const char *key,
			      const uint8_t *value, size_t len, uint32_t depth)
{
	*f = (struct flood){ .payload = value, .payload_len = len };
	draft_put(&f->d, p, &(struct put_options){ .ns = ns, .key = key, .value = value,
						    .length = len });
	f->answer = WIRE_HEADER_SIZE + sizeof(struct wire_put_done);
	flood_begin(f, p, depth, (uint32_t)f->answer);
}

static inline void flood_step(struct flood *f)
{
	const struct transport_rx rx = { .data = f->sink, .length = f->rx_size };

	f->bytes += (uint64_t)(f->p->rx_events - f->seen) * f->rx_size;
	f->posted -= f->p->rx_events - f->seen;
	f->seen = f->p->rx_events;
	while (f->posted < 8 && transport_post_rx(f->p->c, &rx, 1) == 0)
		f->posted++;
	while (f->sent < f->bytes / f->answer + f->depth && f->p->tx_out < 8) {
		uint32_t out = f->p->tx_out;

		peer_send_raw(f->p, f->d.buffer, f->d.length);
		if (f->p->tx_out == out)
			break;
		if (f->payload_len)
			peer_send_raw(f->p, f->payload, f->payload_len);
		f->sent++;
	}
}

static inline void flood_end(struct flood *f)
{
	assert_false(f->p->down);
	peer_close(f->p);
	free(f->sink);
}

#endif
