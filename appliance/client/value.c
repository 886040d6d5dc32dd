/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values: PUT, GET and the parts of a put stream.
 *
 * A writer computes a CRC-32C per check block and a digest of (descriptor, key); a reader compares
 * both. Ranges are widened to whole check blocks, since a check says nothing about part of one; the
 * edges go to scratch. On a stream the bytes are verified as they arrive, on a one-sided connection
 * after the reply, by whoever steps the core (a synchronous caller does that itself).
 *
 * Where the node can not reach the caller's memory, the value takes a detour through the bounce: a
 * whole value of unknown size then asks for as much room as the last one needed, and once more with
 * the right size when the node says how large it is.
 *
 * A difference is not believed at once: the GET is repeated with VERIFY, so that the node looks at
 * its own pages and takes a bad object out of service.
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "client/conn.h"
#include "wire/encode.h"

#define VALUE_GUESS_MIN (64u * 1024u)
#define VALUE_SLICE (32u * 1024u)	/* copied and checked while the first-level cache has it */
#define VALUE_BACKOFF_NS NSEC_PER_MSEC
#define VALUE_BACKOFFS_MAX 6u

static struct name *value_name(struct call *call, int *status)
{
	uint32_t ns = call->job->kind == JOB_BATCH ? call->job->batch->ns : call->job->ns;
	struct name *name = name_find(call->core, ns);

	*status = 0;
	if (!name) {
		job_text(call->job, LARDER_BAD_REQUEST, "namespace %u was not opened here", ns);
		*status = LARDER_BAD_REQUEST;
	} else if (name->refusal) {
		*status = name->refusal;
	}
	return name;
}

/* --- where the bytes lie --------------------------------------------------------------------- */

/* 1: the node reaches all of call->iov; 0: it does not; -EAGAIN: it soon will. */
static int value_direct(struct call *call)
{
	struct iov_cursor cursor;
	uint64_t left = call->room;
	uint32_t n = 0;
	uint8_t *at;
	size_t len;

	if (call->no_direct)
		return 0;
	iov_start(&cursor, call->iov, call->iovcnt);
	while (left && (len = iov_take(&cursor, (size_t)MIN(left, (uint64_t)UINT32_MAX), &at))) {
		struct larder_region *region = region_find(call->core, at, len);
		int r = region ? region_know(call->conn, region) : -ENOENT;

		if (r == -EAGAIN)
			return r;
		if (r || ++n > WIRE_SEGS_MAX - 2)
			return 0;
		left -= len;
	}
	return 1;
}

static uint32_t value_segs(struct call *call, struct wire_seg *segs)
{
	struct iov_cursor cursor;
	uint64_t left = call->room;
	uint32_t n = 0;
	uint8_t *at;
	size_t len;

	iov_start(&cursor, call->iov, call->iovcnt);
	while (left && (len = iov_take(&cursor, (size_t)MIN(left, (uint64_t)UINT32_MAX), &at))) {
		struct larder_region *region = region_find(call->core, at, len);

		segs[n++] = (struct wire_seg){
			.region = region->number,
			.length = (uint32_t)len,
			.offset = (uint64_t)(at - region->addr),
		};
		left -= len;
	}
	return n;
}

/* Copies between the caller's list and the bounce; computes or compares checks on the way. */
static void value_copy_out(struct call *call, struct check_stream *checks)
{
	struct iov_cursor cursor;
	uint64_t done = 0;
	uint8_t *at;
	size_t n;

	iov_start(&cursor, call->iov, call->iovcnt);
	while ((n = iov_take(&cursor, VALUE_SLICE, &at))) {
		memcpy(bounce_at(call, done), at, n);
		if (checks)
			check_stream_feed(checks, at, n);
		done += n;
	}
}

static void value_compute(struct call *call, struct check_stream *checks)
{
	struct iov_cursor cursor;
	uint8_t *at;
	size_t n;

	iov_start(&cursor, call->iov, call->iovcnt);
	while ((n = iov_take(&cursor, SIZE_MAX, &at)))
		check_stream_feed(checks, at, n);
}

static int value_arm(struct call *call)
{
	struct transport_conn *tc = call->conn->tc;
	int r = tc->transport->ops->gate_arm(tc, call->index);

	if (r == -EOPNOTSUPP) {
		call->exposed = true;	/* only the connection's end stops this transport's peer */
		return 0;
	}
	if (r < 0)
		return r;
	call->gate_armed = true;
	return 0;
}

/* One-sided: a PUT's bytes to where the node fetches them. */
static int value_lay_out_segs(struct call *call, struct wire_seg *segs, uint32_t *n,
			      struct check_stream *checks)
{
	int r = value_direct(call);

