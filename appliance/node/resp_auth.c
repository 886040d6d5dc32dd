/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who it is: "AUTH tenant secret", "AUTH secret" for resp.default_tenant, or the same in HELLO.
 * Redis' clients send "default" where nobody gave them a user: that is the default tenant, too.
 *
 * The secret comes over the wire as it is, so this port belongs on a loopback or a network that is
 * trusted. An unknown tenant takes the same way, and as long, as a wrong secret.
 */
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "node/resp.h"
#include "wire/mac.h"

#define AUTH_WRONG "invalid username-password pair or user is disabled."

/* 1 when @pass is one of two secrets, 0 when it is not, -errno when there is no telling. Compared
 * by their digests under a key that nobody has, so the time tells nothing. */
static int auth_compare(const struct larder_node *n, const struct node_secret secret[2],
			const void *pass, size_t len)
{
	const struct iovec given = { .iov_base = (void *)pass, .iov_len = len };
	uint8_t mac[WIRE_MAC_SIZE], expected[WIRE_MAC_SIZE];
	bool proven = false;
	int r = mac_compute(n->dummy_secret, sizeof(n->dummy_secret), MAC_LABEL_CLIENT, &given, 1,
			    mac);

	for (int i = 0; i < 2 && r == 0; i++) {
		bool real = secret[i].len > 0;
		const struct iovec known = {
			.iov_base = (void *)(real ? secret[i].bytes : n->dummy_secret),
			.iov_len = real ? secret[i].len : sizeof(n->dummy_secret),
		};

		r = mac_compute(n->dummy_secret, sizeof(n->dummy_secret), MAC_LABEL_CLIENT,
				&known, 1, expected);
		proven |= r == 0 && mac_equal(expected, mac) == 1 && real;
	}
	return r < 0 ? r : proven;
}

/* Which tenant a user name stands for; NULL: none. */
static struct tenant *auth_tenant(struct larder_node *n, const char *user, size_t len)
{
	char name[LARDER_TENANT_NAME_MAX + 1] = "";
	struct tenant *found;

	if (len > LARDER_TENANT_NAME_MAX)
		return NULL;
	memcpy(name, user, len);
	found = node_tenants_find(&n->tenants, name);
	if (!found && n->resp_tenant[0] && (len == 0 || strcmp(name, "default") == 0))
		found = node_tenants_find(&n->tenants, n->resp_tenant);
	return found;
}

/* The session is that tenant's. LARDER_OK, or a status with @why. */
static int auth_enter(struct session *s, char *why, size_t size)
{
	int status;

	if (node_draining(session_node(s))) {
		(void)snprintf(why, size, "the node is draining and takes no new session: use "
			       "another one");
		return LARDER_DRAINING;
	}
	status = node_session_enter(s, why, size);
	if (status == LARDER_OK)
		s->state = SESSION_OPEN;
	return status;
}

/* Nobody asks for ever: the third wrong answer is the last. */
static void auth_failed(struct session *s, struct resp_session *p)
{
	node_session_turn_away(s);
	if (++p->tries >= RESP_AUTH_TRIES)
		p->quitting = true;
}

