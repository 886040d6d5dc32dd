/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenant files. NAME.conf has one section:
 *
 *	[tenant]
 *	secret_file = /etc/larder/secrets/demo
 *	secret_file_next = /etc/larder/secrets/demo.next	; optional, valid too
 *
 * A path that does not begin with '/' is taken from the file's own directory. A secret file is
 * refused when others than its owner may read it; one trailing newline is not part of the secret.
 */
#include "tenants.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ini.h>
#include <larder/types.h>

#include "say.h"

#define SECRET_MAX 1024

struct tenant_entry {
	char name[LARDER_TENANT_NAME_MAX + 1];
	char secret[2][SECRET_MAX];
	size_t secret_len[2];
};

struct tenants {
	size_t n;
	struct tenant_entry at[];
};

struct tenant_file {
	const char *dir;
	const char *path;
	const struct larder_log *log;
	char secret[2][SECRET_MAX + 2];
	size_t secret_len[2];
	int error;
};

static bool tenant_name_ok(const char *name, size_t len)
{
	if (len < 1 || len > LARDER_TENANT_NAME_MAX)
		return false;
	for (size_t i = 0; i < len; i++)
		if (!((name[i] >= 'a' && name[i] <= 'z') || (name[i] >= '0' && name[i] <= '9') ||
		      name[i] == '-'))
			return false;
	return true;
}

static int secret_read(struct tenant_file *t, const char *value, unsigned which)
{
	char path[4096];
	struct stat st;
	ssize_t n;
	int fd, r;

	if (snprintf(path, sizeof(path), "%s%s%s", value[0] == '/' ? "" : t->dir,
		     value[0] == '/' ? "" : "/", value) >= (int)sizeof(path)) {
		say(t->log, LARDER_LOG_ERR, "%s: the path of its secret is too long", t->path);
		return -ENAMETOOLONG;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0) {
		r = -errno;
		say(t->log, LARDER_LOG_ERR, "%s: can not read its secret %s: %s", t->path, path,
		    strerror(-r));
		if (fd >= 0)
			(void)close(fd);
		return r;
	}
	n = read(fd, t->secret[which], SECRET_MAX + 2);
	r = n < 0 ? -errno : 0;
	(void)close(fd);	/* only read from */
	if (S_ISREG(st.st_mode) && (st.st_mode & 077)) {
		say(t->log, LARDER_LOG_ERR,
		    "%s: others than its owner may read %s: chmod 0400 it first", t->path, path);
		return -EPERM;
	}
	if (n > 0 && t->secret[which][n - 1] == '\n')
		n--;
	if (n < 1 || n > SECRET_MAX) {
		say(t->log, LARDER_LOG_ERR, "%s: its secret %s must have 1 to %d bytes", t->path,
		    path, SECRET_MAX);
		return r ? r : -EINVAL;
	}
	t->secret_len[which] = (size_t)n;
	return 0;
}

static int tenant_handler(void *user, const char *section, const char *key, const char *value)
{
	struct tenant_file *t = user;

	if (t->error)
		return 0;
	if (strcmp(section, "tenant") == 0 && strcmp(key, "secret_file") == 0) {
		t->error = secret_read(t, value, 0);
	} else if (strcmp(section, "tenant") == 0 && strcmp(key, "secret_file_next") == 0) {
		t->error = secret_read(t, value, 1);
	} else {
		say(t->log, LARDER_LOG_ERR, "%s: no such setting: [%s] %s", t->path, section, key);
		t->error = -EINVAL;
	}
	return t->error == 0;
}

static int tenant_parse(const char *dir, const char *path, const struct larder_log *log,
			struct tenant_file *t)
{
	int r;

	*t = (struct tenant_file){ .dir = dir, .path = path, .log = log };
	r = ini_parse(path, tenant_handler, t);
	if (t->error)
		return t->error;
	if (r) {
		say(log, LARDER_LOG_ERR, "%s:%d: %s", path, r > 0 ? r : 0,
		    r > 0 ? "not a [section], a key = value, or a comment" : "can not be read");
		return -EINVAL;
	}
	if (!t->secret_len[0]) {
		say(log, LARDER_LOG_ERR, "%s: [tenant] secret_file is missing", path);
		return -EINVAL;
	}
	return 0;
}

static int tenant_read(const char *dir, const char *file, const struct larder_log *log,
		       struct tenant_entry *e)
{
	struct tenant_file *t;
	char path[4096];
	size_t len = strlen(file) - strlen(".conf");
	int r;

