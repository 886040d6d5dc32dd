/* SPDX-License-Identifier: Apache-2.0 */
#include "fetch.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define FETCH_BOUNCE (1u << 20)	/* values are read into windows: nothing else is large */

struct fetch {
	struct larder_client *client;
	struct spaces *spaces;
	const struct process_clock *clock;
	uint32_t deadline_ms;
	void (*more)(void *user);
	void *user;
	pthread_mutex_t listing;	/* one listing of namespaces at a time */
	pthread_mutex_t lock;
	bool failing;			/* the node's fault, and it was told */
	bool told_full;
	uint64_t epoch;			/* connections lost at the last listing */
	/* under @listing: */
	uint64_t failed_ns;		/* when the last one that failed ended */
	int failed;			/* how */
};

/* When this thread's request is to be answered; 0: each call has the whole deadline. */
static _Thread_local uint64_t fetch_end_ns;

static void fetch_log(void *user, int level, const char *text)
{
	process_say(level, "%s", text);
}

int fetch_open(const struct fetch_options *o, struct spaces *spaces, struct fetch **ret)
{
	/* what the library does by itself is only of interest to who looks for a fault in it */
	static const struct larder_log log = { .line = fetch_log, .level = LARDER_LOG_WARNING };
	struct larder_client_options options = LARDER_CLIENT_OPTIONS_INIT;
	struct fetch *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return -ENOMEM;
	options.url = o->url;
	options.flags = LARDER_OPEN_VIEWER;
	options.deadline_ms = o->deadline_ms;
	options.connect_timeout_ms = o->deadline_ms / 2 + 1;
	/* who came behind one that waited in vain is told at once, while the node is probed */
	options.fail_fast_after = 1;
	options.bounce_bytes = FETCH_BOUNCE;
	options.log = &log;
	f->spaces = spaces;
	f->clock = o->clock;
	f->deadline_ms = o->deadline_ms;
	f->more = o->more;
	f->user = o->user;
	r = -pthread_mutex_init(&f->lock, NULL);
	if (!r)
		r = -pthread_mutex_init(&f->listing, NULL);
	if (!r)
		r = larder_open(&options, &f->client);
	if (r) {
		free(f);
		return r;
	}
	*ret = f;
	return 0;
}

void fetch_close(struct fetch *f)
{
	if (!f)
		return;
	larder_close(f->client);
	(void)pthread_mutex_destroy(&f->listing);	/* nobody holds them */
	(void)pthread_mutex_destroy(&f->lock);
	free(f);
}

void fetch_begin(struct fetch *f)
{
	fetch_end_ns = f->clock->monotonic_ns() + f->deadline_ms * NSEC_PER_MSEC;
}

uint64_t fetch_end(struct fetch *f)
{
	return fetch_end_ns ? fetch_end_ns
			    : f->clock->monotonic_ns() + f->deadline_ms * NSEC_PER_MSEC;
}

/* What is left of the deadline for one call of the library. */
static uint32_t fetch_left_ms(const struct fetch *f)
{
	uint64_t now = f->clock->monotonic_ns();

	if (!fetch_end_ns)
		return f->deadline_ms;
	return fetch_end_ns > now ? (uint32_t)((fetch_end_ns - now) / NSEC_PER_MSEC) + 1 : 1;
}

bool fetch_is_late(struct fetch *f)
{
	return fetch_left_ms(f) < f->deadline_ms / 2;
}

/* --- results --------------------------------------------------------------------------------- */

/* Tells once that the node does not answer, and once that it does again. */
static void fetch_note(struct fetch *f, bool failed, const char *what)
{
	bool tell;

	pthread_mutex_lock(&f->lock);
	tell = f->failing != failed;
	f->failing = failed;
	pthread_mutex_unlock(&f->lock);
	if (tell && failed)
		process_say(LARDER_LOG_WARNING, "%s failed, who reads gets EIO: %s", what,
			    larder_last_error());
	else if (tell)
		process_say(LARDER_LOG_NOTICE, "the node answers again");
}

