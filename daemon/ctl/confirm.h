/* SPDX-License-Identifier: Apache-2.0 */
/* Before something goes that can not be had back: say how much it is, and ask. */
#ifndef LARDERCTL_CONFIRM_H
#define LARDERCTL_CONFIRM_H

#include <stdbool.h>
#include <stdint.h>

#include "ctl/ctl.h"

/*
 * Tells on standard error what @what ("tenant purge demo") would throw away. With @yes that is all;
 * on a terminal the person is asked; off one --yes is wanted. CTL_DONE: go on; else the exit code.
 */
int ctl_confirm(const char *what, uint64_t objects, uint64_t bytes, bool yes);

#endif
