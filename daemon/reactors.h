/* SPDX-License-Identifier: Apache-2.0 */
/* Gives each reactor of a node a thread. */
#ifndef LARDER_DAEMON_REACTORS_H
#define LARDER_DAEMON_REACTORS_H

#include <stdbool.h>
#include <stdint.h>

#include <larder/log.h>
#include <larder/node.h>

struct reactors;

/* Starts @n threads; each blocks all signals. 0 or -errno (none is left running). */
int reactors_start(struct larder_node *node, uint32_t n, uint32_t spin_us,
		   const struct larder_log *log, struct reactors **ret);
/* Stops and joins them. Always NULL. */
struct reactors *reactors_stop(struct reactors *r);
/* Readable once a reactor ended by itself (it is broken). */
int reactors_failed_fd(const struct reactors *r);
/* True when every reactor turned since the last call: what a watchdog wants to know. */
bool reactors_turned(struct reactors *r);

#endif
