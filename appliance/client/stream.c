/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A value that is put layer by layer: begin reserves its pages, parts bring bytes at any offset,
 * commit makes it visible and carries the check of every block.
 *
 * The writer computes the checks, so the bytes of one check block must be given from its first to
 * its last; blocks themselves may be given in any order. (A layer usually is many blocks; where it
 * is not, give the parts in order.) A part that begins inside a block at another place than where
 * the last one ended is refused.
 *
 * A stream lives on one connection: what the node keeps of it ends with that, and so does the
 * stream (DISCONNECTED). Its deadline is one, from begin to commit. What ends it is remembered:
 * from the first failure on, parts and the commit return that one, without asking the node again.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "client/conn.h"
#include "client/handle.h"
#include "wire/encode.h"

struct stream_block {
	uint32_t filled;
	uint32_t crc;
};

struct larder_put_stream {
	struct larder_client *client;
	uint32_t ns;
	uint64_t epoch;		/* of the connection on which it began */
	uint64_t put;		/* the node's name for it */
	uint64_t deadline_ns;
	uint64_t length;
	int failure;		/* status of the first part that failed; 0 */
	char failure_text[CORE_TEXT_SIZE];
	uint32_t n_blocks;
	size_t key_len;
	uint8_t key[LARDER_KEY_MAX];
	struct stream_block blocks[];
};

/* One request of a stream. */
struct stream_call {
	struct waiter w;
	struct larder_put_stream *s;
	uint64_t offset;
	uint64_t length;
};

static struct stream_call *stream_of_job(struct job *job)
{
	return container_of(job, struct stream_call, w.job);
}

static int stream_sent(struct call *call, int len)
{
	if (len < 0)
		return len;
	call->message_len = (uint32_t)len;
	return 0;
}

static void stream_no_reply(struct call *call, const struct wire_reply *r)
{
}

static int stream_call(struct stream_call *sc, uint8_t opcode, bool pinned,
		       int (*encode)(struct call *call, struct wire_writer *w),
		       void (*reply)(struct call *call, const struct wire_reply *r))
{
	struct larder_put_stream *s = sc->s;

	job_init_one(&sc->w.job, opcode, s->ns);
	sc->w.job.deadline_ns = s->deadline_ns;
	sc->w.job.epoch = pinned ? s->epoch : 0;
	sc->w.job.encode = encode;
	sc->w.job.reply = reply;
	return handle_call(s->client, &sc->w);
}

/* --- begin ----------------------------------------------------------------------------------- */

static int stream_begin_encode(struct call *call, struct wire_writer *w)
{
	struct larder_put_stream *s = stream_of_job(call->job)->s;
	struct name *n = name_find(call->core, s->ns);
	struct wire_put put;

	if (!n) {
		job_text(call->job, LARDER_BAD_REQUEST, "namespace %u was not opened here", s->ns);
		return LARDER_BAD_REQUEST;
	}
	if (n->refusal)
		return n->refusal;
	if (s->length > call->conn->max_value)
		return LARDER_TOO_LARGE;
	put = (struct wire_put){
		.c = call_common(call, n->remote, 0),
		.length = s->length,
		.digest = key_digest(n->digest, s->key, s->key_len),
		.key_len = (uint16_t)s->key_len,
	};
	return stream_sent(call, wire_put_encode(w, LARDER_OP_PUT_BEGIN, WIRE_LAST, call_id(call),
						 &put, NULL, NULL, s->key));
}

static void stream_begin_reply(struct call *call, const struct wire_reply *r)
{
	struct larder_put_stream *s = stream_of_job(call->job)->s;

	s->put = r->u.put_begun.put;
	s->epoch = call->conn->epoch;
}

LARDER_PUBLIC int larder_put_begin(struct larder_client *c, uint32_t ns, const void *key,
				   size_t key_len, uint64_t length, uint32_t deadline_ms,
				   struct larder_put_stream **ret)
{
	struct larder_put_stream *s;
	struct stream_call sc = { .s = NULL };
	int r = handle_check(c);

	if (r < 0)
		return r;
	if (!key || key_len < 1 || key_len > LARDER_KEY_MAX)
		return handle_refuse("a key has 1 to %u bytes", (unsigned)LARDER_KEY_MAX);
	if (!length || !ret || length > (uint64_t)CORE_CHECKS_MAX * LARDER_CHECK_BLOCK)
		return handle_refuse("a stream has a place for its handle and 1 to %llu bytes",
				     (unsigned long long)CORE_CHECKS_MAX * LARDER_CHECK_BLOCK);
	s = calloc(1, sizeof(*s) + larder_check_count(length) * sizeof(s->blocks[0]));
	if (!s)
		return handle_errno(-ENOMEM);
	s->client = c;
	s->ns = ns;
	s->length = length;
	s->n_blocks = larder_check_count(length);
	s->key_len = key_len;
	memcpy(s->key, key, key_len);
	s->deadline_ns = handle_deadline(c, deadline_ms);
	sc.s = s;
	r = stream_call(&sc, LARDER_OP_PUT_BEGIN, false, stream_begin_encode, stream_begin_reply);
	if (r) {
		free(s);
		return r;
	}
	*ret = s;
	return 0;
}

/* --- parts ----------------------------------------------------------------------------------- */

static uint32_t stream_block_length(const struct larder_put_stream *s, uint64_t block)
{
	return (uint32_t)MIN(s->length - block * LARDER_CHECK_BLOCK, (uint64_t)LARDER_CHECK_BLOCK);
}

