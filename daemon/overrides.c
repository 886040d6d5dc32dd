/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file is an ini file that a person can read and mend:
 *
 *	# Larder: saved limits of tenants. larderd writes this file; see larderd.conf(5).
 *	[_file]
 *	version = 1
 *	[demo]
 *	objects = 1000
 *	[_end]
 *	complete = yes
 *
 * '_' is in no tenant's name; [_view] is what all viewers share. A file without its end was cut,
 * and one that can't be read as a whole is not used at all: a limit that vanishes without a word is
 * worse than a start that is refused.
 */
#include "overrides.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ini_file.h"

#define OVERRIDES_VERSION "1"

struct overrides_reader {
	struct overrides *overrides;
	bool version, complete;
	char *error;
	size_t size;
};

static struct override *override_at(const struct overrides *o, const char *tenant)
{
	for (size_t i = 0; i < o->n; i++)
		if (strcmp(o->at[i].tenant, tenant) == 0)
			return &o->at[i];
	return NULL;
}

static struct override *override_make(struct overrides *o, const char *tenant)
{
	struct override *more, *e = override_at(o, tenant);

	if (e)
		return e;
	more = realloc(o->at, (o->n + 1) * sizeof(*more));
	if (!more)
		return NULL;
	o->at = more;
	e = &o->at[o->n++];
	*e = (struct override){ .tenant = "" };
	strncpy(e->tenant, tenant, sizeof(e->tenant) - 1);
	return e;
}

const struct limit_set *overrides_find(const struct overrides *o, const char *tenant)
{
	static const struct limit_set nothing;
	const struct override *e = override_at(o, tenant);

	return e ? &e->set : &nothing;
}

int overrides_change(struct overrides *o, const char *tenant, const struct limit_set *set,
		     uint32_t drop)
{
	struct override *e = override_make(o, tenant);

	if (!e)
		return -ENOMEM;
	for (unsigned i = 0; i < LARDER_LIMITS; i++)
		if (set->given & 1u << i)
			e->set.value[i] = set->value[i];
	e->set.given = (e->set.given | set->given) & ~drop;
	if (!e->set.given)
		overrides_forget(o, tenant);
	return 0;
}

void overrides_forget(struct overrides *o, const char *tenant)
{
	struct override *e = override_at(o, tenant);

	if (e)
		*e = o->at[--o->n];
}

int overrides_copy(struct overrides *to, const struct overrides *from)
{
	struct override *at = calloc(from->n + 1, sizeof(*at));

	if (!at)
		return -ENOMEM;
	if (from->n)
		memcpy(at, from->at, from->n * sizeof(*at));
	free(to->at);
	*to = *from;
	to->at = at;
	return 0;
}

void overrides_done(struct overrides *o)
{
	free(o->at);
	o->at = NULL;
	o->n = 0;
}

static int overrides_fail(struct overrides_reader *r, const struct ini_line *l, const char *what)
{
	(void)snprintf(r->error, r->size, "%s:%u: %s (%s)", l->path, l->number, what, l->key);
	return -EINVAL;
}

static int overrides_line(void *user, const struct ini_line *l)
{
	struct overrides_reader *r = user;
	int limit = larder_limit_find(l->key);
	struct override *e;
	uint64_t value;

	if (strcmp(l->section, "_file") == 0 && strcmp(l->key, "version") == 0) {
		r->version = strcmp(l->value, OVERRIDES_VERSION) == 0;
		return r->version ? 0 : overrides_fail(r, l, "another version wrote it");
	}
	if (!r->version)
		return overrides_fail(r, l, "its first setting must be its version");
	if (r->complete)
		return overrides_fail(r, l, "something after its end");
	if (strcmp(l->section, "_end") == 0 && strcmp(l->key, "complete") == 0 &&
	    strcmp(l->value, "yes") == 0) {
		r->complete = true;
		return 0;
	}
	if (l->cut || (!tenant_name_ok(l->section, strlen(l->section)) &&
		       strcmp(l->section, "_view") != 0))
		return overrides_fail(r, l, "neither a tenant nor a limit");
	if (limit < 0)
		return overrides_fail(r, l, "no such limit");
	if (larder_limit_parse((unsigned)limit, l->value, &value))
		return overrides_fail(r, l, "not a value of that limit");
	e = override_make(r->overrides, l->section);
	if (!e) {
		(void)snprintf(r->error, r->size, "%s: no memory to read it", l->path);
		return -ENOMEM;
	}
	e->set.value[limit] = value;
	e->set.given |= 1u << limit;
	return 0;
}

