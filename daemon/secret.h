/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a secret: from a file of the operator's or from a credential that systemd hands in. */
#ifndef LARDER_DAEMON_SECRET_H
#define LARDER_DAEMON_SECRET_H

#include <stddef.h>

#include "tenants_file.h"

/*
 * Both give the secret's length (1 to TENANT_SECRET_MAX; one newline at the end is not part of it),
 * or -errno with a sentence in @error. A path that does not begin with '/' is taken from @dir.
 */
int secret_file(const char *dir, const char *path, char secret[TENANT_SECRET_MAX], char *error,
		size_t size);
/* @name in $CREDENTIALS_DIRECTORY: LoadCredential=, SetCredential= and their like. */
int secret_credential(const char *name, char secret[TENANT_SECRET_MAX], char *error, size_t size);

#endif