/* LARDER_OK, or a status with @why; DENIED: wrong user or secret. */
static int auth_check(struct session *s, struct resp_session *p, int user, int pass, char *why,
		      size_t size)
{
	struct node_secret secret[2] = { { .len = 0 }, { .len = 0 } };
	struct larder_node *n = session_node(s);
	size_t user_len = 0, pass_len;
	const char *name = user < 0 ? "" : resp_arg(p, (uint32_t)user, &user_len);
	const void *given = resp_arg(p, (uint32_t)pass, &pass_len);
	struct tenant *tenant = auth_tenant(n, name, user_len);
	uint32_t removals = 0;
	int proven;

	(void)snprintf(why, size, "%s", AUTH_WRONG);
	if (tenant)
		removals = node_tenants_secrets(&n->tenants, tenant, secret);
	if (secret[0].len == 0)
		tenant = NULL;		/* unknown, or removed just now */
	proven = auth_compare(n, secret, given, pass_len);
	explicit_bzero(secret, sizeof(secret));
	explicit_bzero(p->args + p->arg[pass].at, p->arg[pass].len);
	if (proven < 0) {
		(void)snprintf(why, size, "the node can not check a secret now");
		return LARDER_INTERNAL;
	}
	if (s->state == SESSION_OPEN) {
		if (proven && tenant == s->tenant)
			return LARDER_OK;
		(void)snprintf(why, size, "who a connection is does not change: open another");
		return LARDER_BAD_REQUEST;
	}
	s->hs.claimed = tenant;
	if (!proven) {
		auth_failed(s, p);
		return LARDER_DENIED;
	}
	s->tenant_removals = removals;
	return auth_enter(s, why, size);
}

static void auth_refuse(struct session *s, int status, const char *why)
{
	resp_answer_error(s, status == LARDER_DENIED	  ? "WRONGPASS" :
			     status == LARDER_BAD_REQUEST ? "ERR" : larder_status_name(status),
			  "%s", why);
}

void resp_auth(struct session *s, struct resp_session *p)
{
	struct resp_writer w;
	char why[160];
	int status;

	if (p->n_args > 3) {
		resp_answer_error(s, "ERR", "syntax error");
		return;
	}
	status = auth_check(s, p, p->n_args == 3 ? 1 : -1, (int)p->n_args - 1, why, sizeof(why));
	if (status != LARDER_OK) {
		auth_refuse(s, status, why);
		return;
	}
	resp_answer_begin(s, &w);
	resp_write_simple(&w, "OK");
	resp_answer_end(s, &w, LARDER_OK);
}

static void hello_answer(struct session *s)
{
	struct resp_writer w;

	resp_answer_begin(s, &w);
	resp_write_map(&w, 7);
	resp_write_text(&w, "server");
	resp_write_text(&w, "larder");
	resp_write_text(&w, "version");
	resp_write_text(&w, LARDER_VERSION);
	resp_write_text(&w, "proto");
	resp_write_integer(&w, resp_of(s)->three ? 3 : 2);
	resp_write_text(&w, "id");
	resp_write_integer(&w, (int64_t)s->holder);
	resp_write_text(&w, "mode");
	resp_write_text(&w, "standalone");
	resp_write_text(&w, "role");
	resp_write_text(&w, "master");
	resp_write_text(&w, "modules");
	resp_write_array(&w, 0);
	resp_answer_end(s, &w, LARDER_OK);
}

/* HELLO [version [AUTH user secret] [SETNAME name]] */
void resp_hello(struct session *s, struct resp_session *p)
{
	int64_t version = p->three ? 3 : 2;
	int auth = 0, status;
	char why[160];

	if (p->n_args > 1 && (!resp_arg_number(p, 1, &version) || version < 2 || version > 3)) {
		resp_answer_error(s, "NOPROTO", "unsupported protocol version");
		return;
	}
	for (uint32_t i = 2; i < p->n_args; i++) {
		if (resp_arg_is(p, i, "AUTH") && i + 2 < p->n_args) {
			auth = (int)i;
			i += 2;
		} else if (resp_arg_is(p, i, "SETNAME") && i + 1 < p->n_args) {
			i++;
		} else {
			resp_answer_error(s, "ERR", "syntax error in HELLO");
			return;
		}
	}
	if (!auth && s->state != SESSION_OPEN) {
		resp_answer_error(s, "NOAUTH", "HELLO must be called with the client already "
				  "authenticated, or with the AUTH option");
		return;
	}
	status = auth ? auth_check(s, p, auth + 1, auth + 2, why, sizeof(why)) : LARDER_OK;
	if (status != LARDER_OK) {
		auth_refuse(s, status, why);
		return;
	}
	p->three = version == 3;
	hello_answer(s);
}
