/* SPDX-License-Identifier: Apache-2.0 */
#include "tenants.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "overrides.h"
#include "say.h"

struct tenants {
	struct larder_node *node;
	const struct larder_log *log;
	struct tenant_files *files;	/* as last loaded, without secrets; NULL before */
	struct overrides saved, runtime;
	bool has_runtime;		/* there is a control socket, over which they are set */
	struct limit_set view;		/* what viewers have when nothing is set */
};

static const struct limit_set tenants_nothing;

/* --- which value is in force ----------------------------------------------------------------- */

static const struct limit_set *tenants_file_set(const struct tenants *t,
						const struct tenant_files *files, const char *name)
{
	const struct tenant_file *f = tenant_files_find(files, name);

	if (strcmp(name, TENANTS_VIEW) == 0)
		return &t->view;
	return f ? &f->limits : &tenants_nothing;
}

/* The value of one limit, and who gave it ("": nobody). */
static uint64_t tenants_value(const struct tenants *t, const struct tenant_files *files,
			      const char *name, unsigned limit, const char **ret_who)
{
	const struct { const char *who; const struct limit_set *set; } from[] = {
		{ "run-time", overrides_find(&t->runtime, name) },
		{ "saved", overrides_find(&t->saved, name) },
		{ strcmp(name, TENANTS_VIEW) == 0 ? "built-in" : "file's",
		  tenants_file_set(t, files, name) },
	};

	for (unsigned i = 0; i < 3; i++) {
		if (from[i].set->given & 1u << limit) {
			*ret_who = from[i].who;
			return from[i].set->value[limit];
		}
	}
	*ret_who = "";
	return 0;
}

static void tenants_merge(const struct tenants *t, const struct tenant_files *files,
			  const char *name, struct larder_tenant_limits *ret)
{
	const char *who;

	*ret = (struct larder_tenant_limits){ .tenant = name };
	for (unsigned i = 0; i < LARDER_LIMITS; i++)
		ret->limits.value[i] = tenants_value(t, files, name, i, &who);
}

/*
 * The one place from which the node's limits are set: those of @files, of viewers, and nothing for
 * tenants that are about to go, so that what they were guaranteed is free for the others.
 */
static int tenants_apply(struct tenants *t, const struct tenant_files *files, char *error,
			 size_t size)
{
	size_t n_old = t->files ? t->files->n : 0, n = 0;
	struct larder_tenant_limits *all = calloc(files->n + n_old + 1, sizeof(*all));
	int r;

	if (!all) {
		(void)snprintf(error, size, "no memory for the limits of %zu tenants", files->n);
		return -ENOMEM;
	}
	for (size_t i = 0; i < files->n; i++)
		tenants_merge(t, files, files->at[i].name, &all[n++]);
	for (size_t i = 0; i < n_old; i++)
		if (!tenant_files_find(files, t->files->at[i].name))
			all[n++].tenant = t->files->at[i].name;
	tenants_merge(t, files, TENANTS_VIEW, &all[n++]);
	say_capture(error, size);	/* the node says what is wrong with them */
	r = larder_node_set_limits(t->node, all, n, NULL);
	say_capture(NULL, 0);
	if (r && !error[0])
		(void)snprintf(error, size, "the limits can not be set: %s", strerror(-r));
	free(all);
	return r;
}

/* --- loading --------------------------------------------------------------------------------- */

static int tenant_give(struct tenants *t, const struct tenant_file *f, char *error, size_t size)
{
	int r = larder_node_tenant_add(t->node, f->name, f->secret[0], f->secret_len[0],
				       f->secret_len[1] ? f->secret[1] : NULL, f->secret_len[1]);

	if (r)
		(void)snprintf(error, size, "tenant %s can not be added: %s", f->name,
			       strerror(-r));
	return r;
}

/* Takes those of @files that were not there before away again; @n of them were looked at. */
static void tenants_take_back(struct tenants *t, const struct tenant_files *files, size_t n)
{
	while (n-- > 0)
		if (!tenant_files_find(t->files, files->at[n].name))
			(void)larder_node_tenant_remove(t->node, files->at[n].name);
}

