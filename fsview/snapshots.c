/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshots.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct snapshots_one {
	struct snapshot s;
	uint64_t references;	/* 0: the place is free */
	uint64_t made_ns;
	char *text;
};

struct snapshots {
	const struct process_clock *clock;
	pthread_mutex_t lock;
	uint64_t serial;
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

int snapshots_add(struct snapshots *s, uint64_t ino, uint64_t parent, char *text, size_t len,
		  struct snapshot *ret)
{
	struct snapshots_one *one = NULL;

	pthread_mutex_lock(&s->lock);
	for (unsigned i = 0; i < SNAPSHOTS_MAX && !one; i++)
		if (!s->all[i].references)
			one = &s->all[i];
	if (one) {
		*one = (struct snapshots_one){
			.s = { .serial = ++s->serial, .ino = ino, .parent = parent, .len = len,
			       .made_ms = s->clock->wall_ms(), .text = text },
			.references = 1,
			.made_ns = s->clock->monotonic_ns(),
			.text = text,
		};
		if (one >= s->all + s->n)
			s->n = (unsigned)(one - s->all) + 1;
		*ret = one->s;
	}
	pthread_mutex_unlock(&s->lock);
	if (!one)
		free(text);
	return one ? 0 : -ENFILE;
}

static struct snapshots_one *snapshots_by_serial(struct snapshots *s, uint64_t serial)
{
	for (unsigned i = 0; i < s->n; i++)
		if (s->all[i].references && s->all[i].s.serial == serial)
			return &s->all[i];
	return NULL;
}

int snapshots_get(struct snapshots *s, uint64_t serial, struct snapshot *ret)
{
	struct snapshots_one *one;

	pthread_mutex_lock(&s->lock);
	one = snapshots_by_serial(s, serial);
	if (one) {
		one->references++;
		*ret = one->s;
	}
	pthread_mutex_unlock(&s->lock);
	return one ? 0 : -ESTALE;
}

void snapshots_put(struct snapshots *s, uint64_t serial, uint64_t n)
{
	struct snapshots_one *one;
	char *text = NULL;

	pthread_mutex_lock(&s->lock);
	one = snapshots_by_serial(s, serial);
	if (one) {
		one->references -= n < one->references ? n : one->references;
		if (!one->references) {
			text = one->text;
			one->text = NULL;
		}
	}
	pthread_mutex_unlock(&s->lock);
	free(text);
}
