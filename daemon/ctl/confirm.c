/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/confirm.h"

#include <inttypes.h>
#include <stdio.h>

int ctl_confirm(const char *what, uint64_t objects, uint64_t bytes, bool yes)
{
	char text[UTIL_TEXT], answer[16] = "";

	fprintf(stderr, "larderctl: %s: %" PRIu64 " objects, %s\n", what, objects,
		util_format_bytes(bytes, text));
	if (yes)
		return CTL_DONE;
	if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
		return ctl_usage(NULL, "%s: --yes is wanted where nobody can be asked", what);
	fputs("Throw them away? [y/N] ", stderr);
	if (fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y'))
		return CTL_DONE;
	return ctl_fail(CTL_REFUSED, "%s: nothing was done", what);
}