static int tenant_share_with(struct tenants *t, const char *name, const struct tenant_file *f)
{
	size_t n = f ? f->n_shares : 0;
	struct larder_share *shares = calloc(n + 1, sizeof(*shares));
	int r;

	if (!shares)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		shares[i] = (struct larder_share){ .ns = f->shares[i].ns,
						   .ns_len = f->shares[i].ns_len,
						   .reader = f->shares[i].reader };
	r = larder_node_set_shares(t->node, name, shares, n);
	free(shares);
	return r;
}

/* What each tenant shares; where one fails, those before it share again what they did. */
static int tenants_share(struct tenants *t, const struct tenant_files *files, char *error,
			 size_t size)
{
	for (size_t i = 0; i < files->n; i++) {
		const char *name = files->at[i].name;
		int r = tenant_share_with(t, name, &files->at[i]);

		if (!r)
			continue;
		(void)snprintf(error, size, "tenant %s can not share its namespaces: %s", name,
			       strerror(-r));
		while (i-- > 0)		/* as before: there was memory for it then */
			(void)tenant_share_with(t, files->at[i].name,
						tenant_files_find(t->files, files->at[i].name));
		return r;
	}
	return 0;
}

/* What can fail comes first, and what it did is taken back. */
static int tenants_give(struct tenants *t, const struct tenant_files *files, char *error,
			size_t size)
{
	char ignored[256];
	int r = 0;
	size_t i;

	for (i = 0; i < files->n && !r; i++)
		if (!tenant_files_find(t->files, files->at[i].name))
			r = tenant_give(t, &files->at[i], error, size);
	if (r) {
		tenants_take_back(t, files, i - 1);
		return r;
	}
	r = tenants_apply(t, files, error, size);
	if (!r) {
		r = tenants_share(t, files, error, size);
		if (r && t->files)	/* they were in force a moment ago */
			(void)tenants_apply(t, t->files, ignored, sizeof(ignored));
	}
	/* a known one gets its secrets: no entry is made, so this does not fail */
	for (i = 0; i < files->n && !r; i++)
		if (tenant_files_find(t->files, files->at[i].name))
			r = tenant_give(t, &files->at[i], error, size);
	if (r)
		tenants_take_back(t, files, files->n);
	return r;
}

static void tenants_remove_gone(struct tenants *t, const struct tenant_files *now)
{
	for (size_t i = 0; t->files && i < t->files->n; i++) {
		const char *name = t->files->at[i].name;

		if (tenant_files_find(now, name))
			continue;
		/* it was loaded, so it is there */
		(void)larder_node_tenant_remove(t->node, name);
		say(t->log, LARDER_LOG_NOTICE, "tenant %s is removed: nobody is let in as it, its "
		    "objects stay", name);
	}
}

/* Each value of a file that another one hides. */
static void tenants_tell_hidden(const struct tenants *t)
{
	for (size_t i = 0; i < t->files->n; i++) {
		const struct tenant_file *f = &t->files->at[i];

		for (unsigned l = 0; l < LARDER_LIMITS; l++) {
			char in_file[LARDER_LIMIT_TEXT], wins[LARDER_LIMIT_TEXT];
			const char *who;
			uint64_t v = tenants_value(t, t->files, f->name, l, &who);

			if (!(f->limits.given & 1u << l) || strcmp(who, "file's") == 0)
				continue;
			say(t->log, LARDER_LOG_NOTICE, "tenant %s: %s = %s of its file does not "
			    "count: the %s value %s wins", f->name, larder_limit_name(l),
			    larder_limit_format(l, f->limits.value[l], in_file), who,
			    larder_limit_format(l, v, wins));
		}
	}
}

/* Each of @ended, with what is in force in its place. */
static void tenants_tell_ended(const struct tenants *t, const struct overrides *ended)
{
	for (size_t i = 0; i < ended->n; i++) {
		const struct override *e = &ended->at[i];

		for (unsigned l = 0; l < LARDER_LIMITS; l++) {
			char was[LARDER_LIMIT_TEXT], now[LARDER_LIMIT_TEXT];
			const char *who;
			uint64_t v = tenants_value(t, t->files, e->tenant, l, &who);

			if (!(e->set.given & 1u << l))
				continue;
			say(t->log, LARDER_LOG_NOTICE, "tenant %s: the run-time value %s = %s "
			    "ended with the process: the %s value %s takes its place", e->tenant,
			    larder_limit_name(l), larder_limit_format(l, e->set.value[l], was),
			    *who ? who : "default", larder_limit_format(l, v, now));
		}
	}
}

