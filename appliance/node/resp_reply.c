/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers. Before AUTH one at a time from the session's own buffer, after it from the request that
 * did the work; a value follows its head straight from the pages.
 *
 * A refusal is an error line, unless resp.on_refusal is drop: then it looks as if the value had
 * been taken, or as if nothing were there, for clients that lose step at an error. The ledger
 * counts what really happened.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "node/resp.h"

/* The queue takes the reply; the command that it belongs to is answered. */
static void reply_queue(struct request *r, int status)
{
	struct session *s = r->session;
	struct resp_session *p = resp_of(s);
	/* an MGET goes on with its next key */
	bool element = p->command && (p->command->flags & RESP_PER_KEY) &&
		       p->command->run == resp_mget;

	r->status = (uint8_t)status;
	p->waits = false;
	p->request = NULL;
	p->answered = !element;
	node_send_queue(r);
	resp_go(s);
}

void resp_reply_begin(struct request *r, struct resp_writer *w)
{
	struct resp_session *p = resp_of(r->session);

	r->reply = r->message;
	r->payload = 0;
	r->trailer = NULL;
	resp_begin(w, r->reply, r->session->max_message, p->three);
	if (!p->head_due)
		return;
	p->head_due = false;
	resp_write_array(w, p->reader.arguments - 1);
}

void resp_reply_end(struct request *r, struct resp_writer *w, int status)
{
	if (w->is_full) {
		resp_begin(w, r->reply, r->session->max_message, w->three);
		resp_write_error(w, "ERR", "the reply does not fit");
	}
	r->reply_len = (uint32_t)w->len;
	reply_queue(r, status);
}

void resp_reply_integer(struct request *r, int64_t n, int status)
{
	struct resp_writer w;

	resp_reply_begin(r, &w);
	resp_write_integer(&w, n);
	resp_reply_end(r, &w, status);
}

void resp_reply_null(struct request *r, int status)
{
	struct resp_writer w;

	resp_reply_begin(r, &w);
	resp_write_null(&w);
	resp_reply_end(r, &w, status);
}

void resp_reply_error(struct request *r, const char *code, const char *text)
{
	struct resp_writer w;

	resp_reply_begin(r, &w);
	resp_write_error(&w, code, text);
	resp_reply_end(r, &w, LARDER_BAD_REQUEST);
}

void resp_reply_value(struct request *r, uint64_t offset, uint64_t length)
{
	struct resp_writer w;

	resp_reply_begin(r, &w);
	resp_write_bulk_head(&w, length);
	r->transfer.object = r->op.object;
	r->transfer.offset = offset;
	r->payload = r->transfer.length = length;
	r->trailer = "\r\n";
	resp_reply_end(r, &w, LARDER_OK);
}

static bool refuse_dropped(struct request *r, struct resp_writer *w)
{
	const struct resp_session *p = resp_of(r->session);

	switch (p->command ? (enum resp_dropped)p->command->dropped : RESP_TOLD) {
	case RESP_AS_OK:
		resp_write_simple(w, "OK");
		break;
	case RESP_AS_ZERO:
		resp_write_integer(w, 0);
		break;
	case RESP_AS_NULL:
		resp_write_null(w);
		break;
	case RESP_TOLD:
		return false;
	}
	node_count(&r->session->tenant->resp_dropped, 1);
	return true;
}

void resp_refuse(struct request *r, int status, uint64_t detail, const char *text)
{
	struct resp_writer w;

	node_request_release(r);
	resp_reply_begin(r, &w);
	if (!resp_config(r->session)->drop || !refuse_dropped(r, &w))
		resp_write_error(&w, status == LARDER_BAD_REQUEST ? "ERR" :
				 larder_status_name(status), text);
	resp_reply_end(r, &w, status);
}

/* --- without the engine ---------------------------------------------------------------------- */

void resp_answer_begin(struct session *s, struct resp_writer *w)
{
	struct resp_session *p = resp_of(s);

	if (s->state != SESSION_OPEN) {
		resp_begin(w, s->hs.out, sizeof(s->hs.out), p->three);
		return;
	}
	if (p->request) {	/* of a command that comes to nothing */
		if (p->request->state != REQUEST_STARTED)
			node_request_move(p->request, REQUEST_STARTED);
		node_request_release(p->request);
	} else {
		p->request = resp_request(s, LARDER_OP_PING);
	}
	resp_reply_begin(p->request, w);
}

void resp_answer_end(struct session *s, struct resp_writer *w, int status)
{
	struct resp_session *p = resp_of(s);
	const struct iovec iov = { .iov_base = s->hs.out, .iov_len = w->len };
	const struct transport_tx tx = { .type = TRANSPORT_SEND, .niov = 1, .iov = &iov,
					 .gate = TRANSPORT_NO_GATE,
					 .cookie = cookie_make(COOKIE_HANDSHAKE_TX, 0, 0) };

	p->answered = true;
	if (s->state == SESSION_OPEN) {
		resp_reply_end(p->request, w, status);
		return;
	}
	p->greeting = true;
	if (s->state < SESSION_OPEN && (w->is_full || transport_tx(s->conn, &tx, 1) != 1))
		node_session_close(s, false);
}

void resp_answer_error(struct session *s, const char *code, const char *fmt, ...)
{
	struct resp_writer w;
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);	/* cut if too long, on purpose */
	va_end(ap);
	resp_answer_begin(s, &w);
	resp_write_error(&w, code, text);
	resp_answer_end(s, &w, LARDER_BAD_REQUEST);
}
