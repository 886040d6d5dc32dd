/* SPDX-License-Identifier: Apache-2.0 */
#include "lookups.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define LOOKUPS_PAGES 4u
#define LOOKUPS_ENTRIES 160u		/* a message of the node has fewer */
#define LOOKUPS_KEYS (16u << 10)
#define LOOKUPS_FOLLOW_S 60u	/* no look tells while attributes come with the list */
#define LOOKUPS_NEAR 256u	/* slots: a look that far after the last goes along a list */

struct lookups_entry {
	struct larder_stat st;
	uint32_t at;			/* of the key in the page's bytes */
	uint16_t len;
};

struct lookups_page {
	bool filling, good;
	uint32_t space;
	uint64_t created_ms, asked_ns;
	uint32_t n, used;
	struct lookups_entry entry[LOOKUPS_ENTRIES];
	uint8_t keys[LOOKUPS_KEYS];
};

struct lookups {
	struct fetch *fetch;
	const struct process_clock *clock;
	pthread_mutex_t lock;
	uint64_t drops;			/* calls of lookups_drop */
	uint32_t last_space, last_slot;
	uint64_t along_ns[TREE_SPACES_MAX];	/* of the last look along a list; 0: none */
	struct lookups_page page[LOOKUPS_PAGES];
};

int lookups_new(struct fetch *f, const struct process_clock *clock, struct lookups **ret)
{
	struct lookups *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->fetch = f;
	l->clock = clock;
	if (pthread_mutex_init(&l->lock, NULL)) {
		free(l);
		return -ENOMEM;
	}
	*ret = l;
	return 0;
}

void lookups_free(struct lookups *l)
{
	if (!l)
		return;
	(void)pthread_mutex_destroy(&l->lock);	/* nobody holds it */
	free(l);
}

void lookups_drop(struct lookups *l, uint32_t space)
{
	pthread_mutex_lock(&l->lock);
	l->drops++;
	for (unsigned i = 0; i < LOOKUPS_PAGES; i++)
		if (l->page[i].space == space)
			l->page[i].good = false;
	pthread_mutex_unlock(&l->lock);
}

/* Lock held. */
static const struct lookups_entry *page_find(const struct lookups_page *p,
					     const struct space *space, const struct tree_key *key)
{
	if (!p->good || p->space != space->index || p->created_ms != space->created_ms)
		return NULL;
	for (uint32_t i = 0; i < p->n; i++) {
		const struct lookups_entry *e = &p->entry[i];

		if (e->len == key->len && !memcmp(p->keys + e->at, key->bytes, key->len))
			return e;
	}
	return NULL;
}

static bool lookups_known(struct lookups *l, const struct space *space,
			  const struct tree_key *key, struct larder_stat *ret, uint32_t *ret_age_ms)
{
	uint64_t now = l->clock->monotonic_ns();
	bool found = false;

	pthread_mutex_lock(&l->lock);
	for (unsigned i = 0; i < LOOKUPS_PAGES && !found; i++) {
		const struct lookups_page *p = &l->page[i];
		const struct lookups_entry *e = page_find(p, space, key);

		if (!e || now - p->asked_ns >= LOOKUPS_AGE_MS * NSEC_PER_MSEC)
			continue;
		*ret = e->st;
		*ret_age_ms = (uint32_t)((now - p->asked_ns) / NSEC_PER_MSEC);
		l->last_space = space->index;
		l->last_slot = tree_inode_slot(e->st.inode);
		found = true;
	}
	pthread_mutex_unlock(&l->lock);
	return found;
}

static bool page_add(void *user, const void *key, size_t key_len, const struct larder_stat *st)
{
	struct lookups_page *p = user;

	if (p->n == LOOKUPS_ENTRIES || key_len > LOOKUPS_KEYS - p->used)
		return false;
	p->entry[p->n++] = (struct lookups_entry){ *st, p->used, (uint16_t)key_len };
	memcpy(p->keys + p->used, key, key_len);
	p->used += (uint32_t)key_len;
	return true;
}

/* Lock held. The oldest page that nobody fills, or NULL. */
static struct lookups_page *lookups_take(struct lookups *l, const struct space *space)
{
	struct lookups_page *oldest = NULL;

	for (unsigned i = 0; i < LOOKUPS_PAGES; i++) {
		struct lookups_page *p = &l->page[i];

		if (!p->filling && (!oldest || !p->good || p->asked_ns < oldest->asked_ns))
			oldest = p;
	}
	if (!oldest)
		return NULL;
	oldest->good = false;
	oldest->filling = true;
	oldest->space = space->index;
	oldest->created_ms = space->created_ms;
	oldest->asked_ns = l->clock->monotonic_ns();
	oldest->n = oldest->used = 0;
	return oldest;
}

/* What follows @slot. A failure is the next look's, which asks for itself. */
static void lookups_ahead(struct lookups *l, const struct space *space, uint32_t slot)
{
	uint64_t cursor = tree_slot_cursor(slot) + 1, drops;
	struct lookups_page *p = NULL;
	bool along;
	int r;

	pthread_mutex_lock(&l->lock);
	along = l->last_space == space->index && slot > l->last_slot &&
		slot - l->last_slot <= LOOKUPS_NEAR;
	l->last_space = space->index;
	l->last_slot = slot;
	drops = l->drops;
	if (along) {
		l->along_ns[space->index] = l->clock->monotonic_ns();
		p = lookups_take(l, space);
	}
	pthread_mutex_unlock(&l->lock);
	if (!p)
		return;
	r = fetch_list(l->fetch, space, &cursor, LOOKUPS_ENTRIES, page_add, p);
	pthread_mutex_lock(&l->lock);
	p->filling = false;
	p->good = !r && drops == l->drops;
	pthread_mutex_unlock(&l->lock);
}

bool lookups_follow(struct lookups *l, uint32_t space)
{
	uint64_t now = l->clock->monotonic_ns();
	bool follow;

	pthread_mutex_lock(&l->lock);
	follow = l->along_ns[space] && now - l->along_ns[space] < LOOKUPS_FOLLOW_S * NSEC_PER_SEC;
	pthread_mutex_unlock(&l->lock);
	return follow;
}

int lookups_stat(struct lookups *l, const struct space *space, struct tree_key *key,
		 struct larder_stat *ret, uint32_t *ret_age_ms)
{
	int r;

	*ret_age_ms = 0;
	if (!key->is_hash && lookups_known(l, space, key, ret, ret_age_ms))
		return 0;
	r = fetch_stat(l->fetch, space, key, ret);
	if (!r)
		lookups_ahead(l, space, tree_inode_slot(ret->inode));
	return r;
}
