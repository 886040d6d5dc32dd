/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transports of this build, one function each: it returns that transport's table, with its
 * unset slots already filled by transport_fill_defaults. To add one, see transport.h.
 */
#ifndef LARDER_TRANSPORT_REGISTRY_H
#define LARDER_TRANSPORT_REGISTRY_H

#include "transport/transport.h"

const struct transport_ops *transport_tcp(void);
const struct transport_ops *transport_shm(void);
const struct transport_ops *transport_verbs(void);
const struct transport_ops *transport_loop(void);

#endif
