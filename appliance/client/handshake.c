/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HELLO, challenge, AUTH, welcome: each side proves that it knows the tenant's secret by a MAC over
 * all that was said, so neither can be replayed or answered for by a third. A node that does not
 * prove it is refused: it may be anybody.
 *
 * A refusal by the node is remembered. One that a moment's waiting can not cure (DENIED, DRAINING,
 * ...) is at once the answer to everybody who waits; attempts go on slowly, because a secret may be
 * added or a drain be undone.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "client/conn.h"
#include "wire/mac.h"

#define HANDSHAKE_KEEPALIVE_NS (30 * NSEC_PER_SEC)	/* of a node that names none */
#define HANDSHAKE_MESSAGE_MIN 2048u	/* a message with a longest key must fit */

/* Is it the answer to those who wait? */
static bool handshake_settles(int status)
{
	switch (status) {
	case LARDER_THROTTLED:
	case LARDER_QUOTA:
	case LARDER_BUSY:
	case LARDER_NO_SPACE:
	case LARDER_DISCONNECTED:
		return false;
	default:
		return true;
	}
}

/* Everybody who waits is told what the node (or we) said. */
static void handshake_refused(struct conn *conn, int status, const char *text)
{
	struct core *core = conn->core;
	bool settles = handshake_settles(status);

	snprintf(core->refusal_text, sizeof(core->refusal_text), "%s", text);
	if (settles && core->refusal != status)	/* once, not at each attempt */
		log_err(&core->log, "%s: %s: %s", conn->target->url, larder_status_name(status),
			text);
	core->refusal = settles ? status : 0;
	if (settles)
		core->backoff_ns = CORE_BACKOFF_MAX_NS;
	conn_fail(conn, -EACCES, "%s", text);
	while (core->refusal && !list_empty(&core->ready)) {
		struct job *job = list_entry(core->ready.next, struct job, ready);

		job_text(job, status, "%s", text);
		job_end(job, status);
	}
	for (uint32_t i = 0; core->refusal && i < CORE_DEPTH; i++) {
		struct call *call = &core->calls[i];

		if (call->job && call->state == CALL_WAITING) {
			job_text(call->job, status, "%s", text);
			call_want_end(call, status);
		}
	}
}

void handshake_start(struct conn *conn)
{
	struct core *core = conn->core;
	struct call *call = conn_control_call(conn);
	struct wire_hello hello = {
		.version_min = WIRE_VERSION,
		.version_max = WIRE_VERSION,
		.role = core->role,
		.tenant_len = (uint8_t)strlen(core->tenant),
		.features = WIRE_FEATURE_NONE,
		.check_block = LARDER_CHECK_BLOCK,
		.keepalive_ms = core->keepalive_ms,
	};
	struct wire_writer w;
	int r;

	if (!call) {
		conn_fail(conn, -EBUSY, "the control slot is not free");
		return;
	}
	memcpy(hello.tenant, core->tenant, hello.tenant_len);
	r = core->random.bytes(core->random.user, hello.nonce, sizeof(hello.nonce));
	if (r < 0) {
		conn_fail(conn, r, "no randomness: %s", strerror(-r));
		return;
	}
	call->opcode = LARDER_OP_HELLO;
	wire_begin(&w, call->message, WIRE_MESSAGE_MAX);
	wire_append(&w, &hello, sizeof(hello));
	r = wire_finish(&w, LARDER_OP_HELLO, 0, 0, call_id(call), 0);
	if (r == sizeof(conn->hello))
		memcpy(conn->hello, call->message, sizeof(conn->hello));
	else if (r >= 0)
		r = -EMSGSIZE;
	conn->state = CONN_HELLO;
	conn_control_send(conn, call, r);
}

/* The transcript: what was said up to the message whose MAC this is. */
static int handshake_mac(struct conn *conn, const char *label, bool with_auth,
			 uint8_t mac[WIRE_MAC_SIZE])
{
	struct iovec parts[3] = {
		{ conn->hello, sizeof(conn->hello) },
		{ conn->challenge, sizeof(conn->challenge) },
		{ conn->auth, sizeof(conn->auth) },
	};

	return mac_compute(conn->core->secret, conn->core->secret_len, label, parts,
			   with_auth ? 3 : 2, mac);
}

