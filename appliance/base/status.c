/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Look-ups in the one table of statuses. The rows are indexed by wire number; a number that no row
 * has (a newer peer's) reads as "?" and counts as a failure, never as success.
 */
#include <errno.h>

#include <larder/status.h>

#include "base/compiler.h"

struct status_row {
	const char *name;
	const char *text;
	int err;
	int exit_code;
};

static const struct status_row status_rows[] = {
#define STATUS_ROW(n, number, e, code, t) [number] = { #n, t, e, code },
	LARDER_STATUS_TABLE(STATUS_ROW)
#undef STATUS_ROW
};

static const struct status_row status_unknown = {
	"?", "a status that this version does not know", EPROTO, 5,
};

static const struct status_row *status_row(int status)
{
	if (status < 0 || (size_t)status >= ARRAY_SIZE(status_rows) || !status_rows[status].name)
		return &status_unknown;
	return &status_rows[status];
}

LARDER_PUBLIC const char *larder_status_name(int status)
{
	return status_row(status)->name;
}

LARDER_PUBLIC const char *larder_status_text(int status)
{
	return status_row(status)->text;
}

LARDER_PUBLIC int larder_status_errno(int status)
{
	return status_row(status)->err;
}

LARDER_PUBLIC int larder_status_exit_code(int status)
{
	return status_row(status)->exit_code;
}
