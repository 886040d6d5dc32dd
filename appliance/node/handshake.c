/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handshake: HELLO, challenge, AUTH, welcome. Each side proves over the whole transcript, as it
 * was sent, that it knows the tenant's secret. An unknown tenant takes the same way and the same
 * time as a wrong secret: it is compared with a secret that nobody has.
 *
 * The role viewer is given by what the kernel says of the peer (uid 0 or the configured one), over
 * transports that carry it, and never by a secret.
 *
 * One message at a time, in a buffer of the session's own: an unauthenticated peer holds nothing
 * else and has handshake_timeout_ms for all of it.
 */
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "node/session.h"
#include "wire/mac.h"

/* Sends what @w holds; the next message is read when it is out. */
static void handshake_send(struct session *s, int length, bool last_word)
{
	const struct iovec iov = { .iov_base = s->hs.out, .iov_len = (size_t)length };
	const struct transport_tx tx = { .type = TRANSPORT_SEND, .niov = 1, .iov = &iov,
					 .gate = TRANSPORT_NO_GATE,
					 .cookie = cookie_make(COOKIE_HANDSHAKE_TX, 0, 0) };

	s->hs.last_word = last_word;
	if (length < 0 || transport_tx(s->conn, &tx, 1) != 1)
		node_session_close(s, false);
}

void node_handshake_sent(struct session *s, int status)
{
	if (status < 0 || s->hs.last_word)
		node_session_close(s, true);
	else if (s->state < SESSION_OPEN)
		node_native_next_handshake(s);
}

static void handshake_refuse(struct session *s, const struct wire_header *h, int status,
			     const char *text)
{
	struct wire_writer w;

	wire_begin(&w, s->hs.out, sizeof(s->hs.out));
	handshake_send(s, wire_write_error(&w, h->op, (uint16_t)status, h->request_id, 0, text),
		       true);
}

static int handshake_reply(struct session *s, const struct wire_header *h, const void *body,
			   uint32_t len)
{
	struct wire_writer w;

	wire_begin(&w, s->hs.out, sizeof(s->hs.out));
	wire_append(&w, body, len);
	return wire_finish(&w, h->op, WIRE_REPLY, LARDER_OK, h->request_id, 0);
}

static bool handshake_peer_is_viewer(struct session *s)
{
	struct transport_peer peer;
	long viewer = session_node(s)->config.viewer_uid;

	if (!(transport_caps(s->conn->transport) & TRANSPORT_PEER_CRED) ||
	    s->conn->transport->ops->peer(s->conn, &peer) < 0 || !peer.has_cred)
		return false;
	return peer.uid == 0 || (viewer >= 0 && peer.uid == (uid_t)viewer);
}

/* NULL, or what is wrong with a HELLO; *@status goes with it. */
static const char *handshake_fault(struct session *s, const struct wire_hello *hello, int *status)
{
	*status = LARDER_UNSUPPORTED;
	if (hello->version_min > WIRE_VERSION || hello->version_max < WIRE_VERSION)
		return "this node speaks version 1 of the protocol";
	if (hello->check_block != LARDER_CHECK_BLOCK)
		return "the check block of this protocol is 262,144 bytes";
	*status = LARDER_DRAINING;
	if (node_draining(session_node(s)))
		return "the node is draining and takes no new session: use another one";
	*status = LARDER_DENIED;
	if (hello->role == WIRE_ROLE_VIEWER)
		return handshake_peer_is_viewer(s) ? NULL :
		       "the role viewer is given by unix peer credentials only";
	*status = LARDER_BAD_REQUEST;
	if (hello->role != WIRE_ROLE_CLIENT)
		return "there are the roles client (0) and viewer (1)";
	if (hello->tenant_len < 1 || hello->tenant_len > LARDER_TENANT_NAME_MAX)
		return "a tenant's name has 1 to 32 bytes";
	return NULL;
}

