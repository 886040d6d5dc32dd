/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs: how a caller's batch becomes calls, and how their results become the caller's.
 *
 * Jobs with something to issue take turns, one call each, so that a batch of a thousand values does
 * not stand before somebody's look-up. Within a batch GET and PUT go from the last key to the first
 * (the node then evicts a prefix's end before its beginning); look-ups go forward, many keys to a
 * message.
 *
 * FILL is about the batch's first missing key, and a node sees only its message. So a batch that
 * takes several is asked without FILL and WAIT first; items that are missing are held back. When
 * all are answered, the first of those is asked again, alone and with both. If it is there by now,
 * it is the next one's turn; any other answer (FILL, or missing still) ends it, and the rest are
 * missing.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <larder/probes.h>

#include "client/conn.h"
#include "client/core.h"

static bool job_ok(int status)
{
	return status == LARDER_OK || status == LARDER_EXISTS_SAME;
}

static bool job_is_value(uint8_t opcode)
{
	return opcode == LARDER_OP_PUT || opcode == LARDER_OP_GET;
}

void job_init_one(struct job *job, uint8_t opcode, uint32_t ns)
{
	*job = (struct job){ .kind = JOB_ONE, .opcode = opcode, .ns = ns };
	list_init(&job->link);
	list_init(&job->ready);
}

/* NULL, or what is wrong with it. */
static const char *job_item_fault(const struct larder_batch *b, const struct larder_item *item)
{
	uint64_t end;

	if (!item->key || item->key_len < 1 || item->key_len > LARDER_KEY_MAX)
		return "a key has 1 to 1024 bytes";
	if ((b->flags & LARDER_F_BY_HASH) && item->key_len != LARDER_KEY_HASH_SIZE)
		return "a hash of a key has 16 bytes";
	if (!job_is_value(b->opcode))
		return NULL;
	if (item->iovcnt < 0 || (item->iovcnt && !item->iov) ||
	    iov_total(item->iov, item->iovcnt) == UINT64_MAX)
		return "a list of buffers makes no sense";
	if (b->opcode == LARDER_OP_PUT)
		return iov_total(item->iov, item->iovcnt) ? NULL : "a value has at least one byte";
	if (__builtin_add_overflow(item->offset, item->length, &end) ||
	    end > UINT64_MAX - LARDER_CHECK_BLOCK || (item->offset && !item->length))
		return "a range needs a length, and ends before 2^64";
	return NULL;
}

static const char *job_batch_fault(const struct larder_batch *b)
{
	if (!b)
		return "there is no batch";
	switch (b->opcode) {
	case LARDER_OP_PUT:
	case LARDER_OP_GET:
	case LARDER_OP_EXISTS:
	case LARDER_OP_LEASE:
	case LARDER_OP_PIN:
	case LARDER_OP_UNPIN:
	case LARDER_OP_STAT:
	case LARDER_OP_DELETE:
		if (!b->n_items)
			return "a batch has at least one item";
		break;
	case LARDER_OP_RELEASE:
		break;	/* without keys: all of the lease */
	default:
		return "there are no batches of this opcode";
	}
	if (b->n_items && !b->items)
		return "there are no items";
	if (b->flags & ~WIRE_CLIENT_FLAGS)
		return "a batch has a flag that is unknown or not a client's";
	for (uint32_t i = 0; i < b->n_items; i++) {
		const char *fault = job_item_fault(b, &b->items[i]);

		if (fault)
			return fault;
	}
	return NULL;
}

int job_init_batch(struct job *job, struct larder_batch *b)
{
	const char *fault = job_batch_fault(b);

	if (fault) {
		job_init_one(job, 0, 0);
		job_text(job, LARDER_BAD_REQUEST, "%s", fault);
		return -EINVAL;
	}
	job_init_one(job, b->opcode, b->ns);
	job->kind = JOB_BATCH;
	job->batch = b;
	job->left = b->n_items ? b->n_items : 1;
	for (uint32_t i = 0; i < b->n_items; i++) {
		struct larder_item *item = &b->items[i];

		item->status = -1;
		item->presence = LARDER_ABSENT;
		item->done_bytes = 0;
		memset(&item->stat, 0, sizeof(item->stat));
	}
	b->n_done = 0;
	b->leading_run = 0;
	return 0;
}

void job_text(struct job *job, int status, const char *fmt, ...)
{
	va_list ap;

	if (job_ok(status) || job->text[0])
		return;
	va_start(ap, fmt);
	(void)vsnprintf(job->text, sizeof(job->text), fmt, ap);	/* a cut sentence is still one */
	va_end(ap);
}

void job_fault(struct job *job, const char *text)
{
	job_text(job, LARDER_INTERNAL, "%s", text);
	job->status = LARDER_INTERNAL;
}

static uint32_t job_items(const struct job *job)
{
	return job->kind == JOB_BATCH ? job->batch->n_items : 1;
}

void job_finish(struct job *job, int status)
{
	struct larder_batch *b = job->batch;

	if (!job->status && !job_ok(status))
		job->status = status;
	else if (job->kind != JOB_BATCH && !job->status)
		job->status = status;	/* EXISTS_SAME is told */
	if (!job_ok(job->status) && !job->text[0])
		job_text(job, job->status, "%s", larder_status_text(job->status));
	if (job->kind == JOB_BATCH && b->opcode == LARDER_OP_EXISTS) {
		while (b->leading_run < b->n_items &&
		       (b->items[b->leading_run].presence == LARDER_PRESENT ||
			b->items[b->leading_run].presence == LARDER_LEASED))
			b->leading_run++;
	}
	list_remove(&job->link);
	list_remove(&job->ready);
	larder_probe5(client_op_done, (uintptr_t)job, job->opcode, job_items(job), job->status,
		      clock_now(&job->core->clock) - job->started_ns);
	job->finished(job);
}

static void job_end_held(struct job *job, int status);

static void job_start_filling(struct job *job)
{
	if (job->ending) {
		job_end_held(job, LARDER_NOT_FOUND);
		return;
	}
	job->filling = true;
	list_push_tail(&job->core->ready, &job->ready);
}

/* The item has its status for good. May finish the job. */
static void job_item_over(struct job *job, uint32_t index, int status)
{
	struct larder_batch *b = job->batch;

	if (!job->status && !job_ok(status))
		job->status = status;
	if (index < b->n_items) {
		b->items[index].status = status;
		b->n_done++;
		if (b->item_done)
			b->item_done(b->user, b, index);
	}
	if (--job->left == 0)
		job_finish(job, job->status);
	else if (job->held == job->left && !job->filling)
		job_start_filling(job);
}

static uint32_t job_next_held(const struct job *job)
{
	uint32_t i = 0;

	while (job->batch->items[i].status != -1)
		i++;
	return i;
}

/* The last one finishes the job. */
static void job_end_held(struct job *job, int status)
{
	uint32_t n = job->held;

	job->filling = true;
	while (n--) {
		job->held--;
		job_item_over(job, job_next_held(job), status);
	}
}

void job_item_done(struct job *job, uint32_t index, int status)
{
	bool filling = job->filling;
	uint32_t held;

	if (job->split && !filling && !job->ending && status == LARDER_NOT_FOUND) {
		job->held++;
		if (job->held == job->left)
			job_start_filling(job);
		return;
	}
	if (filling)
		job->held--;
	held = job->held;
	job_item_over(job, index, status);	/* with none held, that may have been the end */
	if (!filling || !held)
		return;
	if (job_ok(status) && !job->ending)
		list_push_tail(&job->core->ready, &job->ready);
	else
		job_end_held(job, LARDER_NOT_FOUND);
}

/* Items that no call has taken yet. */
static void job_end_rest(struct job *job, int status)
{
	struct larder_batch *b = job->batch;
	uint32_t rest;

	if (!b->n_items) {
		if (!job->issued)
			job_item_done(job, 0, status);
		return;
	}
	rest = b->n_items - job->issued;
	for (uint32_t i = 0; i < rest; i++) {
		uint32_t index = job_is_value(job->opcode) ? rest - 1 - i : job->issued + i;

		/* the last one may finish the job */
		job_item_done(job, index, status);
	}
}

/* What a caller is told when its time is over and there never was a node. */
static int job_end_status(struct job *job, int status)
{
	struct core *core = job->core;

	if (status != LARDER_DEADLINE || (core->conn && core->conn->state == CONN_READY))
		return status;
	if (core->refusal) {
		job_text(job, core->refusal, "%s", core->refusal_text);
		return core->refusal;
	}
	job_text(job, LARDER_DISCONNECTED, "%s could not be reached before the deadline%s%s",
		 core->targets[core->tried].url, core->refusal_text[0] ? ": " : "",
		 core->refusal_text);
	return LARDER_DISCONNECTED;
}

/* Nothing of it left us and nothing came. What was sent counts by itself, after its grace. */
static bool job_unheard(const struct job *job)
{
	const struct core *core = job->core;

	if (job->control_plane || core->heard_ns > job->started_ns)
		return false;
	for (uint32_t i = 0; i < CORE_DEPTH; i++) {
		if (core->calls[i].job == job && core->calls[i].accepted)
			return false;
	}
	return true;
}

void job_end(struct job *job, int status)
{
	struct core *core = job->core;
	bool waiting = !list_empty(&job->ready);

	if (job->ending || job->kind == JOB_LOCAL)
		return;
	job->ending = true;
	if (status == LARDER_DEADLINE && job_unheard(job))
		core_unanswered(core);
	list_remove(&job->ready);
	status = job_end_status(job, status);
	/* the last call of a job that has nothing left to issue finishes it: from there on @job is
	 * only compared with */
	for (uint32_t i = 0; i < CORE_DEPTH; i++) {
		if (core->calls[i].job == job)
			call_want_end(&core->calls[i], status);
	}
	if (!waiting)
		return;
	if (job->kind == JOB_ONE)
		job_finish(job, status);
	else if (job->filling)
		job_end_held(job, status);
	else
		job_end_rest(job, status);
}

/* The job whose turn it is; NULL when the connection takes none. */
static struct job *core_next_job(struct core *core)
{
	struct conn *conn = core->conn;
	struct job *job;

	if (!conn || list_empty(&core->ready) || conn->in_flight >= conn->credits)
		return NULL;
	job = list_entry(core->ready.next, struct job, ready);
	/* callers' calls may all be waiting for what a job of the core's own is to do */
	if (core->n_free <= (job->control_plane ? 0 : CORE_RESERVED))
		return NULL;
	if (conn->state == CONN_READY || (conn->state == CONN_REOPEN && job->control_plane))
		return job;
	return NULL;
}

/* Does it ask for a fill lease, by more than one message? */
static bool job_is_split(struct job *job)
{
	const struct larder_batch *b = job->batch;

	if (!(b->flags & LARDER_F_FILL))
		return false;
	if (b->opcode == LARDER_OP_GET)
		return b->n_items > 1;
	return b->opcode == LARDER_OP_EXISTS &&
	       keys_fit(job, 0, job->core->conn->max_message) < b->n_items;
}

static void core_issue_one(struct core *core, struct job *job)
{
	struct call *call = call_new(core, job, job->opcode);

	list_remove(&job->ready);
	if (job->filling) {
		call->n_items = 1;
		call->first = job_next_held(job);
		call->fill = true;
	} else if (job->kind == JOB_BATCH) {
		uint32_t n_items = job->batch->n_items;

		if (job->issued == 0)
			job->split = job_is_split(job);

		call->n_items = 1;
		call->first = job->issued;
		if (job_is_value(job->opcode))
			call->first = n_items - 1 - job->issued;
		else
			call->n_items = keys_fit(job, job->issued, core->conn->max_message);
		job->issued += call->n_items ? call->n_items : 1;
		if (job->issued < n_items)
			list_push_tail(&core->ready, &job->ready);
	} else {
		job->issued = 1;
	}
	call_try(call);
}

bool job_is_cut_off(struct job *job)
{
	const struct conn *conn = job->core->conn;

	if (!job->epoch || (conn && conn->epoch == job->epoch))
		return false;
	job_text(job, LARDER_DISCONNECTED, "the connection on which it began is gone");
	return true;
}

/* Jobs of callers that wait for credits of a connection which will give none. The core's own end
 * with whatever they are about. */
static bool core_end_cut_off(struct core *core)
{
	list_for_each(it, &core->ready) {
		struct job *job = list_entry(it, struct job, ready);

		if (job->control_plane || !job_is_cut_off(job))
			continue;
		job_end(job, LARDER_DISCONNECTED);
		return true;	/* the list has changed: look again from the start */
	}
	return false;
}

void core_issue(struct core *core)
{
	struct job *job;

	while (core->cut_off)
		core->cut_off = core_end_cut_off(core);
	while (core->kick) {
		struct list again;

		core->kick = false;
		/* taken out first: call_try puts what must go on waiting back at the tail */
		list_init(&again);
		while (!list_empty(&core->waiting))
			list_push_tail(&again, list_pop_head(&core->waiting));
		while (!list_empty(&again)) {
			struct list *it = list_pop_head(&again);

			list_push_tail(&core->waiting, it);
			call_try(list_entry(it, struct call, link));
		}
		if (!core->conn || list_empty(&core->waiting))
			break;
	}
	while ((job = core_next_job(core)))
		core_issue_one(core, job);
}

/* Fail fast: the answer for a node that is known to be sick. */
static int core_refuses(struct core *core, struct job *job)
{
	bool ready = core->conn && core->conn->state == CONN_READY;

	if (job_is_cut_off(job))
		return LARDER_DISCONNECTED;
	if (core->refusal && !ready) {
		job_text(job, core->refusal, "%s", core->refusal_text);
		return core->refusal;
	}
	if (core->failures < core->fail_fast_after)
		return 0;
	/* a node that was never there may be starting: wait for it as long as for one connect */
	if (!core->ever_ready && core->now_ns - core->opened_ns < core->connect_timeout_ns)
		return 0;
	job_text(job, LARDER_DISCONNECTED, "%s does not answer (%u failures in a row%s%s)",
		 core->targets[core->tried].url, core->failures, core->refusal_text[0] ? "; " : "",
		 core->refusal_text);
	return LARDER_DISCONNECTED;
}

void core_submit(struct core *core, struct job *job)
{
	int status;

	job->core = core;
	job->started_ns = core->now_ns;
	list_push_tail(&core->jobs, &job->link);
	larder_probe4(client_op_start, (uintptr_t)job, job->opcode, job_items(job),
		      job->deadline_ns);
	if (job->kind == JOB_LOCAL) {
		status = job->local(job);
		if (status >= 0)
			job_finish(job, status);
		return;
	}
	if (job->kind == JOB_BATCH)
		job->batch_id = ++core->batch_id;
	if (job->control_plane)
		list_push_head(&core->ready, &job->ready);
	else
		list_push_tail(&core->ready, &job->ready);
	core_timer(core, job->deadline_ns);
	if (!job->control_plane)
		conn_asked(core);
	status = job->control_plane ? 0 : core_refuses(core, job);
	if (status)
		job_end(job, status);
}

void core_cancel(struct core *core, struct job *job)
{
	job_end(job, LARDER_CANCELLED);
}
