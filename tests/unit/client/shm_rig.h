/* SPDX-License-Identifier: Apache-2.0 */
/* A client and a scripted node over shm, with gates that are stuck when told. */
#ifndef TESTS_CLIENT_SHM_RIG_H
#define TESTS_CLIENT_SHM_RIG_H

#include "fake_node.h"

#include "client/conn.h"
#include "client/handle.h"
#include "client/memory.h"

#define VALUE_LEN (600u * 1024u)

static char shm_path[64];

static inline void shm_open_rig(struct rig *r, uint64_t bounce)
{
	struct larder_client_options o;
	char url[96];

	snprintf(shm_path, sizeof(shm_path), "/tmp/larder-client-%d.sock", (int)getpid());
	(void)unlink(shm_path);
	memset(r, 0, sizeof(*r));
	r->clock.now_ns = 1000 * NSEC_PER_SEC;
	r->clock.seed = 1;
	r->tick_ns = 20 * NSEC_PER_USEC;
	fake_open(&r->fake, &r->clock, "shm", shm_path);
	snprintf(url, sizeof(url), "shm://%s", shm_path);
	o = rig_options(url);
	o.bounce_bytes = bounce;
	rig_client(r, &o);
	assert_int_equal(larder_ns_open(r->c, "space", NULL, LARDER_NS_CREATE, 1000, &r->ns), 0);
}

static inline void shm_close_rig(struct rig *r)
{
	rig_close(r);
	(void)unlink(shm_path);
}

/* A transport whose gates are stuck when told. */
static bool gate_stuck;
static struct transport_ops gate_ops;
static int (*gate_take_real)(struct transport_conn *c, uint32_t gate);

static inline int gate_take(struct transport_conn *c, uint32_t gate)
{
	return gate_stuck ? -EBUSY : gate_take_real(c, gate);
}

static inline void gate_wrap(struct rig *r)
{
	struct transport *t = r->c->core.targets[0].transport;

	gate_ops = *t->ops;
	gate_take_real = gate_ops.gate_take;
	gate_ops.gate_take = gate_take;
	t->ops = &gate_ops;
	gate_stuck = true;
}

#endif
