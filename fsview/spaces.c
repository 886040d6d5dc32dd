/* SPDX-License-Identifier: Apache-2.0 */
#include "spaces.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Longer than any name time-out: whoever still has the number of the old one is told ESTALE. */
#define SPACES_REST_NS (300 * NSEC_PER_SEC)

struct spaces {
	const struct process_clock *clock;
	pthread_mutex_t lock;
	struct tenant *tenants;
	uint32_t n_tenants;
	struct space **spaces;
	bool *seen_tenants, *seen_spaces;
	uint32_t n_spaces;
	uint64_t listed_ns;
};

int spaces_new(const struct process_clock *clock, struct spaces **ret)
{
	struct spaces *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->clock = clock;
	s->tenants = calloc(SPACES_TENANTS_MAX, sizeof(*s->tenants));
	s->seen_tenants = calloc(SPACES_TENANTS_MAX, sizeof(bool));
	s->spaces = calloc(TREE_SPACES_MAX, sizeof(*s->spaces));
	s->seen_spaces = calloc(TREE_SPACES_MAX, sizeof(bool));
	r = pthread_mutex_init(&s->lock, NULL);
	if (r || !s->tenants || !s->seen_tenants || !s->spaces || !s->seen_spaces) {
		spaces_free(s);
		return -ENOMEM;
	}
	*ret = s;
	return 0;
}

void spaces_free(struct spaces *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->n_spaces; i++)
		free(s->spaces[i]);
	free(s->spaces);
	free(s->seen_spaces);
	free(s->tenants);
	free(s->seen_tenants);
	(void)pthread_mutex_destroy(&s->lock);	/* nobody holds it */
	free(s);
}

/* --- a listing ------------------------------------------------------------------------------- */

void spaces_begin(struct spaces *s)
{
	pthread_mutex_lock(&s->lock);
	memset(s->seen_tenants, 0, SPACES_TENANTS_MAX * sizeof(bool));
	memset(s->seen_spaces, 0, TREE_SPACES_MAX * sizeof(bool));
	pthread_mutex_unlock(&s->lock);
}

/* Lock held. Its place, made if need be, or -ENFILE. */
static int spaces_seen_tenant(struct spaces *s, const char *name)
{
	uint32_t i;

	for (i = 0; i < s->n_tenants; i++)
		if (!strcmp(s->tenants[i].name, name))
			break;
	if (i == SPACES_TENANTS_MAX)
		return -ENFILE;
	if (i == s->n_tenants) {
		strcpy(s->tenants[i].name, name);
		s->tenants[i].index = i;
		s->n_tenants++;
	}
	s->tenants[i].alive = true;
	s->seen_tenants[i] = true;
	return (int)i;
}

int spaces_add_tenant(struct spaces *s, const char *name)
{
	int r;

	if (!tree_tenant_valid(name))
		return 0;
	pthread_mutex_lock(&s->lock);
	r = spaces_seen_tenant(s, name);
	pthread_mutex_unlock(&s->lock);
	return r < 0 ? r : 0;
}

static bool space_is(const struct space *a, const struct larder_ns_info *info)
{
	return a->alive && a->id == info->ns && a->created_ms == info->created_ms &&
	       !strcmp(a->listed, info->name);
}

/* Lock held. A place for one more, or NULL. */
static struct space *spaces_place(struct spaces *s)
{
	uint64_t now = s->clock->monotonic_ns();

	if (s->n_spaces < TREE_SPACES_MAX) {
		struct space *new = calloc(1, sizeof(*new));

		if (!new)
			return NULL;
		new->index = s->n_spaces;
		s->spaces[s->n_spaces++] = new;
		return new;
	}
	for (uint32_t i = 0; i < s->n_spaces; i++)
		if (!s->spaces[i]->alive && now - s->spaces[i]->gone_ns > SPACES_REST_NS)
			return s->spaces[i];
	return NULL;
}

