/* SPDX-License-Identifier: Apache-2.0 */
/* Names of why payload moved, as maps and exporter show them. */
#include <stddef.h>

#include <larder/ledger.h>

const char *larder_cause_name(unsigned cause)
{
	static const char *const names[LARDER_CAUSES] = {
		[LARDER_CAUSE_CLIENT_READ] = "client_read",
		[LARDER_CAUSE_CLIENT_WRITE] = "client_write",
		[LARDER_CAUSE_VIEW] = "view",
		[LARDER_CAUSE_REBUILD] = "rebuild",
		[LARDER_CAUSE_REPLICA] = "replica",
		[LARDER_CAUSE_PREFETCH] = "prefetch",
		[LARDER_CAUSE_COLD] = "cold",
		[LARDER_CAUSE_DISCARDED] = "discarded",
	};

	return cause < LARDER_CAUSES ? names[cause] : NULL;
}
