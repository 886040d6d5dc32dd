/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies: written over the request's own body (a listing: into its scratch) and queued. A refusal
 * says in a sentence what it is about, which limit was met, and what can be done.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "node/codec.h"
#include "node/session.h"

void node_reply_begin(struct request *r, struct wire_writer *w)
{
	r->reply = r->message;
	wire_begin(w, r->reply, r->session->max_message);
}

void node_reply_finish(struct request *r, struct wire_writer *w, int status, uint64_t payload)
{
	int n = wire_finish(w, r->opcode, WIRE_REPLY, (uint16_t)status,
			    r->wire.header.request_id, (uint32_t)payload);

	if (n < 0) {
		/* every reply has been sized beforehand; still, an answer is better than none */
		node_request_release(r);
		node_reply_error(r, LARDER_INTERNAL, 0, "the reply does not fit a message");
		return;
	}
	r->reply_len = (uint32_t)n;
	r->status = (uint8_t)status;
	r->payload = payload;
	node_send_queue(r);
}

void node_reply_struct(struct request *r, const void *body, uint32_t len, int status)
{
	struct wire_writer w;

	node_reply_begin(r, &w);
	wire_append(&w, body, len);
	node_reply_finish(r, &w, status, 0);
}

void node_reply_none(struct request *r)
{
	const struct wire_none none = { 0 };

	node_reply_struct(r, &none, sizeof(none), LARDER_OK);
}

void node_reply_error(struct request *r, int status, uint64_t detail, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);	/* cut if too long, on purpose */
	va_end(ap);
	r->session->codec->refuse(r, status, detail, text);
}

void node_native_refuse(struct request *r, int status, uint64_t detail, const char *text)
{
	struct wire_writer w;
	int n;

	node_reply_begin(r, &w);
	n = wire_write_error(&w, r->opcode, (uint16_t)status, r->wire.header.request_id, detail,
			     text);
	if (n < 0) {
		/* a message always holds 256 bytes of text: the codec is broken */
		node_session_close(r->session, false);
		n = 0;
	}
	r->reply_len = (uint32_t)n;
	r->status = (uint8_t)status;
	r->payload = 0;
	node_send_queue(r);
}

static const char *reply_sentence(int status)
{
	switch (status) {
	case LARDER_NOT_FOUND:
		return "there is no such object, or no such namespace for this session";
	case LARDER_DENIED:
		return "the namespace is another tenant's and shared for reading only";
	case LARDER_CONFLICT:
		return "the key holds other content: objects are immutable, delete it first or use "
		       "another key";
	case LARDER_BUSY:
		return "someone else is at work on the key, or it is leased or pinned hard: try "
		       "again later, or use force where that is meant";
	case LARDER_FILL:
		return "it is not there, and this client holds the fill lease: put it";
	case LARDER_NO_SPACE:
		return "memory is full of what may not be evicted (leased, pinned, being written "
		       "or read): release leases, or give the node more memory";
	case LARDER_QUOTA:
		return "a limit of the tenant is reached: delete something or ask for more";
	case LARDER_UNSUPPORTED:
		return "this node does not do that";
	case LARDER_DEADLINE:
		return "the request's deadline passed before it could be done";
	case LARDER_CANCELLED:
		return "cancelled by the client";
	case LARDER_DRAINING:
		return "the node is draining and takes nothing new: use another one";
	default:
		return larder_status_text(status);
	}
}

static const char *reply_advice(enum larder_limit limit)
{
	switch (limit) {
	case LARDER_LIMIT_resident_bytes:
	case LARDER_LIMIT_objects:
		return "delete objects, let go of leases and pins";
	case LARDER_LIMIT_namespaces:
		return "retire one";
	case LARDER_LIMIT_pinned_bytes:
		return "unpin something";
	case LARDER_LIMIT_leased_bytes:
		return "release leases";
	default:
		return "use less at a time";
	}
}

void node_reply_over(struct request *r, enum larder_limit limit)
{
	uint64_t value = quota_limit(r->session->quota, limit);

	node_reply_error(r, LARDER_QUOTA, value,
			 "over the limit %s of the tenant, which is %llu: %s, or ask for more",
			 larder_limit_name(limit), (unsigned long long)value, reply_advice(limit));
}

void node_reply_status(struct request *r, int status)
{
	if (status == LARDER_QUOTA && r->op.limit < LARDER_LIMITS)
		node_reply_over(r, r->op.limit);
	else if (status == LARDER_QUOTA &&
		 (r->opcode == LARDER_OP_PUT || r->opcode == LARDER_OP_PUT_BEGIN))
		node_reply_error(r, status, 0, "not admitted: this namespace stores a key when it "
				 "is put for the second time; put it again");
	else
		node_reply_error(r, status, 0, "%s", reply_sentence(status));
}

void node_reply_transfer(struct request *r)
{
	const struct transfer *t = &r->transfer;

	if (r->cancelled || t->error == -ECANCELED)
		node_reply_status(r, LARDER_CANCELLED);
	else if (r->expired)
		node_reply_status(r, LARDER_DEADLINE);
	else if (t->error == -ERANGE)
		node_reply_error(r, LARDER_BAD_REQUEST, 0,
				 "a segment reaches past the end of its region");
	else
		node_reply_error(r, LARDER_IO, 0,
				 "the memory of the region could not be reached (%llu of %llu "
				 "bytes moved)", (unsigned long long)t->done,
				 (unsigned long long)t->length);
}
