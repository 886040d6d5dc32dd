/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of "stats" share. */
#ifndef LARDER_DAEMON_STATS_H
#define LARDER_DAEMON_STATS_H

#include <stdint.h>

#include <jansson.h>

static inline void stats_add(json_t *o, const char *name, uint64_t n)
{
	/* a failure leaves the field out; the caller checks the document as a whole */
	(void)json_object_set_new(o, name, json_integer((json_int_t)n));
}

#endif
