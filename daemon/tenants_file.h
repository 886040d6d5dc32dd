/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants as their files say them: NAME.conf of one directory. Reads only. */
#ifndef LARDER_DAEMON_TENANTS_FILE_H
#define LARDER_DAEMON_TENANTS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <larder/limits.h>
#include <larder/node.h>
#include <larder/types.h>

#define TENANT_SECRET_MAX 1024u

/* Some limits of a tenant: what one file, or one command, says. */
struct limit_set {
	uint32_t given;			/* bit i: value[i] counts */
	uint64_t value[LARDER_LIMITS_MAX];
};

struct tenant_share {
	uint8_t ns[LARDER_NS_NAME_MAX];
	size_t ns_len;
	char reader[LARDER_TENANT_NAME_MAX + 1];
};

struct tenant_file {
	char name[LARDER_TENANT_NAME_MAX + 1];
	char secret[2][TENANT_SECRET_MAX];	/* the second may be empty: length 0 */
	size_t secret_len[2];
	struct limit_set limits;
	struct tenant_share *shares;
	size_t n_shares;
};

struct tenant_files {
	size_t n;
	struct tenant_file at[];	/* in order of their names */
};

bool tenant_name_ok(const char *name, size_t len);

/* Every NAME.conf of @dir. 0, or -errno with a sentence in @error: the file and the mistake. */
int tenant_files_read(const char *dir, char *error, size_t size, struct tenant_files **ret);
const struct tenant_file *tenant_files_find(const struct tenant_files *t, const char *name);
/* Wipes the secrets: the node has its copies. */
void tenant_files_forget_secrets(struct tenant_files *t);
struct tenant_files *tenant_files_free(struct tenant_files *t);	/* always NULL */

#endif
