/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What arrives on a RESP connection. Its bytes come into the inbox, as many as there are; the
 * reader (wire/resp.h) goes over them step by step. Arguments are collected, except the value of
 * SET: what of it lies in the inbox is copied into its pages, the rest is received there straight
 * (payload.c), with the inbox posted behind it for what follows.
 *
 * Whatever is wrong with a command, its arguments are passed over to its end, so that the next
 * command is found. Only what is no RESP at all ends the connection, after a word that says so.
 */
#include "node/resp.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "node/codec.h"

bool resp_arg_is(const struct resp_session *p, uint32_t i, const char *word)
{
	size_t len;
	const char *text = resp_arg(p, i, &len);

	return len == strlen(word) && strncasecmp(text, word, len) == 0;
}

bool resp_arg_number(const struct resp_session *p, uint32_t i, int64_t *ret)
{
	size_t len;
	const void *text = resp_arg(p, i, &len);

	return resp_number(text, len, ret);
}

void resp_fault(struct resp_session *p, const char *code, const char *fmt, ...)
{
	va_list ap;

	if (p->fault_code[0])
		return;		/* the first one counts */
	(void)snprintf(p->fault_code, sizeof(p->fault_code), "%s", code);
	va_start(ap, fmt);
	(void)vsnprintf(p->fault, sizeof(p->fault), fmt, ap);	/* cut if too long, on purpose */
	va_end(ap);
}

struct request *resp_request(struct session *s, uint8_t opcode)
{
	struct request *r = list_entry(s->free.next, struct request, link);
	uint64_t wait_ns = resp_config(s)->wait_ms * NSEC_PER_MSEC;

	node_request_begin(r, opcode, false);
	node_request_start(r);
	r->op = (struct larder_op){ .opcode = opcode,
				    .tenant = s->tenant->id,
				    .ns = LARDER_NS_ANY,
				    .holder = s->holder,
				    .deadline_ns = r->start_ns + wait_ns,
				    .limit = LARDER_LIMIT_NONE };
	r->key = (struct larder_op_key){ 0 };
	r->op.keys = &r->key;
	r->op.n_keys = 1;
	r->transfer.checked = false;
	return r;
}

/* --- the inbox ------------------------------------------------------------------------------- */

static void inbox_post(struct session *s, struct resp_session *p)
{
	struct transport_rx rx = { .partial = true, .cookie = cookie_make(COOKIE_HEADER, 0, 0) };

	if (p->posted || p->quitting || s->state >= SESSION_CLOSING)
		return;
	if (p->at > 0) {
		memmove(p->inbox, p->inbox + p->at, p->end - p->at);
		p->end -= p->at;
		p->at = 0;
	}
	/* never full: the reader leaves less than a line */
	rx.data = p->inbox + p->end;
	rx.length = RESP_INBOX - p->end;
	if (transport_post_rx(s->conn, &rx, 1) < 0)
		node_session_close(s, false);
	else
		p->posted = true;
}

/* Nothing is kept of the present argument any more. */
static bool is_passed_over(const struct resp_session *p)
{
	return p->answered || p->fault_code[0] || p->too_long;
}

/* The rest of the present argument does not go through the inbox. */
static void argument_pass(struct session *s, struct resp_session *p)
{
	p->passing = p->reader.left;
	s->rx_left = p->passing;
	s->rx_patience = 0;
	s->rx = RX_PAYLOAD;
	s->frame_ns = 0;
}

static void resp_payload_posted(struct session *s)
{
	inbox_post(s, resp_of(s));
}

static void resp_payload_over(struct session *s)
{
	struct resp_session *p = resp_of(s);

	s->rx = RX_HEADER;
	resp_reader_passed(&p->reader, p->passing);
	p->passing = 0;
	resp_go(s);
}

/* --- steps ----------------------------------------------------------------------------------- */

static void step_command(struct session *s, struct resp_session *p)
{
	p->command = NULL;
	p->answered = p->too_long = p->head_due = false;
	p->fault_code[0] = '\0';
	p->n_args = p->args_len = 0;
	p->request = NULL;
	p->count = 0;
	if (s->state != SESSION_OPEN && p->reader.arguments > RESP_STRANGER_ARGS)
		resp_fault(p, "ERR", "Protocol error: too many arguments before AUTH");
}

static void argument_begin(struct session *s, struct resp_session *p)
{
	uint64_t length = p->reader.length;

	if (is_passed_over(p))
		return;
	if (p->command && (p->command->flags & RESP_VALUE) && p->reader.argument == 2) {
		resp_set_value(s, p);
		return;
	}
	if (p->n_args == RESP_ARGS_MAX || length > RESP_ARGS_BYTES - p->args_len) {
		p->too_long = true;
		return;
	}
	p->arg[p->n_args].at = (uint16_t)p->args_len;
	p->arg[p->n_args].len = (uint16_t)length;
	p->n_args++;
}

static void argument_bytes(struct session *s, struct resp_session *p, const uint8_t *data,
			   size_t n)
{
	struct request *r = p->request;

	if (!resp_reader_is_inside(&p->reader))
		return;		/* of an empty command */
	if (is_passed_over(p)) {
		if (p->reader.left > RESP_INBOX && s->state == SESSION_OPEN)
			argument_pass(s, p);
	} else if (r && r->state == REQUEST_PULL) {
		node_drr_charge(s->reactor, s, (uint32_t)n);
		node_transfer_copy(r, data, n);
		if (p->reader.left > 0)
			argument_pass(s, p);
	} else {
		memcpy(p->args + p->args_len, data, n);
		p->args_len += (uint32_t)n;
	}
}

