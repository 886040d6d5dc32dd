/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshots.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct snapshots_one {
	struct snapshot s;
	uint64_t references;	/* that FUSE has of its number; 0 and no user: the place is free */
	unsigned users;		/* who reads it, or has it open */
	uint64_t made_ns;
	char *text;
};

struct snapshots {
	const struct process_clock *clock;
	pthread_mutex_t lock;
	uint64_t made;
	struct snapshots_one *all;
	unsigned n;		/* places that were ever used */
};

int snapshots_new(const struct process_clock *clock, struct snapshots **ret)
{
	struct snapshots *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->clock = clock;
	s->all = calloc(SNAPSHOTS_MAX, sizeof(*s->all));
	if (!s->all || pthread_mutex_init(&s->lock, NULL)) {
		free(s->all);
		free(s);
		return -ENOMEM;
	}
	*ret = s;
	return 0;
}

void snapshots_free(struct snapshots *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < s->n; i++)
		free(s->all[i].text);
	free(s->all);
	(void)pthread_mutex_destroy(&s->lock);	/* nobody holds it */
	free(s);
}

int snapshots_find(struct snapshots *s, uint64_t ino, struct snapshot *ret)
{
	uint64_t now = s->clock->monotonic_ns();
	int r = -ENOENT;

	pthread_mutex_lock(&s->lock);
	for (unsigned i = 0; r && i < s->n; i++) {
		struct snapshots_one *one = &s->all[i];

		if (!one->references || one->s.ino != ino ||
		    now - one->made_ns >= SNAPSHOTS_FRESH_MS * NSEC_PER_MSEC)
			continue;
		one->references++;
		*ret = one->s;
		r = 0;
	}
	pthread_mutex_unlock(&s->lock);
	return r;
}

static bool snapshot_free(const struct snapshots_one *one)
{
	return !one->references && !one->users;
}

/* Lock held. Takes its text away: whoever still has the number is told ESTALE. */
static char *snapshot_end(struct snapshots_one *one)
{
	char *text = one->text;

	one->text = NULL;
	one->references = 0;
	one->s.serial = 0;
	return text;
}

/*
 * Lock held. A place that is free, or that of the oldest one that nobody has open: FUSE keeps the
 * number of a file that was looked at once for as long as it likes. NULL: all are open.
 */
static struct snapshots_one *snapshots_place(struct snapshots *s, char **ret_text)
{
	struct snapshots_one *oldest = NULL;

	*ret_text = NULL;
	for (unsigned i = 0; i < SNAPSHOTS_MAX; i++) {
		struct snapshots_one *one = &s->all[i];

		if (snapshot_free(one))
			return one;
		if (!one->users && (!oldest || one->made_ns < oldest->made_ns))
			oldest = one;
	}
	if (oldest)
		*ret_text = snapshot_end(oldest);
	return oldest;
}

int snapshots_add(struct snapshots *s, uint64_t ino, uint64_t parent, char *text, size_t len,
		  struct snapshot *ret)
{
	struct snapshots_one *one;
	char *old;

	pthread_mutex_lock(&s->lock);
	one = snapshots_place(s, &old);
	if (one) {
		unsigned place = (unsigned)(one - s->all);

		*one = (struct snapshots_one){
			.s = { .serial = ++s->made * SNAPSHOTS_MAX + place, .ino = ino,
			       .parent = parent, .len = len, .made_ms = s->clock->wall_ms(),
			       .text = text },
			.references = 1,
			.made_ns = s->clock->monotonic_ns(),
			.text = text,
		};
		if (place >= s->n)
			s->n = place + 1;
		*ret = one->s;
	}
	pthread_mutex_unlock(&s->lock);
	free(one ? old : text);
	return one ? 0 : -ENFILE;
}

/* Lock held. */
static struct snapshots_one *snapshots_by_serial(struct snapshots *s, uint64_t serial)
{
	struct snapshots_one *one = &s->all[serial % SNAPSHOTS_MAX];

	return one->s.serial == serial && !snapshot_free(one) ? one : NULL;
}

int snapshots_get(struct snapshots *s, uint64_t serial, struct snapshot *ret)
{
	struct snapshots_one *one;

	pthread_mutex_lock(&s->lock);
	one = snapshots_by_serial(s, serial);
	if (one) {
		one->users++;
		*ret = one->s;
	}
	pthread_mutex_unlock(&s->lock);
	return one ? 0 : -ESTALE;
}

static void snapshots_less(struct snapshots *s, uint64_t serial, uint64_t references,
			   unsigned users)
{
	struct snapshots_one *one;
	char *text = NULL;

	pthread_mutex_lock(&s->lock);
	one = snapshots_by_serial(s, serial);
	if (one) {
		one->references -= references < one->references ? references : one->references;
		one->users -= users;
		if (snapshot_free(one))
			text = snapshot_end(one);
	}
	pthread_mutex_unlock(&s->lock);
	free(text);
}

void snapshots_put(struct snapshots *s, uint64_t serial)
{
	snapshots_less(s, serial, 0, 1);
}

void snapshots_forget(struct snapshots *s, uint64_t serial, uint64_t n)
{
	snapshots_less(s, serial, n, 0);
}
