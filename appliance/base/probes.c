/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probes' semaphores: a counter each, in a section that the kernel finds by the probe's note.
 * Weak, because a program may link both of our archives.
 */
#include <larder/probes.h>

#ifdef LARDER_HAVE_PROBES
#define PROBES_SEMAPHORE(name, n)                                                                  \
	volatile unsigned short larder_##name##_semaphore                                          \
		__attribute__((weak, visibility("hidden"), section(".probes")));
LARDER_PROBE_TABLE(PROBES_SEMAPHORE)
#endif