static int fetch_result(struct fetch *f, int r, const char *what)
{
	switch (r) {
	case LARDER_OK:
	case LARDER_EXISTS_SAME:
		fetch_note(f, false, what);
		return 0;
	case LARDER_NOT_FOUND:
		return -ENOENT;
	case LARDER_BAD_REQUEST:	/* a range that is not there, a hash of two keys */
		return -EINVAL;
	case LARDER_DENIED:
		fetch_note(f, true, what);
		return -EACCES;
	case -ENOMEM:
		return -ENOMEM;
	default:
		fetch_note(f, true, what);
		return -EIO;
	}
}

/* --- namespaces ------------------------------------------------------------------------------ */

struct fetch_listing {
	struct fetch *f;
	int error;
};

static bool fetch_space(void *user, const struct larder_ns_info *info)
{
	struct fetch_listing *l = user;
	int r = spaces_add(l->f->spaces, info);

	l->error = l->error ? l->error : r;
	return true;
}

int fetch_spaces(struct fetch *f, uint32_t age_ms)
{
	struct fetch_listing l = { .f = f };
	uint64_t begun = f->clock->monotonic_ns(), now, last;
	int r = 0;

	pthread_mutex_lock(&f->listing);
	now = f->clock->monotonic_ns();
	last = spaces_listed_ns(f->spaces);
	/* also when somebody else listed, or tried to, while this one waited */
	if (f->failed && f->failed_ns > begun) {
		r = f->failed;
	} else if (!last || now - last > age_ms * NSEC_PER_MSEC) {
		spaces_begin(f->spaces);
		r = larder_ns_list(f->client, fetch_space, &l, fetch_left_ms(f));
		f->failed = r == LARDER_OK ? 0 : r;
		f->failed_ns = f->clock->monotonic_ns();
		if (f->more)
			f->more(f->user);
		spaces_end(f->spaces, r == LARDER_OK);
		if (l.error && !f->told_full)
			process_say(LARDER_LOG_WARNING,
				    "the node has more than %u namespaces or %u tenants: the "
				    "others are not shown", TREE_SPACES_MAX, SPACES_TENANTS_MAX);
		f->told_full = l.error != 0;
	}
	pthread_mutex_unlock(&f->listing);
	return fetch_result(f, r, "listing namespaces");
}

/*
 * The node may be another one behind a new connection, with memory made anew in which the same slot
 * and generation are another object. Its namespaces were made at another time then, so a look at
 * them tells. Called after an answer, before it is believed.
 */
static int fetch_same(struct fetch *f, const struct space *space)
{
	struct larder_client_info info;
	struct space now;
	uint64_t epoch;
	int r;

	larder_get_info(f->client, &info);
	pthread_mutex_lock(&f->lock);
	epoch = f->epoch;
	pthread_mutex_unlock(&f->lock);
	if (epoch != info.reconnects) {
		r = fetch_spaces(f, 0);
		if (r)
			return r;
		pthread_mutex_lock(&f->lock);
		f->epoch = info.reconnects;
		pthread_mutex_unlock(&f->lock);
	}
	r = spaces_space(f->spaces, space->index, &now);
	return !r && now.alive && now.id == space->id && now.created_ms == space->created_ms
		? 0 : -ESTALE;
}

/* The library's handle of @space. */
static int fetch_handle(struct fetch *f, const struct space *space, uint32_t *ret)
{
	int r;

	if (!space->alive)
		return -ESTALE;
	*ret = space->handle;
	if (space->opened)
		return 0;
	r = larder_ns_open(f->client, space->listed, NULL, 0, fetch_left_ms(f), ret);
	r = fetch_result(f, r, "opening a namespace");
	if (!r)
		spaces_opened(f->spaces, space->index, space->id, *ret);
	return r == -ENOENT ? -ESTALE : r;
}

int fetch_descriptor(struct fetch *f, const struct space *space, struct larder_descriptor *ret)
{
	uint32_t ns;
	int r = fetch_handle(f, space, &ns);

	return r ? r : fetch_result(f, larder_ns_descriptor(f->client, ns, ret),
				    "reading a descriptor");
}

/* --- objects --------------------------------------------------------------------------------- */