	if (r < 0)
		return r;
	call->bounced = !r;
	if (r) {
		*n = value_segs(call, segs);
		if (checks)
			value_compute(call, checks);
	} else {
		r = bounce_get(call->conn, call, call->room);
		if (r)
			return r;
		value_copy_out(call, checks);
		segs[0] = bounce_seg(call, 0, call->room);
		*n = 1;
	}
	return value_arm(call);
}

int value_lay_out(struct call *call, struct wire_seg *segs, uint32_t *n)
{
	struct check_stream stream, *checks = NULL;
	int r = 0;

	*n = 0;
	if (call->opcode == LARDER_OP_PUT && !call->checks_valid) {
		check_stream_init(&stream, call->room, call->checks);
		checks = &stream;
	}
	if (call->conn->one_sided)
		r = value_lay_out_segs(call, segs, n, checks);
	else if (checks)
		value_compute(call, checks);
	if (r)
		return r;
	call->checks_valid = true;
	if (!call->conn->one_sided) {
		iov_start(&call->out, call->iov, call->iovcnt);
		call->out_len = call->room;
	}
	return 0;
}

LARDER_PUBLIC void larder_value_checks(const struct iovec *iov, int iovcnt, uint32_t *checks)
{
	struct check_stream stream;

	check_stream_init(&stream, iov_total(iov, iovcnt), checks);
	for (int i = 0; i < iovcnt; i++)
		check_stream_feed(&stream, iov[i].iov_base, iov[i].iov_len);
}

/* --- PUT ------------------------------------------------------------------------------------- */

int value_put_encode(struct call *call, struct wire_writer *w)
{
	const struct larder_batch *b = call->job->batch;
	const struct larder_item *item = call_item(call);
	struct wire_seg segs[WIRE_SEGS_MAX];
	struct wire_put put;
	uint32_t n_segs;
	int status, r;
	struct name *name = value_name(call, &status);

	if (status)
		return status;
	call->iov = item->iov;
	call->iovcnt = item->iovcnt;
	call->room = iov_total(item->iov, item->iovcnt);
	call->n_checks = larder_check_count(call->room);
	if (call->room > call->conn->max_value || call->room > UINT32_MAX ||
	    call->n_checks > CORE_CHECKS_MAX) {
		job_text(call->job, LARDER_TOO_LARGE, "the node takes values of at most %llu bytes",
			 (unsigned long long)call->conn->max_value);
		return LARDER_TOO_LARGE;
	}
	if (item->checks && !call->checks_valid) {
		memcpy(call->checks, item->checks, call->n_checks * sizeof(*call->checks));
		call->checks_valid = true;
	}
	r = value_lay_out(call, segs, &n_segs);
	if (r)
		return r;
	put = (struct wire_put){
		.c = call_common(call, name->remote, b->flags),
		.length = call->room,
		.digest = key_digest(name->digest, item->key, item->key_len),
		.ttl_ms = b->ttl_ms,
		.gate = n_segs ? call->index : 0,
		.n_checks = call->n_checks,
		.n_segs = (uint16_t)n_segs,
		.key_len = (uint16_t)item->key_len,
	};
	r = wire_put_encode(w, LARDER_OP_PUT, call->first == 0 ? WIRE_LAST : 0, call_id(call), &put,
			    segs, call->checks, item->key);
	if (r < 0)
		return r;
	call->message_len = (uint32_t)r;
	return 0;
}

int value_part_encode(struct call *call, struct wire_writer *w, struct wire_put_part *part)
{
	struct wire_seg segs[WIRE_SEGS_MAX];
	uint32_t n_segs;
	int status, r;
	struct name *name = value_name(call, &status);

	if (status)
		return status;
	call->iov = call->job->iov;
	call->iovcnt = call->job->iovcnt;
	call->room = call->job->payload;
	r = value_lay_out(call, segs, &n_segs);
	if (r)
		return r;
	part->c = call_common(call, name->remote, 0);
	part->gate = n_segs ? call->index : 0;
	part->n_segs = n_segs;
	r = wire_put_part_encode(w, call_id(call), part, segs);
	if (r < 0)
		return r;
	call->message_len = (uint32_t)r;
	return 0;
}

/* Another writer was at work and failed: it is our turn, shortly. */
static bool value_put_repeats(struct call *call)
{
	struct core *core = call->core;
	uint64_t wait;

	if (call->job->batch->flags & LARDER_F_NOWAIT || call->end_status)
		return false;
	wait = VALUE_BACKOFF_NS << MIN(call->backoffs, VALUE_BACKOFFS_MAX);
	wait = wait / 2 + prng_below(&core->prng, wait / 2 + 1);
	if (core->now_ns + wait >= call->job->deadline_ns)
		return false;
	call->backoffs++;
	call->sends--;		/* not a failure of the connection */
	call->not_before_ns = core->now_ns + wait;
	return true;
}

