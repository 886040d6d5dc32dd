/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client library.
 *
 *	struct larder_client *c;
 *	struct larder_client_options o = LARDER_CLIENT_OPTIONS_INIT;
 *	o.url = "larder://127.0.0.1"; o.tenant = "demo"; o.secret = s; o.secret_len = n;
 *	if (larder_open(&o, &c)) ...
 *	uint32_t ns;
 *	larder_ns_open(c, "llama-3.1-8b@r7", NULL, LARDER_NS_CREATE, 1000, &ns);
 *	larder_put(c, ns, key, key_len, value, len, 1000);
 *	larder_get(c, ns, key, key_len, buffer, sizeof(buffer), &len, 1000);
 *	larder_close(c);
 *
 * Return values: 0 = done; positive = enum larder_status, what became of the operation; negative =
 * -errno for a call that makes no sense or lacked memory (-EINVAL, -ENOMEM, -ECHILD after a fork).
 *
 * Promises kept here: a GET gives exactly what was put or an error (checks are verified by
 * default); a buffer is yours again at its completion and only then; every wait has a deadline
 * (milliseconds from the call; 0 = the handle's default; it is never infinite).
 *
 * Thread rules: one handle serves any number of threads. Completions are taken by whoever calls
 * larder_poll. A handle made before fork() belongs to the parent: in the child every call on it
 * returns -ECHILD and larder_close only frees memory.
 */
#ifndef LARDER_CLIENT_H
#define LARDER_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <larder/descriptor.h>
#include <larder/environment.h>
#include <larder/log.h>
#include <larder/op.h>
#include <larder/status.h>
#include <larder/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct larder_client;
struct larder_region;

/*
 * URLs. "tcp://host[:port]" (16180) and "shm:///run/larder/larder.sock" name one way to one node.
 * "larder://host:port", with a port, always is tcp to that port. "larder://host" is the host's
 * default node: on this host (localhost, 127.0.0.0/8, [::1]) by shared memory where a node listens
 * at /run/larder/larder.sock, which each attempt to connect looks at anew, and else by tcp to port
 * 16180; on other hosts that. "larder:///path" is shm. An IPv6 address stands in brackets.
 */
struct larder_client_options {
	/* sizeof(struct larder_client_options): set by the INIT macro */
	uint32_t size;
	uint32_t flags;			/* LARDER_OPEN_* */
	const char *url;		/* see above */
	const char *tenant;
	const void *secret;		/* copied */
	size_t secret_len;
	uint32_t deadline_ms;		/* default of calls that give 0; 30,000 */
	uint32_t connect_timeout_ms;	/* one attempt; 2,000 */
	uint32_t keepalive_ms;		/* asked of the node; 0 = the node's */
	uint32_t grace_ms;		/* after a deadline: wait for the node to let go; 50 */
	uint32_t fail_fast_after;	/* failures in a row until DISCONNECTED at once; 3 */
	uint64_t bounce_bytes;		/* scratch memory for unregistered buffers; 64 MiB */
	const struct larder_log *log;	/* copied; NULL = silence */
};
#define LARDER_OPEN_VIEWER 0x1u		/* role viewer: shm and peer credentials only, no secret */
#define LARDER_CLIENT_OPTIONS_INIT                                                                 \
	{ .size = sizeof(struct larder_client_options) }

/*
 * Makes a handle and its progress thread. Does not wait for the node: it need not be up yet.
 * 0, -EINVAL (a url without a host, with a port that is not 1 to 65535, or otherwise no url;
 * tenant; secret), -EPROTONOSUPPORT (a scheme that is unknown), -ENOMEM, other -errno.
 */
int larder_open(const struct larder_client_options *options, struct larder_client **ret);
/* Cancels what is under way, frees everything. No other call may be inside. NULL is fine. */
void larder_close(struct larder_client *c);
/*
 * Opens a handle without a thread, with time and randomness handed in: for tests, the simulator and
 * replay over "loop://name". While a synchronous call waits it steps the handle and calls @step
 * (which steps the node; may be NULL). Not to be used from several threads.
 */
int larder_open_stepped(const struct larder_client_options *options,
			const struct larder_environment *environment, int (*step)(void *user),
			void *user, struct larder_client **ret);
/* Stepped handles: one turn. Returns how much was done (0 = idle). */
int larder_step(struct larder_client *c);

/* What the node said at the last handshake. */
struct larder_client_info {
	char url[256];			/* the one in use: what larder:// picked */
	bool connected;
	uint32_t credits, page_size_bytes, check_block, keepalive_ms, lease_max_ms;
	uint64_t max_value_bytes;
	uint64_t reconnects, retries, cancelled, buffers_lost, checksum_errors;
};
void larder_get_info(struct larder_client *c, struct larder_client_info *ret);
/*
 * The sentence that came with the last failure on this thread, whether a status or -errno; calls
 * that succeed leave it. "no error" when no call has failed on this thread. Never NULL; valid until
 * the thread's next call of the library.
 */
const char *larder_last_error(void);

/* --- namespaces ------------------------------------------------------------------------------ */

#define LARDER_NS_CREATE 0x1u
/*
 * With CREATE, also for one that is there: which keys it stores. Neither: as it is, all in a new
 * one. SECOND_TOUCH: a key's first PUT ends as QUOTA and is remembered; some policies can't
 * (UNSUPPORTED).
 */
#define LARDER_NS_ADMIT_ALL 0x2u
#define LARDER_NS_SECOND_TOUCH 0x4u
/* Only told: another tenant's, for reading. */
#define LARDER_NS_READ_ONLY 0x8u
/*
 * @d NULL: no opinion. Name: 1 to 128 bytes, NUL-terminated here; "tenant:name" is one that another
 * tenant shares with this one, for EXISTS, GET, STAT, LIST, LEASE and RELEASE (else DENIED), or any
 * for a viewer. LAYOUT_MISMATCH: the field is in larder_last_error(). The id stays valid over
 * reconnects, on each of which the name is opened again in the same way.
 */
int larder_ns_open(struct larder_client *c, const char *name, const struct larder_descriptor *d,
		   uint32_t flags, uint32_t deadline_ms, uint32_t *ret_ns);
int larder_ns_descriptor(struct larder_client *c, uint32_t ns, struct larder_descriptor *ret);

struct larder_ns_info {
	char name[LARDER_TENANT_NAME_MAX + 1 + LARDER_NS_NAME_MAX + 1];
	uint32_t ns;
	uint64_t objects, bytes, created_ms;
	uint32_t flags;			/* LARDER_NS_SECOND_TOUCH, LARDER_NS_READ_ONLY */
};
/* Calls @fn for each; stops when it returns false. */
int larder_ns_list(struct larder_client *c, bool (*fn)(void *user, const struct larder_ns_info *i),
		   void *user, uint32_t deadline_ms);
/*
 * Deletes every object of a namespace. BUSY: some are leased or pinned hard and not forced; those
 * stay, the others are gone and counted all the same.
 */
int larder_ns_flush(struct larder_client *c, uint32_t ns, bool force, uint32_t deadline_ms,
		    uint64_t *ret_objects, uint64_t *ret_bytes);
/*
 * Flushes the namespace and forgets it, descriptor too. BUSY: something is leased or pinned hard
 * and not forced, or is being put; what could be flushed is gone then. Afterwards the id is
 * NOT_FOUND until larder_ns_open is called again with the name; so are the ids of other handles.
 */
int larder_ns_retire(struct larder_client *c, uint32_t ns, bool force, uint32_t deadline_ms,
		     uint64_t *ret_objects, uint64_t *ret_bytes);

/* --- memory ---------------------------------------------------------------------------------- */

/*
 * Memory that is direct on every transport (a memfd on shm). Page-aligned, zeroed. Freed by
 * larder_region_free when no operation uses it (-EBUSY otherwise). -ENOMEM also when hugepages were
 * asked for and are not there. The mapping is MAP_SHARED: after a fork, what a child writes into it
 * is in the parent's region too, and in what the parent puts from there.
 *
 * On shm a node may freeze while it writes into a buffer. The pages under that buffer are replaced
 * and the call ends with BUFFER_LOST; bytes of other buffers in these pages stay. Hugepages are
 * replaced as a whole, by spare ones of the pool if there are any, so that buffers which begin and
 * end on one are best. The one case in which a call outlives its deadline: there is no memory to
 * replace with. Then it ends when there is, when the node goes on, or when the node is gone.
 */
#define LARDER_REGION_HUGE 0x1u
int larder_region_alloc(struct larder_client *c, size_t size, uint32_t flags,
			struct larder_region **ret);
/* The application's own memory: direct on verbs, costs a copy elsewhere. */
int larder_region_register(struct larder_client *c, void *addr, size_t size,
			   struct larder_region **ret);
void *larder_region_addr(const struct larder_region *r);
size_t larder_region_size(const struct larder_region *r);
int larder_region_free(struct larder_region *r);
/* After BUFFER_LOST: makes the region direct again. No operation may use it meanwhile (-EBUSY). */
int larder_region_renew(struct larder_region *r);

/* --- one key, synchronous -------------------------------------------------------------------- */

/* OK or EXISTS_SAME (positive) both mean that the value is there. */
int larder_put(struct larder_client *c, uint32_t ns, const void *key, size_t key_len,
	       const void *value, size_t len, uint32_t deadline_ms);
/*
 * The whole value. TOO_SMALL before the first byte when @room is less than its size; *@ret_len is
 * the size then, too.
 */
int larder_get(struct larder_client *c, uint32_t ns, const void *key, size_t key_len, void *buffer,
	       size_t room, size_t *ret_len, uint32_t deadline_ms);
/* 0 or LARDER_NOT_FOUND. */
int larder_exists(struct larder_client *c, uint32_t ns, const void *key, size_t key_len,
		  uint32_t deadline_ms);
int larder_stat(struct larder_client *c, uint32_t ns, const void *key, size_t key_len,
		uint32_t flags, uint32_t deadline_ms, struct larder_stat *ret);
int larder_delete(struct larder_client *c, uint32_t ns, const void *key, size_t key_len,
		  uint32_t flags, uint32_t deadline_ms);
int larder_ping(struct larder_client *c, uint32_t deadline_ms);

/* One page of keys. *@cursor: 0 to begin; 0 afterwards = that was all. */
int larder_list(struct larder_client *c, uint32_t ns, const void *prefix, size_t prefix_len,
		uint64_t *cursor, uint32_t max,
		bool (*fn)(void *user, const void *key, size_t key_len,
			   const struct larder_stat *st),
		void *user, uint32_t deadline_ms);

/* --- batches, asynchronous ------------------------------------------------------------------- */

/*
 * PIN asks not to evict: an object with a soft pin is the last of its tenant's to go, with a hard
 * one (LARDER_F_HARD) it never goes, its ttl does not end it, DELETE and a flush leave it (BUSY)
 * unless forced, and its length counts against the tenant's pinned_bytes (QUOTA above that). A pin
 * is a mark, not a count: PIN twice is PIN once, UNPIN (of the same kind) takes it back for
 * everybody of the tenant, and either is OK when there was nothing to change, so that a retry is
 * harmless. Pins survive a restart of the node. larder_stat.pins shows them.
 */

/*
 * FILL, on EXISTS and GET, asks for the fill lease of the batch's first missing key: at most one
 * item's status is LARDER_FILL, and its caller is to compute that key and what follows, and to put
 * it. Others who ask meanwhile are told NOT_FOUND (EXISTS: presence FILLING) or, with WAIT, wait
 * for their first missing key: until the holder has put it (then it is there), or has given up, or
 * its time is over, or its connection (then the next of them is told FILL). No batch that holds one
 * waits for another's. A fill lease lasts lease_ms (EXISTS; 0 and GET: ten seconds), at most the
 * node's lease_max_ms, and no longer than the connection of this handle. Putting the key ends it,
 * as RELEASE with its lease_id does. EXISTS again with the same lease_id, other than 0, on whatever
 * handle, is the same fill lease; so use one of its own for each batch. Anyone may put the key
 * nevertheless. WAIT without FILL waits in the same way and is told NOT_FOUND where nothing came.
 * BUSY: too many wait already.
 *
 * What waits holds one of the connection's credits (larder_client_info.credits) until it ends. Who
 * keeps as many waiting has none left for anything else, the PUT that they wait for included: keep
 * fewer, or put by another handle.
 */

/* One key of a batch. Everything it points to is the library's until the item is done. */
struct larder_item {
	const void *key;
	size_t key_len;
	const struct iovec *iov;	/* PUT: the value; GET: where it goes */
	int iovcnt;
	uint64_t offset;		/* GET: range; whole value when length is 0 */
	uint64_t length;
	/* PUT: what larder_value_checks told of these bytes; NULL: computed with the call. Bytes
	 * that do not agree are CHECKSUM here or for whoever reads them. */
	const uint32_t *checks;
	/* results */
	int status;			/* enum larder_status; -1 = not done yet */
	uint8_t presence;		/* EXISTS: enum larder_presence */
	uint64_t done_bytes;		/* GET: bytes delivered; PUT: bytes of the value */
	struct larder_stat stat;	/* STAT; GET and PUT set size_bytes */
};

struct larder_batch {
	/* LARDER_OP_PUT, GET, EXISTS, LEASE, RELEASE, PIN, UNPIN, STAT, DELETE */
	uint8_t opcode;
	uint32_t ns;
	uint32_t flags;			/* enum larder_op_flags; NO_CHECKS on GET = checks off */
	uint32_t deadline_ms;
	uint32_t ttl_ms;		/* PUT */
	uint64_t lease_id;		/* EXISTS with LEASE or FILL, LEASE, RELEASE */
	uint32_t lease_ms;
	struct larder_item *items;
	uint32_t n_items;
	/* called from the progress thread as each item is done; may be NULL; must not block and not
	 * call back into the library except larder_submit */
	void (*item_done)(void *user, struct larder_batch *b, uint32_t index);
	void *user;
	/* results */
	uint32_t leading_run;		/* EXISTS: keys found before the first absent one */
	uint32_t n_done;
	void *internal;			/* the library's */
};

/*
 * The checks of a value, for who puts the same bytes often (under other keys, to several nodes) or
 * wants them computed elsewhere than in the call. @checks has room for larder_check_count(total).
 */
void larder_value_checks(const struct iovec *iov, int iovcnt, uint32_t *checks);

/*
 * Starts a batch; it belongs to the library until larder_poll gives it back (once). 0; -EINVAL;
 * -ENOMEM; -EAGAIN when too many are under way.
 */
int larder_submit(struct larder_client *c, struct larder_batch *b);
/* Batches that are done, at most @max. Returns the number. Never blocks. */
int larder_poll(struct larder_client *c, struct larder_batch **done, int max);
/* Readable while larder_poll has something; owned by the handle. */
int larder_event_fd(struct larder_client *c);
/* Asks for an early end; the batch still comes back through larder_poll. */
int larder_cancel(struct larder_client *c, struct larder_batch *b);
/* Submits and waits for this batch alone. 0 when every item ended OK or EXISTS_SAME, else the first
 * other status; each item has its own. */
int larder_run(struct larder_client *c, struct larder_batch *b);

/* --- layer by layer -------------------------------------------------------------------------- */

struct larder_put_stream;
/* Reserves @length bytes. EXISTS is not told before the commit. */
int larder_put_begin(struct larder_client *c, uint32_t ns, const void *key, size_t key_len,
		     uint64_t length, uint32_t deadline_ms, struct larder_put_stream **ret);
/* A status other than OK ends the stream (DISCONNECTED: with its connection): parts and the commit
 * that follow return the same at once. */
int larder_put_part(struct larder_put_stream *s, uint64_t offset, const void *data, size_t len);
/* Both end the stream and free it. Commit needs every byte to have been given once. */
int larder_put_commit(struct larder_put_stream *s);
int larder_put_abort(struct larder_put_stream *s);

#ifdef __cplusplus
}
#endif
#endif