int overrides_read(struct overrides *o, char *error, size_t size)
{
	char why[OVERRIDES_PATH + 256] = "";
	struct overrides_reader reader = { .overrides = o, .error = why, .size = sizeof(why) };
	int r;

	overrides_done(o);
	if (access(o->path, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	r = ini_file_read(o->path, overrides_line, &reader, why, sizeof(why));
	if (r == 0 && !reader.complete) {
		(void)snprintf(why, sizeof(why), "%s: its end is missing", o->path);
		r = -EINVAL;
	}
	if (r) {
		overrides_done(o);
		(void)snprintf(error, size, "%s: the %s limits of tenants can not be used: mend "
			       "the file, or move it away and set the limits again", why, o->what);
	}
	return r;
}

static void overrides_print(const struct overrides *o, FILE *f)
{
	fprintf(f, "# Larder: %s limits of tenants. larderd writes this file; see "
		"larderd.conf(5).\n[_file]\nversion = " OVERRIDES_VERSION "\n", o->what);
	for (size_t i = 0; i < o->n; i++) {
		const struct limit_set *set = &o->at[i].set;
		char text[LARDER_LIMIT_TEXT];

		fprintf(f, "[%s]\n", o->at[i].tenant);
		for (unsigned l = 0; l < LARDER_LIMITS; l++)
			if (set->given & 1u << l)
				fprintf(f, "%s = %s\n", larder_limit_name(l),
					larder_limit_format(l, set->value[l], text));
	}
	fputs("[_end]\ncomplete = yes\n", f);
}

/* What is written must be there after a power loss, and a directory is a file too. */
static int overrides_sync_dir(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return -errno;
	r = fsync(fd) < 0 ? -errno : 0;
	(void)close(fd);	/* only synced */
	return r;
}

static int overrides_write_file(const struct overrides *o, const char *fresh)
{
	int r, fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");

	if (!f) {
		r = -errno;
		if (fd >= 0)
			(void)close(fd);	/* empty so far */
		return r;
	}
	overrides_print(o, f);
	r = fflush(f) == EOF || ferror(f) || fsync(fd) < 0 ? -errno : 0;
	if (fclose(f) == EOF && !r)
		r = -errno;
	return r;
}

int overrides_write(const struct overrides *o, char *error, size_t size)
{
	char copy[OVERRIDES_PATH], fresh[OVERRIDES_PATH + 4];
	const char *dir;
	int r = 0;

	strcpy(copy, o->path);		/* the same size */
	dir = dirname(copy);		/* which it cuts */
	(void)snprintf(fresh, sizeof(fresh), "%s.new", o->path);
	if (o->n == 0) {
		if (unlink(o->path) < 0)
			r = errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
		else
			r = overrides_sync_dir(dir);
	} else {
		if (mkdir(dir, 0700) < 0 && errno != EEXIST)
			r = -errno;
		if (!r)
			r = overrides_write_file(o, fresh);
		if (!r && rename(fresh, o->path) < 0)
			r = -errno;
		if (r)
			(void)unlink(fresh);	/* the next write truncates it anyway */
		else
			r = overrides_sync_dir(dir);
	}
	if (r)
		(void)snprintf(error, size, "%s: the %s limits can not be kept there: %s", o->path,
			       o->what, strerror(-r));
	return r;
}