static void handshake_hello(struct session *s, const struct wire_header *h,
			    const struct wire_hello *hello, uint32_t message_len)
{
	struct larder_node *n = session_node(s);
	struct wire_challenge challenge = { .version = WIRE_VERSION };
	char name[LARDER_TENANT_NAME_MAX + 1] = "";
	int status, length;
	const char *fault = handshake_fault(s, hello, &status);

	if (!fault &&
	    n->random.bytes(n->random.user, challenge.nonce, sizeof(challenge.nonce)) < 0) {
		status = LARDER_INTERNAL;
		fault = "the node has no randomness";
	}
	if (fault) {
		handshake_refuse(s, h, status, fault);
		return;
	}
	s->hs.viewer = hello->role == WIRE_ROLE_VIEWER;
	s->hs.keepalive_ms = hello->keepalive_ms;
	if (!s->hs.viewer) {
		memcpy(name, hello->tenant, hello->tenant_len);
		s->hs.claimed = node_tenants_find(&n->tenants, name);
	}
	memcpy(s->hs.hello, s->hs.in, MIN(message_len, (uint32_t)sizeof(s->hs.hello)));
	length = handshake_reply(s, h, &challenge, sizeof(challenge));
	if (length == (int)sizeof(s->hs.challenge))
		memcpy(s->hs.challenge, s->hs.out, sizeof(s->hs.challenge));
	else
		length = -1;	/* the codec is broken: the transcript would be, too */
	s->state = SESSION_AUTH;
	handshake_send(s, length, false);
}

/*
 * 1 when @mac proves knowledge of one of two secrets; that one's answer goes to @answer. Both are
 * always tried, so the time tells nothing. 0 when it does not, -errno when there is no telling.
 */
static int handshake_prove(struct session *s, const struct node_secret secret[2],
			    const uint8_t mac[WIRE_MAC_SIZE], uint32_t auth_len,
			    uint8_t answer[WIRE_MAC_SIZE])
{
	const struct larder_node *n = session_node(s);
	const struct iovec transcript[3] = {
		{ .iov_base = s->hs.hello, .iov_len = sizeof(s->hs.hello) },
		{ .iov_base = s->hs.challenge, .iov_len = sizeof(s->hs.challenge) },
		{ .iov_base = s->hs.in, .iov_len = auth_len },
	};
	bool proven = false;

	for (int i = 0; i < 2; i++) {
		bool real = secret[i].len > 0;
		const void *bytes = real ? secret[i].bytes : n->dummy_secret;
		size_t len = real ? secret[i].len : sizeof(n->dummy_secret);
		uint8_t expected[WIRE_MAC_SIZE], ours[WIRE_MAC_SIZE];
		bool good;
		int r = mac_compute(bytes, len, MAC_LABEL_CLIENT, transcript, 2, expected);

		if (r == 0)
			r = mac_compute(bytes, len, MAC_LABEL_NODE, transcript, 3, ours);
		if (r < 0)
			return r;
		good = mac_equal(expected, mac) == 1 && real;
		if (good && !proven)
			memcpy(answer, ours, sizeof(ours));
		proven |= good;
	}
	return proven;
}

/* As handshake_prove. */
static int handshake_check(struct session *s, const struct wire_auth *auth, uint32_t auth_len,
			   uint8_t answer[WIRE_MAC_SIZE])
{
	struct node_secret secret[2] = { { .len = 0 }, { .len = 0 } };
	int proven;

	memset(answer, 0, WIRE_MAC_SIZE);
	if (s->hs.viewer)
		return 1;	/* by peer credentials, at HELLO */
	if (s->hs.claimed)
		s->tenant_removals = node_tenants_secrets(&session_node(s)->tenants, s->hs.claimed,
							  secret);
	if (secret[0].len == 0)
		s->hs.claimed = NULL;	/* unknown, or removed since its HELLO */
	proven = handshake_prove(s, secret, auth->mac, auth_len, answer);
	explicit_bzero(secret, sizeof(secret));
	return proven;
}

/* How long it may be silent. */
static uint64_t handshake_keepalive(const struct session *s)
{
	const struct larder_node_config *c = &session_node(s)->config;
	uint32_t wish = s->hs.keepalive_ms;

	return (wish ? MIN(wish, c->keepalive_ms) : c->keepalive_ms) * NSEC_PER_MSEC;
}

static void handshake_identify(struct session *s)
{
	s->viewer = s->hs.viewer;
	s->tenant = s->hs.claimed;
	s->quota = s->viewer ? &session_node(s)->viewers : &s->tenant->quota;
	s->slot = s->viewer ? LARDER_LEDGER_VIEW_TENANT : s->tenant->slot;
	s->drr_index = s->viewer ? NODE_TENANTS_MAX : s->tenant->index;
}