int fetch_list(struct fetch *f, const struct space *space, uint64_t *cursor, uint32_t max,
	       bool (*fn)(void *user, const void *key, size_t key_len,
			  const struct larder_stat *st),
	       void *user)
{
	uint32_t ns;
	int r = fetch_handle(f, space, &ns);

	if (r)
		return r;
	r = larder_list(f->client, ns, NULL, 0, cursor, max, fn, user, fetch_left_ms(f));
	r = fetch_result(f, r, "listing keys");
	if (!r)
		r = fetch_same(f, space);
	return r == -ENOENT ? -ESTALE : r;
}

struct fetch_one {
	struct tree_key *key;
	struct larder_stat *st;
	bool found;
};

static bool fetch_take(void *user, const void *key, size_t key_len, const struct larder_stat *st)
{
	struct fetch_one *one = user;

	if (one->found || key_len > sizeof(one->key->bytes))
		return false;
	memcpy(one->key->bytes, key, key_len);
	one->key->len = (uint16_t)key_len;
	one->key->is_hash = false;
	*one->st = *st;
	one->found = true;
	return true;
}

int fetch_node(struct fetch *f, const struct space *space, const struct tree_node *node,
	       struct tree_key *key, struct larder_stat *ret)
{
	uint64_t cursor = tree_slot_cursor(node->slot);
	struct fetch_one one = { .key = key, .st = ret };
	int r = fetch_list(f, space, &cursor, 1, fetch_take, &one);

	if (r)
		return r;
	return one.found && tree_node_is(node, ret->inode) ? 0 : -ESTALE;
}

static int fetch_run(struct fetch *f, const struct space *space, uint8_t opcode,
		     const struct tree_key *key, struct larder_item *item, const char *what)
{
	struct larder_batch batch = { .opcode = opcode, .items = item, .n_items = 1,
				      .flags = key->is_hash ? LARDER_F_BY_HASH : 0,
				      .deadline_ms = fetch_left_ms(f) };
	int r = fetch_handle(f, space, &batch.ns);

	if (r)
		return r;
	item->key = key->bytes;
	item->key_len = key->len;
	r = fetch_result(f, larder_run(f->client, &batch), what);
	return r ? r : fetch_same(f, space);
}

int fetch_stat(struct fetch *f, const struct space *space, struct tree_key *key,
	       struct larder_stat *ret)
{
	struct larder_item item = { .status = -1 };
	struct tree_node node = { .kind = TREE_OBJECT };
	int r = fetch_run(f, space, LARDER_OP_STAT, key, &item, "looking a key up");

	if (r)
		return r == -EINVAL ? -EIO : r;
	*ret = item.stat;
	if (!key->is_hash)
		return 0;
	/* the answer has no key: what lies in the slot has */
	node.slot = tree_inode_slot(item.stat.inode);
	node.generation = tree_inode_generation(item.stat.inode) &
			  ((1u << TREE_GENERATION_BITS) - 1);
	r = fetch_node(f, space, &node, key, ret);
	return r == -ESTALE ? -ENOENT : r;
}

int fetch_range(struct fetch *f, const struct space *space, const struct tree_key *key,
		uint64_t inode, uint64_t offset, void *buffer, size_t len)
{
	struct iovec iov = { buffer, len };
	struct larder_item get = { .iov = &iov, .iovcnt = 1, .offset = offset, .length = len };
	struct larder_item stat = { .status = -1 };
	int r = fetch_run(f, space, LARDER_OP_GET, key, &get, "reading");

	/*
	 * The object with @inode was there when the file was opened. If it is there now, too, it
	 * was there all the time, since none comes back: then these are its bytes.
	 */
	if (!r)
		r = fetch_run(f, space, LARDER_OP_STAT, key, &stat, "looking a key up");
	if (r == -ENOENT || r == -EINVAL || (!r && stat.stat.inode != inode))
		return -ESTALE;
	if (!r && get.done_bytes != len)
		return -EIO;
	return r;
}

int fetch_memory(struct fetch *f, size_t size, struct larder_region **ret)
{
	return larder_region_alloc(f->client, size, 0, ret);
}

void fetch_get_info(struct fetch *f, struct fetch_info *ret)
{
	struct larder_client_info info;

	larder_get_info(f->client, &info);
	memcpy(ret->url, info.url, sizeof(ret->url));
	ret->connected = info.connected;
	ret->page_size = info.page_size_bytes ? info.page_size_bytes : 4096;
}
