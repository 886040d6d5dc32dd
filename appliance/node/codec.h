/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam between a session and the protocol that its peer speaks.
 *
 *	transport -> session -> codec -> engine
 *
 * A transport moves bytes and knows no frame. A session owns what every protocol needs: the
 * connection's life, requests and their buffers, payload between pages and the peer (payload.c,
 * transfer.c, send.c), fair turns, limits, the ledger. A codec reads what the peer says, fills a
 * struct larder_op, submits it, and writes the answer as the peer expects it; the engine can't tell
 * one codec from another.
 *
 * A listener has a codec, its connections keep it. native.c is the one of docs/protocol.md,
 * resp.c the one of Redis.
 */
#ifndef LARDER_NODE_CODEC_H
#define LARDER_NODE_CODEC_H

#include <stdint.h>

struct request;
struct session;
struct transport_event;

struct node_codec {
	const char *name;
	/* A connection came: takes what the codec keeps of it and posts its first buffer. 0, or
	 * -ENOMEM: it is turned away. */
	int (*start)(struct session *s);
	/* Gives back what start took. Nothing of the connection is under way any more. */
	void (*stop)(struct session *s);
	/* A buffer that the codec posted came back (payload is the session's). */
	void (*received)(struct session *s, const struct transport_event *ev);
	/* What it sent with COOKIE_HANDSHAKE_TX has left, or (@status < 0) never will. */
	void (*greeted)(struct session *s, int status);
	/* Stream: the last piece of a payload is posted; what comes after it may be posted too. */
	void (*payload_posted)(struct session *s);
	/* Stream: the whole payload has arrived, in pages or thrown away. */
	void (*payload_over)(struct session *s);
	/* @r is free again, in an open session. */
	void (*freed)(struct request *r);
	/* Answers @r with a status other than OK; @text says why in a sentence. */
	void (*refuse)(struct request *r, int status, uint64_t detail, const char *text);
	/* Looks after deadlines of its own in an open session. */
	void (*scan)(struct session *s, uint64_t now_ns);
};

extern const struct node_codec node_codec_native;
extern const struct node_codec node_codec_resp;

#endif