void value_put_reply(struct call *call, const struct wire_reply *r)
{
	struct larder_item *item = call_item(call);
	int status = r->is_error ? reply_status(call, r) : r->header.status;

	if (status == LARDER_BUSY && value_put_repeats(call)) {
		call->job->text[0] = 0;
		call_result(call, CALL_AGAIN);
		return;
	}
	if (!r->is_error) {
		item->stat.size_bytes = r->u.put_done.size_bytes;
		item->stat.commit_time_ms = r->u.put_done.commit_time_ms;
		item->done_bytes = call->room;
	}
	call_result(call, status);
}

/* --- GET ------------------------------------------------------------------------------------- */

static bool value_checked(const struct call *call)
{
	return !(call->job->batch->flags & LARDER_F_NO_CHECKS);
}

/* The range on the wire, and what of it is the caller's. A status when it makes no sense. */
static int value_range(struct call *call)
{
	struct larder_item *item = call_item(call);
	uint64_t total = iov_total(item->iov, item->iovcnt), end;

	call->iov = item->iov;
	call->iovcnt = item->iovcnt;
	call->head = call->tail = call->offset = 0;
	if (!item->length) {
		call->room = MIN(total, call->conn->max_value);
		call->wanted = call->room;
		return 0;
	}
	if (total < item->length) {
		item->done_bytes = item->length;
		job_text(call->job, LARDER_TOO_SMALL,
			 "the range has %llu bytes, the buffer %llu",
			 (unsigned long long)item->length, (unsigned long long)total);
		return LARDER_TOO_SMALL;
	}
	call->room = MIN(item->length, call->conn->max_value);
	call->offset = item->offset;
	end = item->offset + call->room;
	if (value_checked(call)) {
		call->offset = ALIGN_DOWN(item->offset, (uint64_t)LARDER_CHECK_BLOCK);
		call->head = item->offset - call->offset;
		call->tail = ALIGN_UP(end, (uint64_t)LARDER_CHECK_BLOCK) - end;
	}
	call->wanted = call->head + call->room + call->tail;
	return 0;
}

/* One-sided: names the memory that the node is to write. */
static int value_get_segs(struct call *call, struct wire_seg *segs, uint32_t *n)
{
	int r;

	if (!call->room) {
		/* A request that names no memory asks for the bytes inline, which nobody can have
		 * here. One byte that will not be written makes it the question for the size that
		 * it is: no value has none. */
		call->bounced = false;
		r = bounce_get(call->conn, call, 1);
		if (r)
			return r;
		segs[(*n)++] = bounce_seg(call, 0, 1);
		return value_arm(call);
	}
	r = value_direct(call);
	if (r < 0)
		return r;
	call->bounced = !r;
	if (call->bounced) {
		if (!call_item(call)->length && !call->sized)
			call->room = MIN(call->room,
					 MAX(call->core->last_size, (uint64_t)VALUE_GUESS_MIN));
		else if (call->sized)
			call->room = MIN(call->room, call->got.size_bytes);
		call->wanted = call->head + call->room + call->tail;
		r = bounce_get(call->conn, call, call->wanted);
		if (r)
			return r;
		segs[(*n)++] = bounce_seg(call, 0, call->wanted);
		return value_arm(call);
	}
	if (call->head + call->tail) {
		r = bounce_get(call->conn, call, call->head + call->tail);
		if (r)
			return r;
	}
	if (call->head)
		segs[(*n)++] = bounce_seg(call, 0, call->head);
	*n += value_segs(call, segs + *n);
	if (call->tail)
		segs[(*n)++] = bounce_seg(call, call->head, call->tail);
	return value_arm(call);
}

int value_get_encode(struct call *call, struct wire_writer *w)
{
	const struct larder_item *item = call_item(call);
	struct wire_seg segs[WIRE_SEGS_MAX];
	uint32_t n_segs = 0, flags = call_flags(call);
	struct wire_get get;
	int status, r;
	struct name *name = value_name(call, &status);

	if (!status)
		status = value_range(call);
	if (status)
		return status;
	if (call->conn->one_sided) {
		r = value_get_segs(call, segs, &n_segs);
		if (r)
			return r;
	}
	if (!item->length)
		flags |= LARDER_F_WHOLE;
	if (call->verify)
		flags |= LARDER_F_VERIFY;
	get = (struct wire_get){
		.c = call_common(call, name->remote, flags),
		.offset = call->offset,
		.length = call->wanted,
		.room = call->room,
		.gate = n_segs ? call->index : 0,
		.n_segs = (uint16_t)n_segs,
		.key_len = (uint16_t)item->key_len,
	};
	r = wire_get_encode(w, call->first == 0 ? WIRE_LAST : 0, call_id(call), &get, segs,
			    item->key);
	if (r < 0)
		return r;
	call->message_len = (uint32_t)r;
	return 0;
}

