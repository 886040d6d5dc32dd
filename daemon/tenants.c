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

static int tenant_load_one(struct larder_node *node, const char *dir, const char *file,
			   const struct larder_log *log)
{
	struct tenant_file *t;
	char path[4096];
	char name[LARDER_TENANT_NAME_MAX + 1];
	size_t len = strlen(file) - strlen(".conf");
	int r;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, file);
	if (!tenant_name_ok(file, len)) {
		say(log, LARDER_LOG_ERR, "%s: a tenant's name is 1 to %u of a-z, 0-9 and '-'", path,
		    LARDER_TENANT_NAME_MAX);
		return -EINVAL;
	}
	memcpy(name, file, len);
	name[len] = 0;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	*t = (struct tenant_file){ .dir = dir, .path = path, .log = log };
	r = ini_parse(path, tenant_handler, t);
	if (t->error) {
		r = t->error;
	} else if (r) {
		say(log, LARDER_LOG_ERR, "%s:%d: %s", path, r > 0 ? r : 0,
		    r > 0 ? "not a [section], a key = value, or a comment" : "can not be read");
		r = -EINVAL;
	} else if (!t->secret_len[0]) {
		say(log, LARDER_LOG_ERR, "%s: [tenant] secret_file is missing", path);
		r = -EINVAL;
	} else if (node) {
		r = larder_node_tenant_add(node, name, t->secret[0], t->secret_len[0],
					   t->secret_len[1] ? t->secret[1] : NULL,
					   t->secret_len[1]);
		if (r)
			say(log, LARDER_LOG_ERR, "%s: tenant %s can not be added: %s", path, name,
			    strerror(-r));
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

static int tenants_each(struct larder_node *node, const char *dir, const struct larder_log *log)
{
	struct dirent **names = NULL;
	int n = scandir(dir, &names, tenant_is_conf, alphasort);
	int r = 0;

	if (n < 0) {
		r = -errno;
		say(log, LARDER_LOG_ERR, "%s: can not read the tenants: %s", dir, strerror(-r));
		return r;
	}
	for (int i = 0; i < n; i++) {
		if (!r)
			r = tenant_load_one(node, dir, names[i]->d_name, log);
		free(names[i]);
	}
	free(names);
	return r ? r : n;
}

int tenants_check(const char *dir, const struct larder_log *log)
{
	return tenants_each(NULL, dir, log);
}

int tenants_load(struct larder_node *node, const char *dir, const struct larder_log *log)
{
	int r = tenants_check(dir, log);

	return r < 0 ? r : tenants_each(node, dir, log);
}
