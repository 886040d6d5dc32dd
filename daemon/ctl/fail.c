/* SPDX-License-Identifier: Apache-2.0 */
/* How a fault is told: one line on standard error, and the exit code that goes with it. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <larder/client.h>

#include "ctl/ctl.h"

int ctl_fail(enum ctl_exit code, const char *fmt, ...)
{
	va_list ap;

	fputs("larderctl: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return code;
}

int ctl_usage(const char *command, const char *fmt, ...)
{
	va_list ap;

	fputs("larderctl: ", stderr);
	if (command)
		fprintf(stderr, "%s: ", command);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, " (see: larderctl help%s%s)\n", command ? " " : "", command ? command : "");
	return CTL_USAGE;
}

const char *ctl_detail(int r)
{
	const char *detail = larder_last_error();

	/* the library's word for "nothing failed here": a status can come without a sentence */
	if (!strcmp(detail, "no error") || (r > 0 && !strcmp(detail, larder_status_text(r))))
		return "";
	return detail;
}

/* -errno of a call that made no sense or lacked memory: nothing that a node said. */
static int fail_errno_code(int r)
{
	switch (r) {
	case -EINVAL:
	case -EPROTONOSUPPORT:	/* a url of a transport that is none */
		return CTL_USAGE;
	case -ECONNREFUSED:
	case -ENOTCONN:
		return CTL_UNREACHABLE;
	default:
		return CTL_FAILED;
	}
}

int ctl_result(int r, const char *fmt, ...)
{
	const char *detail = ctl_detail(r);
	va_list ap;

	if (r == LARDER_OK || r == LARDER_EXISTS_SAME)
		return CTL_DONE;
	fputs("larderctl: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	if (r < 0) {
		fprintf(stderr, ": %s%s%s\n", strerror(-r), *detail ? ": " : "", detail);
		return fail_errno_code(r);
	}
	fprintf(stderr, ": %s (%s)", larder_status_text(r), larder_status_name(r));
	/* what is simply not there needs no explanation; the rest may have one */
	if (r != LARDER_NOT_FOUND && *detail)
		fprintf(stderr, ": %s", detail);
	fputc('\n', stderr);
	return larder_status_exit_code(r);
}