int tenants_load(struct tenants *t, const char *dir, char *error, size_t size)
{
	struct tenant_files *files;
	int r = tenant_files_read(dir, error, size, &files);

	if (r)
		return r;
	r = tenants_give(t, files, error, size);
	if (r) {
		tenant_files_free(files);
		return r;
	}
	tenants_remove_gone(t, files);
	tenant_files_forget_secrets(files);	/* the node has its copies */
	tenant_files_free(t->files);
	t->files = files;
	tenants_tell_hidden(t);
	return (int)files->n;
}

int tenants_check(const char *dir, char *error, size_t size)
{
	struct tenant_files *files;
	int r = tenant_files_read(dir, error, size, &files);

	if (r)
		return r;
	r = (int)files->n;
	tenant_files_free(files);
	return r;
}

/* --- opening and closing --------------------------------------------------------------------- */

static int tenants_paths(struct tenants *t, const char *state_dir, const char *control_socket,
			 char *error, size_t size)
{
	t->saved.what = "saved";
	t->runtime.what = "run-time";
	if (snprintf(t->saved.path, OVERRIDES_PATH, "%s/limits", state_dir) >= OVERRIDES_PATH ||
	    snprintf(t->runtime.path, OVERRIDES_PATH, "%s.limits", control_socket) >=
		    OVERRIDES_PATH) {
		(void)snprintf(error, size, "state.dir %s: the path is too long", state_dir);
		return -ENAMETOOLONG;
	}
	return 0;
}

void tenants_started(struct tenants *t)
{
	struct overrides ended = { .what = "run-time" };
	char why[1024] = "";

	if (!t->has_runtime)
		return;
	strcpy(ended.path, t->runtime.path);		/* the same size */
	if (overrides_read(&ended, why, sizeof(why)))
		say(t->log, LARDER_LOG_WARNING, "which run-time limits ended with the last process "
		    "can not be told: %s", why);
	tenants_tell_ended(t, &ended);
	overrides_done(&ended);
	if (overrides_write(&t->runtime, why, sizeof(why)))	/* none so far: no file */
		say(t->log, LARDER_LOG_WARNING, "%s", why);
}

int tenants_open(struct larder_node *node, const char *state_dir, const char *control_socket,
		 const struct larder_log *log, struct tenants **ret, char *error, size_t size)
{
	struct tenants *t = calloc(1, sizeof(*t));
	struct larder_limits view;
	int r;

	if (!t) {
		(void)snprintf(error, size, "no memory for the tenants");
		return -ENOMEM;
	}
	t->node = node;
	t->log = log;
	t->has_runtime = control_socket[0];
	r = tenants_paths(t, state_dir, control_socket, error, size);
	if (!r)
		r = overrides_read(&t->saved, error, size);
	if (r) {
		tenants_free(t);
		return r;
	}
	if (node && larder_node_get_limits(node, TENANTS_VIEW, &view, NULL) == 0)
		for (unsigned i = 0; i < LARDER_LIMITS; i++) {
			t->view.value[i] = view.value[i];
			t->view.given |= view.value[i] ? 1u << i : 0;
		}
	*ret = t;
	return 0;
}

struct tenants *tenants_free(struct tenants *t)
{
	if (!t)
		return NULL;
	tenant_files_free(t->files);
	overrides_done(&t->saved);
	overrides_done(&t->runtime);
	free(t);
	return NULL;
}

struct tenants *tenants_close(struct tenants *t)
{
	struct overrides ended;
	char why[1024] = "";

	if (!t)
		return NULL;
	ended = t->runtime;
	t->runtime.at = NULL;
	t->runtime.n = 0;
	tenants_tell_ended(t, &ended);
	if (ended.n && overrides_write(&t->runtime, why, sizeof(why)))
		say(t->log, LARDER_LOG_WARNING, "%s", why);
	overrides_done(&ended);
	return tenants_free(t);
}

/* --- limits of one tenant -------------------------------------------------------------------- */

bool tenants_configured(const struct tenants *t, const char *name)
{
	return tenant_files_find(t->files, name) != NULL;
}