int spaces_add(struct spaces *s, const struct larder_ns_info *info)
{
	char tenant[LARDER_TENANT_NAME_MAX + 1], text[TREE_NAME_SIZE];
	struct space *at = NULL;
	int owner;

	if (tree_space_split(info->name, tenant, text) < 0)
		return 0;
	pthread_mutex_lock(&s->lock);
	owner = spaces_seen_tenant(s, tenant);
	for (uint32_t i = 0; owner >= 0 && i < s->n_spaces && !at; i++)
		if (space_is(s->spaces[i], info))
			at = s->spaces[i];
	if (owner >= 0 && !at) {
		at = spaces_place(s);
		if (at) {
			*at = (struct space){ .index = at->index, .id = info->ns, .alive = true,
					      .tenant = (uint32_t)owner,
					      .created_ms = info->created_ms };
			strcpy(at->listed, info->name);
			strcpy(at->text, text);
		}
	}
	if (at) {
		at->objects = info->objects;
		at->bytes = info->bytes;
		at->flags = info->flags;
		s->seen_spaces[at->index] = true;
	}
	pthread_mutex_unlock(&s->lock);
	return at ? 0 : -ENFILE;
}

void spaces_end(struct spaces *s, bool whole)
{
	uint64_t now = s->clock->monotonic_ns();

	pthread_mutex_lock(&s->lock);
	for (uint32_t i = 0; whole && i < s->n_tenants; i++)
		s->tenants[i].alive = s->seen_tenants[i];
	for (uint32_t i = 0; whole && i < s->n_spaces; i++) {
		struct space *space = s->spaces[i];

		if (space->alive && !s->seen_spaces[i]) {
			space->alive = false;
			space->gone_ns = now;
		}
	}
	if (whole)
		s->listed_ns = now;
	pthread_mutex_unlock(&s->lock);
}

uint64_t spaces_listed_ns(struct spaces *s)
{
	uint64_t ns;

	pthread_mutex_lock(&s->lock);
	ns = s->listed_ns;
	pthread_mutex_unlock(&s->lock);
	return ns;
}

/* --- look-ups -------------------------------------------------------------------------------- */

int spaces_tenant(struct spaces *s, uint32_t index, struct tenant *ret)
{
	int r = -ENOENT;

	pthread_mutex_lock(&s->lock);
	if (index < s->n_tenants) {
		*ret = s->tenants[index];
		r = 0;
	}
	pthread_mutex_unlock(&s->lock);
	return r;
}

int spaces_space(struct spaces *s, uint32_t index, struct space *ret)
{
	int r = -ENOENT;

	pthread_mutex_lock(&s->lock);
	if (index < s->n_spaces) {
		*ret = *s->spaces[index];
		r = 0;
	}
	pthread_mutex_unlock(&s->lock);
	return r;
}

int spaces_next_tenant(struct spaces *s, uint32_t *index, struct tenant *ret)
{
	int r = -ENOENT;

	pthread_mutex_lock(&s->lock);
	for (; r && *index < s->n_tenants; (*index)++) {
		if (!s->tenants[*index].alive)
			continue;
		*ret = s->tenants[*index];
		r = 0;
		break;
	}
	pthread_mutex_unlock(&s->lock);
	return r;
}

int spaces_next_space(struct spaces *s, uint32_t tenant, uint32_t *index, struct space *ret)
{
	int r = -ENOENT;

	pthread_mutex_lock(&s->lock);
	for (; *index < s->n_spaces; (*index)++) {
		const struct space *space = s->spaces[*index];

		if (!space->alive || (tenant != UINT32_MAX && space->tenant != tenant))
			continue;
		*ret = *space;
		r = 0;
		break;
	}
	pthread_mutex_unlock(&s->lock);
	return r;
}

int spaces_find_tenant(struct spaces *s, const char *name, struct tenant *ret)
{
	for (uint32_t i = 0; !spaces_next_tenant(s, &i, ret); i++)
		if (!strcmp(ret->name, name))
			return 0;
	return -ENOENT;
}

int spaces_find_space(struct spaces *s, uint32_t tenant, const char *text, struct space *ret)
{
	int r = -ENOENT;

	pthread_mutex_lock(&s->lock);
	for (uint32_t i = 0; i < s->n_spaces; i++) {
		const struct space *space = s->spaces[i];

		if (!space->alive || space->tenant != tenant || strcmp(space->text, text))
			continue;
		*ret = *space;
		r = 0;
		break;
	}
	pthread_mutex_unlock(&s->lock);
	return r;
}

void spaces_opened(struct spaces *s, uint32_t index, uint32_t id, uint32_t handle)
{
	pthread_mutex_lock(&s->lock);
	if (index < s->n_spaces && s->spaces[index]->id == id) {
		s->spaces[index]->handle = handle;
		s->spaces[index]->opened = true;
	}
	pthread_mutex_unlock(&s->lock);
}
