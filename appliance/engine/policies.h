/* SPDX-License-Identifier: Apache-2.0 */
/* Every policy that there is, for the table in policy.c. */
#ifndef LARDER_ENGINE_POLICIES_H
#define LARDER_ENGINE_POLICIES_H

#include "engine/policy.h"

extern const struct policy policy_aseg;
extern const struct policy policy_fifo;
extern const struct policy policy_lru;

#endif