int tenants_get_limits(const struct tenants *t, const char *name, struct tenants_limits *ret)
{
	if (!tenants_configured(t, name) && strcmp(name, TENANTS_VIEW) != 0)
		return -ENOENT;
	ret->file = *tenants_file_set(t, t->files, name);
	ret->saved = *overrides_find(&t->saved, name);
	ret->runtime = *overrides_find(&t->runtime, name);
	return larder_node_get_limits(t->node, name, NULL, &ret->effective);
}

static void tenants_tell_set(const struct tenants *t, const char *name,
			     const struct limit_set *set, uint32_t drop, bool runtime)
{
	const char *how = runtime ? "until this process ends" : "saved";
	char text[LARDER_LIMIT_TEXT];

	for (unsigned l = 0; l < LARDER_LIMITS; l++)
		if (drop & 1u << l)
			say(t->log, LARDER_LOG_NOTICE, "tenant %s: the %s value of %s is taken "
			    "back", name, runtime ? "run-time" : "saved", larder_limit_name(l));
		else if (set->given & 1u << l)
			say(t->log, LARDER_LOG_NOTICE, "tenant %s: %s = %s, %s", name,
			    larder_limit_name(l), larder_limit_format(l, set->value[l], text), how);
}

int tenants_set_limits(struct tenants *t, const char *name, const struct limit_set *set,
		       uint32_t drop, bool runtime, char *error, size_t size)
{
	struct overrides *o = runtime ? &t->runtime : &t->saved, before = { .n = 0 };
	char ignored[256];
	int r;

	if (!tenants_configured(t, name) && strcmp(name, TENANTS_VIEW) != 0) {
		(void)snprintf(error, size, "no such tenant: %s", name);
		return -ENOENT;
	}
	r = overrides_copy(&before, o);
	if (!r)
		r = overrides_change(o, name, set, drop);
	if (r) {
		overrides_done(&before);
		(void)snprintf(error, size, "no memory for the limits of tenant %s", name);
		return r;
	}
	r = tenants_apply(t, t->files, error, size);
	if (!r) {
		r = overrides_write(o, error, size);
		if (r)
			/* EINVAL says that the values were at fault, and they were not */
			r = r == -EINVAL ? -EIO : r;
	}
	if (!r) {
		overrides_done(&before);
		tenants_tell_set(t, name, set, drop, runtime);
		return 0;
	}
	overrides_done(o);
	*o = before;
	/* they were in force a moment ago */
	(void)tenants_apply(t, t->files, ignored, sizeof(ignored));
	return r;
}

void tenants_forget(struct tenants *t, const char *name)
{
	char why[1024] = "";
	struct overrides *both[] = { &t->saved, &t->runtime };

	for (unsigned i = 0; i < 2; i++) {
		if (!overrides_find(both[i], name)->given)
			continue;
		overrides_forget(both[i], name);
		if (overrides_write(both[i], why, sizeof(why)))
			say(t->log, LARDER_LOG_WARNING, "limits of tenant %s come back with its "
			    "name: %s", name, why);
	}
}

/* --- limits through the map ------------------------------------------------------------------ */

static uint32_t tenants_from_map(void *user, const char *name, const struct larder_limits *values,
				 uint32_t given)
{
	struct tenants *t = user;
	struct limit_set set = { .given = given };
	char why[512] = "";
	uint32_t taken = 0;

	memcpy(set.value, values->value, sizeof(set.value));
	for (unsigned l = 0; l < LARDER_LIMITS; l++)
		if (given & 1u << l && values->value[l] > INT64_MAX)	/* what JSON can tell */
			set.given &= ~(1u << l);
	given = set.given;
	/* together first: one may be right only with another */
	if (!given || tenants_set_limits(t, name, &set, 0, true, why, sizeof(why)) == 0)
		return given;
	for (unsigned l = 0; l < LARDER_LIMITS; l++) {
		set.given = given & 1u << l;
		if (!set.given || set.given == given)
			continue;	/* alone it was tried */
		if (tenants_set_limits(t, name, &set, 0, true, why, sizeof(why)) == 0)
			taken |= set.given;
	}
	return taken;
}

void tenants_look_at_map(struct tenants *t)
{
	larder_node_limits_look(t->node, tenants_from_map, t);
}
