/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A secret that others may read is none: its file must be 0400 or 0600 and belong to root or to the
 * daemon's user. systemd gives its credentials to the service's user by an access list, which shows
 * as rights of the group: there only what everyone may do is refused.
 */
#include "secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Who may read @st? 0, or -EPERM with a sentence. */
static int secret_check(const struct stat *st, const char *path, mode_t forbidden, char *error,
			size_t size)
{
	if (!S_ISREG(st->st_mode)) {
		(void)snprintf(error, size, "the secret %s is no regular file", path);
		return -EINVAL;
	}
	if (st->st_mode & forbidden) {
		(void)snprintf(error, size, "others than its owner may use the secret %s (mode "
			       "%04o): chmod 0400 it first", path, st->st_mode & 07777);
		return -EPERM;
	}
	if (st->st_uid != 0 && st->st_uid != geteuid()) {
		(void)snprintf(error, size, "the secret %s belongs to uid %u: chown it to root or "
			       "to the daemon's user first", path, st->st_uid);
		return -EPERM;
	}
	return 0;
}

static int secret_read(const char *path, mode_t forbidden, char secret[TENANT_SECRET_MAX],
		       char *error, size_t size)
{
	char bytes[TENANT_SECRET_MAX + 2];	/* a newline, and one to see that there is more */
	/* a FIFO must not hold the start: it is refused below */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	ssize_t n = 0;
	int r = 0;

	if (fd < 0 || fstat(fd, &st) < 0)
		r = -errno;
	if (!r) {
		r = secret_check(&st, path, forbidden, error, size);
		if (r) {
			(void)close(fd);	/* only looked at */
			return r;
		}
		n = read(fd, bytes, sizeof(bytes));
		r = n < 0 ? -errno : 0;
	}
	if (fd >= 0)
		(void)close(fd);		/* only read from */
	if (r) {
		(void)snprintf(error, size, "can not read the secret %s: %s", path, strerror(-r));
		return r;
	}
	if (n > 0 && bytes[n - 1] == '\n')
		n--;
	if (n >= 1 && n <= (ssize_t)TENANT_SECRET_MAX)
		memcpy(secret, bytes, (size_t)n);
	else
		(void)snprintf(error, size, "the secret %s must have 1 to %u bytes", path,
			       TENANT_SECRET_MAX);
	explicit_bzero(bytes, sizeof(bytes));
	return n >= 1 && n <= (ssize_t)TENANT_SECRET_MAX ? (int)n : -EINVAL;
}

int secret_file(const char *dir, const char *path, char secret[TENANT_SECRET_MAX], char *error,
		size_t size)
{
	char full[4096];

	if (snprintf(full, sizeof(full), "%s%s%s", path[0] == '/' ? "" : dir,
		     path[0] == '/' ? "" : "/", path) >= (int)sizeof(full)) {
		(void)snprintf(error, size, "the path of its secret is too long");
		return -ENAMETOOLONG;
	}
	return secret_read(full, 07777 & ~0600, secret, error, size);
}

int secret_credential(const char *name, char secret[TENANT_SECRET_MAX], char *error, size_t size)
{
	const char *dir = getenv("CREDENTIALS_DIRECTORY");
	char path[4096];

	if (!*name || strchr(name, '/') || name[0] == '.') {
		(void)snprintf(error, size, "\"%s\" is no name of a credential", name);
		return -EINVAL;
	}
	if (!dir || !*dir) {
		(void)snprintf(error, size, "credential %s: systemd handed no credentials in: add "
			       "LoadCredential=%s:FILE to the unit", name, name);
		return -ENOENT;
	}
	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path)) {
		(void)snprintf(error, size, "the path of its credential is too long");
		return -ENAMETOOLONG;
	}
	return secret_read(path, 07007, secret, error, size);
}