	if (snprintf(path, sizeof(path), "%s/%s", dir, file) >= (int)sizeof(path)) {
		say(log, LARDER_LOG_ERR, "%s: its path is too long", file);
		return -ENAMETOOLONG;
	}
	if (!tenant_name_ok(file, len)) {
		say(log, LARDER_LOG_ERR, "%s: a tenant's name is 1 to %u of a-z, 0-9 and '-'", path,
		    LARDER_TENANT_NAME_MAX);
		return -EINVAL;
	}
	memcpy(e->name, file, len);
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	r = tenant_parse(dir, path, log, t);
	for (int i = 0; r == 0 && i < 2; i++) {
		e->secret_len[i] = t->secret_len[i];
		memcpy(e->secret[i], t->secret[i], t->secret_len[i]);
	}
	explicit_bzero(t, sizeof(*t));
	free(t);
	return r;
}

static int tenant_is_conf(const struct dirent *d)
{
	size_t n = strlen(d->d_name);

	return d->d_name[0] != '.' && n > 5 && strcmp(d->d_name + n - 5, ".conf") == 0;
}

static int tenants_read(const char *dir, const struct larder_log *log, struct tenants **ret)
{
	struct dirent **names = NULL;
	struct tenants *t;
	int n = scandir(dir, &names, tenant_is_conf, alphasort);
	int r = 0;

	if (n < 0) {
		r = -errno;
		say(log, LARDER_LOG_ERR, "%s: can not read the tenants: %s", dir, strerror(-r));
		return r;
	}
	t = calloc(1, sizeof(*t) + (size_t)n * sizeof(t->at[0]));
	if (!t) {
		say(log, LARDER_LOG_ERR, "%s: no memory for %d tenants", dir, n);
		r = -ENOMEM;
	}
	for (int i = 0; i < n; i++) {
		if (!r)
			r = tenant_read(dir, names[i]->d_name, log, &t->at[t->n++]);
		free(names[i]);
	}
	free(names);
	if (r)
		t = tenants_free(t);
	*ret = t;
	return r;
}

struct tenants *tenants_free(struct tenants *t)
{
	if (t)
		explicit_bzero(t->at, t->n * sizeof(t->at[0]));
	free(t);
	return NULL;
}

int tenants_check(const char *dir, const struct larder_log *log)
{
	struct tenants *t;
	int r = tenants_read(dir, log, &t);

	if (r)
		return r;
	r = (int)t->n;
	tenants_free(t);
	return r;
}

static bool tenants_has(const struct tenants *t, const char *name)
{
	for (size_t i = 0; t && i < t->n; i++)
		if (strcmp(t->at[i].name, name) == 0)
			return true;
	return false;
}

static int tenant_give(struct larder_node *node, const struct tenant_entry *e)
{
	return larder_node_tenant_add(node, e->name, e->secret[0], e->secret_len[0],
				      e->secret_len[1] ? e->secret[1] : NULL, e->secret_len[1]);
}

/* Gives @node those of @t whose being in @before is @known. 0 or -errno after one line. */
static int tenants_give(struct larder_node *node, const struct tenants *t,
			const struct tenants *before, bool known, const struct larder_log *log)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct tenant_entry *e = &t->at[i];
		int r;

		if (tenants_has(before, e->name) != known)
			continue;
		r = tenant_give(node, e);
		if (r == 0)
			continue;
		say(log, LARDER_LOG_ERR, "tenant %s can not be added: %s", e->name, strerror(-r));
		/* the new ones before it go again; the known ones can't fail: no entry is made */
		while (!known && i-- > 0)
			if (!tenants_has(before, t->at[i].name))
				(void)larder_node_tenant_remove(node, t->at[i].name);
		return r;
	}
	return 0;
}

static void tenants_remove_gone(struct larder_node *node, const struct tenants *before,
				const struct tenants *now, const struct larder_log *log)
{
	for (size_t i = 0; before && i < before->n; i++) {
		const char *name = before->at[i].name;

		if (tenants_has(now, name))
			continue;
		/* it was loaded, so it is there */
		(void)larder_node_tenant_remove(node, name);
		say(log, LARDER_LOG_NOTICE, "tenant %s is removed: nobody is let in as it, its "
		    "objects stay", name);
	}
}

int tenants_load(struct larder_node *node, const char *dir, const struct larder_log *log,
		 struct tenants **loaded)
{
	struct tenants *t;
	int r = tenants_read(dir, log, &t);

	if (r)
		return r;
	/* what can fail comes first */
	r = tenants_give(node, t, *loaded, false, log);
	if (r == 0)
		r = tenants_give(node, t, *loaded, true, log);
	if (r) {
		tenants_free(t);
		return r;
	}
	tenants_remove_gone(node, *loaded, t, log);
	for (size_t i = 0; i < t->n; i++)	/* the node has its copies */
		explicit_bzero(t->at[i].secret, sizeof(t->at[i].secret));
	tenants_free(*loaded);
	*loaded = t;
	return (int)t->n;
}
