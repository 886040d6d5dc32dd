/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every policy that there is. To add one: write engine/policy_<name>.c with a struct policy_<name>,
 * and add its name here; settings, messages and tools follow.
 */
#ifndef LARDER_ENGINE_POLICIES_H
#define LARDER_ENGINE_POLICIES_H

#include "engine/policy.h"

#define POLICIES(X)                                                                                \
	X(aseg)                                                                                    \
	X(fifo)                                                                                    \
	X(lru)

#define POLICY_DECLARE(name) extern const struct policy policy_##name;
POLICIES(POLICY_DECLARE)
#undef POLICY_DECLARE

#endif