void node_session_turn_away(struct session *s)
{
	struct transport_peer peer = { .text = "?" };

	node_count(&session_node(s)->ledger->node->auth_failures, 1);
	if (s->conn->transport->ops->peer(s->conn, &peer) < 0)
		strcpy(peer.text, "?");
	node_reactor_complain(s->reactor, "%s: not let in: %s", peer.text,
			      s->hs.claimed ? "its secret is not the tenant's" :
					      "its tenant is not known here");
}

int node_session_enter(struct session *s, char *why, size_t size)
{
	handshake_identify(s);
	if (!node_quota_claim(s->quota, LARDER_LIMIT_connections, 1)) {
		node_admit_refused(s, LARDER_LIMIT_connections);
		(void)snprintf(why, size,
			       "over the limit connections of %s, which is %llu: close one",
			       s->viewer ? "all viewers" : "the tenant", (unsigned long long)
			       quota_limit(s->quota, LARDER_LIMIT_connections));
		return LARDER_QUOTA;
	}
	if (node_session_establish(s) == 0)
		return LARDER_OK;
	node_quota_give(s->quota, LARDER_LIMIT_connections, 1);
	(void)snprintf(why, size, "the node has no memory for a session");
	return LARDER_NO_SPACE;
}

static void handshake_auth(struct session *s, const struct wire_header *h,
			   const struct wire_auth *auth, uint32_t message_len)
{
	struct larder_node *n = session_node(s);
	struct wire_welcome welcome = { .boot_nonce = n->boot_nonce };
	int length = handshake_check(s, auth, message_len, welcome.mac), status;
	char why[160];

	if (length < 0) {
		node_reactor_complain(s->reactor, "a peer is turned away: its secret can not be "
				      "checked: %s", strerror(-length));
		handshake_refuse(s, h, LARDER_INTERNAL, "the node can not check a secret now");
		return;
	}
	if (length == 0) {
		node_session_turn_away(s);
		handshake_refuse(s, h, LARDER_DENIED,
				 "the tenant is not known here, or its secret is another");
		return;
	}
	status = node_session_enter(s, why, sizeof(why));
	if (status != LARDER_OK) {
		handshake_refuse(s, h, status, why);
		return;
	}
	s->keepalive_ns = handshake_keepalive(s);
	welcome.max_value_bytes = n->config.max_value_bytes;
	welcome.max_region_bytes = s->one_sided ? n->config.max_region_bytes : 0;
	welcome.max_message = s->max_message;
	welcome.credits = s->credits;
	welcome.page_size = n->page_size;
	welcome.check_block = LARDER_CHECK_BLOCK;
	welcome.keepalive_ms = (uint32_t)(s->keepalive_ns / NSEC_PER_MSEC);
	welcome.lease_max_ms = n->config.lease_max_ms;
	welcome.tenant = s->tenant ? s->tenant->id : UINT32_MAX;
	welcome.capabilities = s->one_sided ? WIRE_CAP_ONE_SIDED : 0;
	length = handshake_reply(s, h, &welcome, sizeof(welcome));
	s->state = SESSION_OPEN;
	node_native_open(s);	/* before the peer can know: it may write at once */
	if (s->state == SESSION_OPEN)
		handshake_send(s, length, false);
}

static void handshake_ping(struct session *s, const struct wire_header *h,
			   const struct wire_ping *ping)
{
	handshake_send(s, handshake_reply(s, h, ping, sizeof(*ping)), false);
}

void node_handshake_message(struct session *s, const struct wire_header *h, const void *body,
			    uint32_t message_len)
{
	struct wire_request request;

	if (wire_body_check(h, body) < 0) {
		node_session_refuse(s, "the checksum of a message is wrong");
		return;
	}
	if (!wire_op_info(h->op) || wire_request_decode(h, body, &request) < 0) {
		node_session_refuse(s, "a message before authentication does not decode");
		return;
	}
	if (h->op == LARDER_OP_PING)
		handshake_ping(s, h, &request.u.ping);
	else if (h->op == LARDER_OP_HELLO && s->state == SESSION_HELLO)
		handshake_hello(s, h, &request.u.hello, message_len);
	else if (h->op == LARDER_OP_AUTH && s->state == SESSION_AUTH)
		handshake_auth(s, h, &request.u.auth, message_len);
	else
		handshake_refuse(s, h, LARDER_DENIED, "say HELLO, then AUTH, before anything else");
}
