/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that peers of the tests give to the node, and transfers into and out of it. */
#ifndef LARDER_TESTS_NODE_REGION_H
#define LARDER_TESTS_NODE_REGION_H

#include "speak.h"

#include <fcntl.h>

#define REGION_BYTES (4u << 20)

struct memory {
	int fd;
	uint8_t *at;
	struct transport_region *region;
	uint8_t opaque[TRANSPORT_OPAQUE_MAX];
	size_t opaque_len;
};

static inline void memory_make(struct memory *m, struct peer *p)
{
	m->fd = memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_true(m->fd >= 0);
	assert_int_equal(ftruncate(m->fd, REGION_BYTES), 0);
	assert_int_equal(fallocate(m->fd, 0, 0, REGION_BYTES), 0);
	assert_int_equal(fcntl(m->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	m->at = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
	assert_ptr_not_equal(m->at, MAP_FAILED);
	m->opaque_len = sizeof(m->opaque);
	assert_int_equal(p->rig->ops->region_add(p->c, m->at, REGION_BYTES, m->fd, 0, m->opaque,
						 &m->opaque_len, &m->region), 0);
}

static inline void memory_drop(struct memory *m, bool with_region)
{
	if (with_region)
		assert_int_equal(m->region->transport->ops->region_del(m->region), 0);
	assert_int_equal(munmap(m->at, REGION_BYTES), 0);
	close(m->fd);
}

static inline int region_add_sized(struct peer *p, const struct memory *m, uint32_t number,
				   uint64_t size)
{
	const struct wire_region_add w = { .region = number, .opaque_len = (uint32_t)m->opaque_len,
					   .size_bytes = size };
	struct draft d;

	draft_begin(&d);
	wire_append(&d.w, &w, sizeof(w));
	wire_append(&d.w, m->opaque, (uint32_t)m->opaque_len);
	draft_finish(&d, p, LARDER_OP_REGION_ADD, 0);
	peer_write(p, d.buffer, d.length);
	return peer_status(p);
}

static inline int region_add(struct peer *p, const struct memory *m, uint32_t number)
{
	return region_add_sized(p, m, number, REGION_BYTES);
}

static inline int region_del(struct peer *p, uint32_t number)
{
	const struct wire_region_del w = { .region = number };

	peer_request(p, LARDER_OP_REGION_DEL, &w, sizeof(w));
	return peer_status(p);
}

static inline uint32_t gate_arm(struct peer *p)
{
	p->gate = (p->gate + 1) % 16;
	assert_int_equal(p->rig->ops->gate_arm(p->c, p->gate), 0);
	return p->gate;
}

static inline int put_from(struct peer *p, uint32_t ns, const char *key, const uint8_t *v,
			   size_t len, const struct wire_seg *segs, uint16_t n_segs)
{
	uint32_t checks[64];
	const struct wire_put w = { .c = { .ns = ns }, .length = len,
				    .digest = key_digest(0, key, strlen(key)), .n_segs = n_segs,
				    .gate = gate_arm(p), .n_checks = larder_check_count(len),
				    .key_len = (uint16_t)strlen(key) };
	struct draft d;

	value_checks(v, len, checks);
	draft_begin(&d);
	wire_append(&d.w, &w, sizeof(w));
	wire_append(&d.w, segs, n_segs * (uint32_t)sizeof(*segs));
	wire_append(&d.w, checks, w.n_checks * 4);
	wire_append(&d.w, key, w.key_len);
	draft_finish(&d, p, LARDER_OP_PUT, 0);
	peer_write(p, d.buffer, d.length);
	return peer_status(p);
}

static inline void get_into_send(struct peer *p, uint32_t ns, const char *key, uint32_t flags,
			  uint64_t offset, uint64_t length, const struct wire_seg *segs,
			  uint16_t n_segs)
{
	const struct wire_get w = { .c = { .ns = ns, .flags = flags }, .offset = offset,
				    .length = length, .room = length, .gate = gate_arm(p),
				    .n_segs = n_segs, .key_len = (uint16_t)strlen(key) };
	struct draft d;

	draft_begin(&d);
	wire_append(&d.w, &w, sizeof(w));
	wire_append(&d.w, segs, n_segs * (uint32_t)sizeof(*segs));
	wire_append(&d.w, key, w.key_len);
	draft_finish(&d, p, LARDER_OP_GET, 0);
	peer_write(p, d.buffer, d.length);
}

static inline int get_into(struct peer *p, uint32_t ns, const char *key, uint32_t flags,
			   uint64_t offset, uint64_t length, const struct wire_seg *segs,
			   uint16_t n_segs)
{
	get_into_send(p, ns, key, flags, offset, length, segs, n_segs);
	return peer_status(p);
}

#endif