static void command_find(struct session *s, struct resp_session *p)
{
	size_t len;
	const char *name = resp_arg(p, 0, &len);
	int64_t n = p->reader.arguments;
	const struct resp_command *c = resp_command_find(name, len);

	if (!c) {
		resp_fault(p, "ERR", "unknown command '%.*s'", (int)MIN(len, (size_t)64), name);
		return;
	}
	p->command = c;
	if (s->state != SESSION_OPEN && !(c->flags & RESP_STRANGER))
		resp_fault(p, "NOAUTH", "Authentication required.");
	else if (c->arity > 0 ? n != c->arity : n < -c->arity)
		resp_fault(p, "ERR", "wrong number of arguments for '%s' command", c->name);
}

static void argument_end(struct session *s, struct resp_session *p)
{
	bool key = p->command && (p->command->flags & RESP_PER_KEY);
	bool first = p->reader.argument == 1;	/* the reader is at the next one */

	if (first && p->too_long && !p->command)
		resp_fault(p, "ERR", "unknown command");
	if (p->answered || p->fault_code[0])
		return;
	if (first) {
		command_find(s, p);
		return;
	}
	if (!key)
		return;
	p->command->run(s, p);
	p->too_long = false;
	p->n_args = 1;
	p->args_len = p->arg[0].len;
}

static void command_end(struct session *s, struct resp_session *p)
{
	s->frame_ns = 0;
	if (p->answered)
		return;
	if (p->too_long && !p->fault_code[0])
		resp_fault(p, "ERR", "more arguments, or longer ones, than '%s' takes",
			   p->command ? p->command->name : "?");
	if (p->fault_code[0])
		resp_answer_error(s, p->fault_code, "%s", p->fault);
	else if (p->command->flags & RESP_PER_KEY)
		resp_keys_end(s, p);
	else
		p->command->run(s, p);
}

/* It is no RESP: one word, then the end. */
static void stream_broken(struct session *s, struct resp_session *p)
{
	node_session_blame(s, p->reader.fault);
	resp_answer_error(s, "ERR", "Protocol error: %s", p->reader.fault);
	p->quitting = true;
	s->frame_ns = 0;
}

static bool may_step(const struct session *s, const struct resp_session *p)
{
	if (p->waits || p->greeting || p->quitting || s->rx == RX_PAYLOAD)
		return false;
	return s->state == SESSION_OPEN ? !list_empty(&s->free) : s->state < SESSION_OPEN;
}

static bool resp_step(struct session *s, struct resp_session *p)
{
	const uint8_t *data = p->inbox + p->at;
	size_t used;
	enum resp_step step = resp_reader_step(&p->reader, data, p->end - p->at, &used);

	p->at += (uint32_t)used;
	switch (step) {
	case RESP_MORE:
		return false;
	case RESP_COMMAND:
		step_command(s, p);
		break;
	case RESP_ARGUMENT:
		argument_begin(s, p);
		break;
	case RESP_BYTES:
		argument_bytes(s, p, data, used);
		break;
	case RESP_END:
		argument_end(s, p);
		break;
	case RESP_DONE:
		command_end(s, p);
		break;
	case RESP_BROKEN:
		stream_broken(s, p);
		return false;
	}
	return true;
}

void resp_go(struct session *s)
{
	struct resp_session *p = resp_of(s);
	bool more = true;

	if (p->working)
		return;
	p->working = true;
	while (more && may_step(s, p))
		more = resp_step(s, p);
	p->working = false;
	if (!may_step(s, p))
		return;
	if (!resp_reader_is_inside(&p->reader) && p->at == p->end)
		s->frame_ns = 0;
	else if (s->frame_ns == 0)
		s->frame_ns = s->reactor->now_ns;
	inbox_post(s, p);
}

/* --- the seam -------------------------------------------------------------------------------- */

static int resp_start(struct session *s)
{
	struct resp_session *p = calloc(1, sizeof(*p));
	uint32_t idle_ms = resp_config(s)->idle_ms;

	if (!p)
		return -ENOMEM;
	s->codec_own = p;
	s->rx = RX_HEADER;
	s->keepalive_ns = idle_ms ? idle_ms * NSEC_PER_MSEC : UINT64_MAX;
	inbox_post(s, p);
	return 0;
}

static void resp_stop(struct session *s)
{
	struct resp_session *p = resp_of(s);

	if (p)
		explicit_bzero(p->args, sizeof(p->args));	/* a secret may have come */
	free(p);
	s->codec_own = NULL;
}

static void resp_received(struct session *s, const struct transport_event *ev)
{
	struct resp_session *p = resp_of(s);

	p->posted = false;
	if (ev->status < 0 || s->state >= SESSION_CLOSING)
		return;
	p->end += ev->length;
	resp_go(s);
}

static void resp_greeted(struct session *s, int status)
{
	struct resp_session *p = resp_of(s);

	p->greeting = false;
	if (status < 0 || p->quitting)
		node_session_close(s, true);
	else
		resp_go(s);
}

static void resp_freed(struct request *r)
{
	struct session *s = r->session;
	struct resp_session *p = resp_of(s);

	if (p->quitting && s->n_active == 0)
		node_session_close(s, true);
	else
		resp_go(s);
}

static void resp_scan_deadlines(struct session *s, uint64_t now_ns)
{
	/* what it has to look after is the session's: frames, payload, transfers */
}

const struct node_codec node_codec_resp = {
	.name = "resp",
	.start = resp_start,
	.stop = resp_stop,
	.received = resp_received,
	.greeted = resp_greeted,
	.payload_posted = resp_payload_posted,
	.payload_over = resp_payload_over,
	.freed = resp_freed,
	.refuse = resp_refuse,
	.scan = resp_scan_deadlines,
};