static void handshake_auth(struct conn *conn)
{
	struct call *call = conn_control_call(conn);
	struct wire_auth auth = { .mac = { 0 } };
	struct wire_writer w;
	int r = 0;

	if (!call) {
		conn_fail(conn, -EBUSY, "the control slot is not free");
		return;
	}
	if (conn->core->role == WIRE_ROLE_CLIENT)
		r = handshake_mac(conn, MAC_LABEL_CLIENT, false, auth.mac);
	if (r < 0) {
		conn_fail(conn, r, "the proof could not be computed");
		return;
	}
	call->opcode = LARDER_OP_AUTH;
	wire_begin(&w, call->message, WIRE_MESSAGE_MAX);
	wire_append(&w, &auth, sizeof(auth));
	r = wire_finish(&w, LARDER_OP_AUTH, 0, 0, call_id(call), 0);
	if (r == sizeof(conn->auth))
		memcpy(conn->auth, call->message, sizeof(conn->auth));
	else if (r >= 0)
		r = -EMSGSIZE;
	conn->state = CONN_AUTH;
	conn_control_send(conn, call, r);
}

static void handshake_challenge(struct conn *conn, const struct wire_reply *r, const void *body)
{
	if (r->u.challenge.version != WIRE_VERSION || r->u.challenge.features ||
	    r->header.body_len != sizeof(struct wire_challenge)) {
		handshake_refused(conn, LARDER_UNSUPPORTED,
				  "the node speaks another version of the protocol");
		return;
	}
	memcpy(conn->challenge, &r->header, WIRE_HEADER_SIZE);
	memcpy(conn->challenge + WIRE_HEADER_SIZE, body, sizeof(struct wire_challenge));
	handshake_auth(conn);
}

static void handshake_limits(struct conn *conn, const struct wire_welcome *w)
{
	struct core *core = conn->core;

	conn->credits = MIN(w->credits, CORE_DEPTH);
	conn->max_message = MIN(w->max_message, WIRE_MESSAGE_MAX);
	conn->max_value = w->max_value_bytes;
	conn->keepalive_ns = w->keepalive_ms ? w->keepalive_ms * NSEC_PER_MSEC
					     : HANDSHAKE_KEEPALIVE_NS;
	pthread_mutex_lock(&core->info_lock);
	core->info.credits = conn->credits;
	core->info.page_size_bytes = w->page_size;
	core->info.check_block = w->check_block;
	core->info.keepalive_ms = w->keepalive_ms;
	core->info.lease_max_ms = w->lease_max_ms;
	core->info.max_value_bytes = w->max_value_bytes;
	pthread_mutex_unlock(&core->info_lock);
}

static void handshake_welcome(struct conn *conn, const struct wire_reply *r)
{
	const struct wire_welcome *w = &r->u.welcome;
	uint8_t mac[WIRE_MAC_SIZE];
	int k;

	if (conn->core->role == WIRE_ROLE_CLIENT) {
		k = handshake_mac(conn, MAC_LABEL_NODE, true, mac);
		if (k < 0) {
			conn_fail(conn, k, "the node's proof could not be computed");
			return;
		}
		if (!mac_equal(mac, w->mac)) {
			handshake_refused(conn, LARDER_DENIED,
					  "the node did not prove that it knows the secret");
			return;
		}
	}
	if (w->check_block != LARDER_CHECK_BLOCK || !w->credits ||
	    w->max_message < HANDSHAKE_MESSAGE_MIN || w->max_message > CONN_MESSAGE_CAP ||
	    (conn->one_sided && !(w->capabilities & WIRE_CAP_ONE_SIDED))) {
		handshake_refused(conn, LARDER_UNSUPPORTED,
				  "the node's limits are not those of this protocol");
		return;
	}
	handshake_limits(conn, w);
	k = receive_resize(conn, w->max_message);
	if (k < 0) {
		conn_fail(conn, k, "no memory for messages of %u bytes", w->max_message);
		return;
	}
	conn->state = CONN_REOPEN;
	if (names_reopen(conn->core))
		conn_ready(conn);
}

void handshake_reply(struct conn *conn, const struct wire_reply *r, const void *body)
{
	char text[CORE_TEXT_SIZE];

	conn_control_reply(conn);
	if (r->is_error) {
		snprintf(text, sizeof(text), "%.*s", (int)MIN(r->tail_len, sizeof(text) - 1),
			 r->tail_len ? (const char *)r->tail
				     : larder_status_text(r->header.status));
		handshake_refused(conn, r->header.status, text);
		return;
	}
	if (conn->state == CONN_HELLO && r->header.op == LARDER_OP_HELLO)
		handshake_challenge(conn, r, body);
	else if (conn->state == CONN_AUTH && r->header.op == LARDER_OP_AUTH)
		handshake_welcome(conn, r);
	else
		conn_fail(conn, -EPROTO, "an answer out of turn");
}
