/* SPDX-License-Identifier: Apache-2.0 */
/* What stats and top say alike. */
#ifndef LARDERCTL_STATS_H
#define LARDERCTL_STATS_H

/* The sentence of a tenant's "warning" (control_protocol.h). */
const char *stats_warning_text(const char *warning);

#endif