/* Does the part continue every block that it touches? */
static bool stream_part_fits(const struct larder_put_stream *s, uint64_t offset, size_t len)
{
	uint64_t first = offset / LARDER_CHECK_BLOCK;
	uint64_t last = (offset + len - 1) / LARDER_CHECK_BLOCK;

	if (s->blocks[first].filled != offset % LARDER_CHECK_BLOCK)
		return false;
	for (uint64_t i = first + 1; i <= last; i++) {
		if (s->blocks[i].filled)
			return false;
	}
	return true;
}

static void stream_part_check(struct larder_put_stream *s, uint64_t offset, const uint8_t *data,
			      size_t len)
{
	while (len) {
		struct stream_block *b = &s->blocks[offset / LARDER_CHECK_BLOCK];
		size_t n = MIN(len, (size_t)(LARDER_CHECK_BLOCK - b->filled));

		b->crc = crc32c(b->crc, data, n);
		b->filled += (uint32_t)n;
		data += n;
		offset += n;
		len -= n;
	}
}

static int stream_part_encode(struct call *call, struct wire_writer *w)
{
	struct stream_call *sc = stream_of_job(call->job);
	struct wire_put_part part = {
		.put = sc->s->put,
		.offset = sc->offset,
		.length = sc->length,
	};

	return value_part_encode(call, w, &part);
}

static void stream_fails(struct larder_put_stream *s, int status)
{
	s->failure = status;
	snprintf(s->failure_text, sizeof(s->failure_text), "%s", larder_last_error());
}

static int stream_failed(const struct larder_put_stream *s)
{
	handle_error(s->failure_text);
	return s->failure;
}

LARDER_PUBLIC int larder_put_part(struct larder_put_stream *s, uint64_t offset, const void *data,
				  size_t len)
{
	struct stream_call sc = { .s = s, .offset = offset, .length = len };
	struct iovec iov = { (void *)data, len };	/* only read: iovec has no const */
	int r;

	if (!s || !data)
		return handle_refuse(s ? "there are no bytes" : "there is no stream");
	if (!len || offset >= s->length || len > s->length - offset || len > UINT32_MAX)
		return handle_refuse("a part has at least one byte and lies inside the value");
	r = handle_check(s->client);
	if (r < 0)
		return r;
	if (s->failure)
		return stream_failed(s);
	if (!stream_part_fits(s, offset, len))
		return handle_refuse("a part must continue its check block where the last one "
				     "ended");
	job_init_one(&sc.w.job, LARDER_OP_PUT_PART, s->ns);
	sc.w.job.deadline_ns = s->deadline_ns;
	sc.w.job.epoch = s->epoch;
	sc.w.job.encode = stream_part_encode;
	sc.w.job.reply = stream_no_reply;
	sc.w.job.iov = &iov;
	sc.w.job.iovcnt = 1;
	sc.w.job.payload = len;
	r = handle_call(s->client, &sc.w);
	if (r == LARDER_OK)
		stream_part_check(s, offset, data, len);
	else if (r > 0)
		stream_fails(s, r);
	return r;
}

/* --- the end --------------------------------------------------------------------------------- */

static int stream_commit_encode(struct call *call, struct wire_writer *w)
{
	struct larder_put_stream *s = stream_of_job(call->job)->s;
	struct name *n = name_find(call->core, s->ns);
	struct wire_put_commit commit = { .put = s->put, .n_checks = s->n_blocks };

	if (!n)
		return LARDER_BAD_REQUEST;
	commit.c = call_common(call, n->remote, 0);
	wire_append(w, &commit, sizeof(commit));
	for (uint32_t i = 0; i < s->n_blocks; i++)
		wire_append(w, &s->blocks[i].crc, sizeof(s->blocks[i].crc));
	return stream_sent(call, wire_finish(w, LARDER_OP_PUT_COMMIT, 0, 0, call_id(call), 0));
}

static int stream_abort_encode(struct call *call, struct wire_writer *w)
{
	struct wire_put_abort abort = { .put = stream_of_job(call->job)->s->put };

	wire_append(w, &abort, sizeof(abort));
	return stream_sent(call, wire_finish(w, LARDER_OP_PUT_ABORT, 0, 0, call_id(call), 0));
}

static int stream_abort(struct larder_put_stream *s)
{
	struct stream_call sc = { .s = s };
	int r = stream_call(&sc, LARDER_OP_PUT_ABORT, true, stream_abort_encode, stream_no_reply);

	/* with its connection the stream ended already */
	return r == LARDER_DISCONNECTED ? 0 : r;
}

LARDER_PUBLIC int larder_put_abort(struct larder_put_stream *s)
{
	int r;

	if (!s)
		return handle_refuse("there is no stream");
	r = handle_check(s->client);
	if (r == 0)
		r = stream_abort(s);
	free(s);
	return r;
}

static bool stream_is_whole(const struct larder_put_stream *s)
{
	for (uint32_t i = 0; i < s->n_blocks; i++) {
		if (s->blocks[i].filled != stream_block_length(s, i))
			return false;
	}
	return true;
}

LARDER_PUBLIC int larder_put_commit(struct larder_put_stream *s)
{
	struct stream_call sc = { .s = s };
	int r;

	if (!s)
		return handle_refuse("there is no stream");
	r = handle_check(s->client);
	if (r == 0 && s->failure) {
		(void)stream_abort(s);		/* what the caller is told is why it failed */
		r = stream_failed(s);
	} else if (r == 0 && !stream_is_whole(s)) {
		(void)stream_abort(s);		/* the same */
		r = handle_refuse("commit before every byte was given");
	} else if (r == 0) {
		r = stream_call(&sc, LARDER_OP_PUT_COMMIT, true, stream_commit_encode,
				stream_no_reply);
	}
	free(s);
	return r;
}