/* Refused. True when it is asked again with room enough. */
static bool value_too_small(struct call *call, uint64_t size)
{
	struct larder_item *item = call_item(call);

	if (call->bounced && !call->sized && !item->length &&
	    size <= iov_total(item->iov, item->iovcnt)) {
		call->sized = true;
		call->sends--;
		call->got.size_bytes = size;
		return true;
	}
	item->done_bytes = size;
	item->stat.size_bytes = size;
	job_text(call->job, LARDER_TOO_SMALL, "the value has %llu bytes, the buffer %llu",
		 (unsigned long long)size,
		 (unsigned long long)iov_total(item->iov, item->iovcnt));
	return false;
}

/* Is this the part of the value that was asked for, with the checks that belong to it? */
static bool value_got_sane(const struct call *call, const struct wire_got *got)
{
	uint64_t expect = MIN(call->wanted, got->size_bytes - got->offset);

	if (got->offset != call->offset || got->length != expect)
		return false;
	if (!call_item(call)->length && got->length != got->size_bytes)
		return false;
	return !value_checked(call) || (got->n_checks == larder_check_count(got->length) &&
					got->n_checks <= CORE_CHECKS_MAX);
}

int value_got(struct call *call, const struct wire_reply *r)
{
	const struct wire_got *got = &r->u.got;
	int status;

	if (r->is_error) {
		status = r->header.status;
		if (status == LARDER_TOO_SMALL && value_too_small(call, r->u.error.detail))
			call_result(call, CALL_AGAIN);
		else
			call_result(call, reply_status(call, r));
		return 1;
	}
	if (got->offset > got->size_bytes || !value_got_sane(call, got)) {
		call_result(call, LARDER_INTERNAL);
		return -EPROTO;
	}
	if (r->header.payload_len != (call->conn->stream ? got->length : 0)) {
		call_result(call, LARDER_INTERNAL);
		return -EPROTO;
	}
	call->got = *got;
	call->core->last_size = got->size_bytes;
	if (!value_checked(call))
		call->got.n_checks = 0;
	if (call->got.n_checks)
		memcpy(call->checks, r->checks, call->got.n_checks * sizeof(uint32_t));
	if (call->conn->stream && got->length)
		return 0;
	value_got_all(call, true);
	return 1;
}

/* One-sided: from where the node wrote it to where the caller reads it, verified on the way. */
static bool value_fetch(struct call *call)
{
	uint64_t left = call->got.length, n = MIN(call->head, left), at = n;
	struct iov_cursor cursor;
	struct verify v;
	uint8_t *app;
	size_t len;

	verify_start(&v, call->checks, call->got.n_checks, left);
	if (call->got.n_checks && n)
		verify_feed(&v, bounce_at(call, 0), n);
	left -= n;
	n = MIN(call->room, left);
	left -= n;
	iov_start(&cursor, call->iov, call->iovcnt);
	while (n && (len = iov_take(&cursor, (size_t)MIN(n, (uint64_t)VALUE_SLICE), &app))) {
		/* copied first: what is checked is what the caller gets */
		if (call->bounced)
			memcpy(app, bounce_at(call, at), len);
		if (call->got.n_checks)
			verify_feed(&v, app, len);
		at += len;
		n -= len;
	}
	if (call->got.n_checks && left)
		verify_feed(&v, bounce_at(call, call->bounced ? at : call->head), left);
	return !call->got.n_checks || verify_good(&v);
}

static bool value_digest_good(const struct call *call)
{
	const struct larder_item *item = call_item(call);
	const struct name *name = name_find(call->core, call->job->batch->ns);

	if (call->job->batch->flags & LARDER_F_BY_HASH)
		return true;	/* the hash of a key does not tell its digest */
	return name && key_digest(name->digest, item->key, item->key_len) == call->got.digest;
}

void value_got_all(struct call *call, bool good)
{
	struct larder_item *item = call_item(call);
	uint64_t skipped = MIN(call->head, call->got.length);

	if (call->tainted) {
		call->no_direct = true;
		call_result(call, CALL_AGAIN);
		return;
	}
	if (call->conn->one_sided)
		good = value_fetch(call);
	if (good && value_digest_good(call)) {
		item->done_bytes = MIN(call->room, call->got.length - skipped);
		item->stat.size_bytes = call->got.size_bytes;
		item->stat.digest = call->got.digest;
		item->stat.commit_time_ms = call->got.commit_time_ms;
		item->stat.flags = call->got.flags;
		call_result(call, LARDER_OK);
		return;
	}
	core_count(call->core, checksum_errors);
	if (!call->verify) {
		call->verify = true;
		call_result(call, CALL_AGAIN);
		return;
	}
	job_text(call->job, LARDER_CHECKSUM, "%s do not match", good ? "key and value" : "bytes");
	call_result(call, LARDER_CHECKSUM);
}
