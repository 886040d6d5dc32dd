/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NAME.conf of the tenants' directory:
 *
 *	[tenant]
 *	secret_file = /etc/larder/secrets/demo
 *	secret_file_next = /etc/larder/secrets/demo.next	; optional, valid too
 *	[limits]
 *	resident_bytes = 8G		; names of <larder/limits.h>
 *	over_cap = reject
 *	[share]
 *	llama-3.1-8b@r7 = reader-1 reader-2
 *
 * secret_credential and secret_credential_next name credentials that systemd hands in instead of
 * files. Each mistake is told with its file and line, and what would be right.
 */
#include "tenants_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <larder/key.h>

#include "ini_file.h"
#include "secret.h"

struct tenant_reader {
	struct tenant_file *tenant;
	const char *dir;
	char *error;
	size_t size;
};

static int tenant_fail(struct tenant_reader *t, const struct ini_line *l, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int tenant_fail(struct tenant_reader *t, const struct ini_line *l, const char *fmt, ...)
{
	int n = snprintf(t->error, t->size, "%s:%u: ", l->path, l->number);
	va_list ap;

	if (n < 0 || (size_t)n >= t->size)
		return -EINVAL;
	va_start(ap, fmt);
	(void)vsnprintf(t->error + n, t->size - (size_t)n, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

bool tenant_name_ok(const char *name, size_t len)
{
	return len >= 1 && len <= LARDER_TENANT_NAME_MAX &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") >= len;
}

static int tenant_line_secret(struct tenant_reader *t, const struct ini_line *l)
{
	static const struct { const char *key; unsigned which; bool credential; } keys[] = {
		{ "secret_file", 0, false }, { "secret_file_next", 1, false },
		{ "secret_credential", 0, true }, { "secret_credential_next", 1, true },
	};

	for (unsigned i = 0; i < 4; i++) {
		struct tenant_file *f = t->tenant;
		char why[1024], *secret;
		int n;

		if (strcmp(l->key, keys[i].key) != 0)
			continue;
		if (f->secret_len[keys[i].which])
			return tenant_fail(t, l, "%s: the tenant has this secret already", l->key);
		secret = f->secret[keys[i].which];
		n = keys[i].credential ? secret_credential(l->value, secret, why, sizeof(why))
				       : secret_file(t->dir, l->value, secret, why, sizeof(why));
		if (n < 0) {
			(void)tenant_fail(t, l, "%s", why);
			return n;
		}
		f->secret_len[keys[i].which] = (size_t)n;
		return 0;
	}
	return tenant_fail(t, l, "no such setting: [tenant] %s: there are secret_file, "
				 "secret_file_next, secret_credential, secret_credential_next",
			   l->key);
}

static int tenant_line_limit(struct tenant_reader *t, const struct ini_line *l)
{
	int limit = larder_limit_find(l->key);
	struct limit_set *set = &t->tenant->limits;
	char names[512] = "";

	if (limit < 0) {
		for (unsigned i = 0; i < LARDER_LIMITS; i++) {
			size_t n = strlen(names);

			(void)snprintf(names + n, sizeof(names) - n, "%s%s", i ? ", " : "",
				       larder_limit_name(i));
		}
		return tenant_fail(t, l, "no such limit: %s: there are %s", l->key, names);
	}
	if (set->given & 1u << limit)
		return tenant_fail(t, l, "%s is set twice", l->key);
	if (larder_limit_parse((unsigned)limit, l->value, &set->value[limit]))
		return tenant_fail(t, l, "%s: \"%s\" is not %s", l->key, l->value,
				   larder_limit_allowed((unsigned)limit));
	set->given |= 1u << limit;
	return 0;
}

static int tenant_add_reader(struct tenant_reader *t, const struct tenant_share *share)
{
	struct tenant_file *f = t->tenant;
	struct tenant_share *more = realloc(f->shares, (f->n_shares + 1) * sizeof(*more));

	if (!more) {
		(void)snprintf(t->error, t->size, "no memory for what tenant %s shares", f->name);
		return -ENOMEM;
	}
	f->shares = more;
	f->shares[f->n_shares++] = *share;
	return 0;
}

/*
 * "namespace = reader ...". '=' may be part of a namespace's name and never of a reader's, so the
 * last one divides; the line as it stands is looked at, since inih divides at the first.
 */
static int tenant_share_text(struct tenant_reader *t, const struct ini_line *l, char *text)
{
	struct tenant_share share = { .ns_len = 0 };
	uint8_t ns[LARDER_KEY_MAX];
	char *comment = strpbrk(text, ";"), *equals, *name = text, *save = NULL;
	bool is_hash = false;
	unsigned readers = 0;
	int n, r = 0;

	if (comment)
		*comment = '\0';	/* ';' is spelled %3B in a name */
	equals = strrchr(text, '=');
	if (!equals)
		return tenant_fail(t, l, "wanted namespace = reader...");
	*equals = '\0';
	name += strspn(name, " \t");
	name[strcspn(name, " \t")] = '\0';
	n = larder_key_parse(name, ns, sizeof(ns), &is_hash);
	if (n < 1 || n > (int)LARDER_NS_NAME_MAX || is_hash)
		return tenant_fail(t, l, "\"%s\" is no namespace: wanted 1 to %u bytes spelled "
				   "like a key (%%20 for a blank)", name, LARDER_NS_NAME_MAX);
	memcpy(share.ns, ns, (size_t)n);
	share.ns_len = (size_t)n;
	for (char *w = strtok_r(equals + 1, " \t", &save); w && !r;
	     w = strtok_r(NULL, " \t", &save)) {
		if (!tenant_name_ok(w, strlen(w)) || strcmp(w, t->tenant->name) == 0)
			return tenant_fail(t, l, "%s: reader \"%s\" is no name of another tenant",
					   name, w);
		strcpy(share.reader, w);	/* its length was checked */
		r = tenant_add_reader(t, &share);
		readers++;
	}
	return r || readers ? r : tenant_fail(t, l, "%s: names no reader", name);
}

static int tenant_line_share(struct tenant_reader *t, const struct ini_line *l)
{
	char *text = strdup(l->raw);
	int r;

	if (!text) {
		(void)snprintf(t->error, t->size, "%s: no memory to read it", l->path);
		return -ENOMEM;
	}
	r = tenant_share_text(t, l, text);
	free(text);
	return r;
}

static int tenant_line(void *user, const struct ini_line *l)
{
	struct tenant_reader *t = user;

	if (strcmp(l->section, "share") == 0)
		return tenant_line_share(t, l);
	if (l->cut)
		return tenant_fail(t, l, "the line is too long");
	if (strcmp(l->section, "tenant") == 0)
		return tenant_line_secret(t, l);
	if (strcmp(l->section, "limits") == 0)
		return tenant_line_limit(t, l);
	return tenant_fail(t, l, "%s: no such section: [%s]: there are [tenant], [limits], [share]",
			   l->key, l->section);
}

static int tenant_read(const char *dir, const char *file, struct tenant_file *f, char *error,
		       size_t size)
{
	struct tenant_reader t = { .tenant = f, .dir = dir, .error = error, .size = size };
	size_t len = strlen(file) - strlen(".conf");
	char path[4096];
	int r;

	if (snprintf(path, sizeof(path), "%s/%s", dir, file) >= (int)sizeof(path)) {
		(void)snprintf(error, size, "%s: its path is too long", file);
		return -ENAMETOOLONG;
	}
	if (!tenant_name_ok(file, len)) {
		(void)snprintf(error, size, "%s: a tenant's name is 1 to %u of a-z, 0-9 and '-'",
			       path, LARDER_TENANT_NAME_MAX);
		return -EINVAL;
	}
	memcpy(f->name, file, len);
	r = ini_file_read(path, tenant_line, &t, error, size);
	if (r)
		return r;
	if (!f->secret_len[0]) {
		(void)snprintf(error, size, "%s: [tenant] secret_file (or secret_credential) is "
			       "missing", path);
		return -EINVAL;
	}
	return 0;
}

static int tenant_is_conf(const struct dirent *d)
{
	size_t n = strlen(d->d_name);

	return d->d_name[0] != '.' && n > 5 && strcmp(d->d_name + n - 5, ".conf") == 0;
}

int tenant_files_read(const char *dir, char *error, size_t size, struct tenant_files **ret)
{
	struct dirent **names = NULL;
	struct tenant_files *t;
	int n = scandir(dir, &names, tenant_is_conf, alphasort);
	int r = 0;

	if (n < 0) {
		r = -errno;
		(void)snprintf(error, size, "%s: can not read the tenants: %s", dir, strerror(-r));
		return r;
	}
	t = calloc(1, sizeof(*t) + (size_t)n * sizeof(t->at[0]));
	if (!t) {
		(void)snprintf(error, size, "%s: no memory for %d tenants", dir, n);
		r = -ENOMEM;
	}
	for (int i = 0; i < n; i++) {
		if (!r)
			r = tenant_read(dir, names[i]->d_name, &t->at[t->n++], error, size);
		free(names[i]);
	}
	free(names);
	if (r)
		t = tenant_files_free(t);
	*ret = t;
	return r;
}

const struct tenant_file *tenant_files_find(const struct tenant_files *t, const char *name)
{
	for (size_t i = 0; t && i < t->n; i++)
		if (strcmp(t->at[i].name, name) == 0)
			return &t->at[i];
	return NULL;
}

void tenant_files_forget_secrets(struct tenant_files *t)
{
	for (size_t i = 0; i < t->n; i++)
		explicit_bzero(t->at[i].secret, sizeof(t->at[i].secret));
}

struct tenant_files *tenant_files_free(struct tenant_files *t)
{
	for (size_t i = 0; t && i < t->n; i++)
		free(t->at[i].shares);
	if (t)
		tenant_files_forget_secrets(t);
	free(t);
	return NULL;
}
