/* SPDX-License-Identifier: Apache-2.0 */
/* P3: the first writer wins, and the second is told which way. */
#include "promise.h"

#include <pthread.h>

#define LENGTH 300000u

static void P3_same_is_same_and_other_is_conflict(void **state)
{
	for (int t = NODE_TCP; t <= NODE_SHM; t++) {
		struct larder_client *a = node_client(&node, (enum node_transport)t);
		struct larder_client *b = node_client(&node, NODE_TCP);
		uint32_t ns = node_namespace(a, node_transport_name((enum node_transport)t));
		uint32_t other = node_namespace(b, node_transport_name((enum node_transport)t));

		assert_int_equal(promise_put(a, ns, "k", LENGTH, 1), LARDER_OK);
		assert_int_equal(promise_put(b, other, "k", LENGTH, 1), LARDER_EXISTS_SAME);
		assert_int_equal(promise_put(b, other, "k", LENGTH, 2), LARDER_CONFLICT);
		assert_int_equal(promise_put(b, other, "k", LENGTH - 1, 1), LARDER_CONFLICT);
		assert_int_equal(promise_get(b, other, "k", LENGTH, 1), LARDER_OK);
		larder_close(a);
		larder_close(b);
	}
}

struct second {
	uint64_t seed;
	uint32_t deadline_ms;
	uint32_t flags;
	int status;
	uint64_t took_ms;
};

static void *second_main(void *user)
{
	struct second *s = user;
	struct larder_client *c = node_client(&node, NODE_TCP);
	uint8_t *value = promise_value(LENGTH, s->seed);
	struct iovec iov = { value, LENGTH };
	struct larder_item item = { .key = "w", .key_len = 1, .iov = &iov, .iovcnt = 1 };
	struct larder_batch b = { .opcode = LARDER_OP_PUT, .ns = node_namespace(c, "waits"),
				  .flags = s->flags, .deadline_ms = s->deadline_ms,
				  .items = &item, .n_items = 1 };
	uint64_t start = now_ms();

	assert_true(larder_run(c, &b) >= 0);
	s->status = item.status;
	s->took_ms = now_ms() - start;
	larder_close(c);
	free(value);
	return NULL;
}

/* The first writer begins; @n others bring their own; the first ends by @commit. */
static void first_and_others(struct second *s, unsigned n, bool commit)
{
	struct larder_client *c = node_client(&node, NODE_SHM);
	uint32_t ns = node_namespace(c, "waits");
	uint8_t *value = promise_value(LENGTH, 1);
	struct larder_put_stream *stream;
	pthread_t threads[8];

	(void)larder_delete(c, ns, "w", 1, 0, 5000);
	assert_int_equal(larder_put_begin(c, ns, "w", 1, LENGTH, 20000, &stream), 0);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, second_main, &s[i]), 0);
	assert_int_equal(node_stat_wait(&node, "objects", "waiting", n), n);
	assert_int_equal(larder_put_part(stream, 0, value, LENGTH), 0);
	assert_int_equal(commit ? larder_put_commit(stream) : larder_put_abort(stream), 0);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	larder_close(c);
	free(value);
}

static void P3_the_second_waits_and_is_told(void **state)
{
	struct second s[4] = { { .seed = 1, .deadline_ms = 15000 },
			       { .seed = 2, .deadline_ms = 15000 },
			       { .seed = 1, .deadline_ms = 15000 },
			       { .seed = 3, .deadline_ms = 15000 } };

	first_and_others(s, 4, true);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(s[i].status,
				 s[i].seed == 1 ? LARDER_EXISTS_SAME : LARDER_CONFLICT);
	/* the first gives up: one of the others is the first then */
	first_and_others(s, 2, false);
	assert_int_equal((s[0].status == LARDER_OK) + (s[1].status == LARDER_OK), 1);
	assert_int_equal((s[0].status == LARDER_CONFLICT) + (s[1].status == LARDER_CONFLICT), 1);
}

/* In parts the second is told at its commit, which carries the checks. */
static void P3_parts_of_a_present_key_are_compared_at_the_commit(void **state)
{
	for (int t = NODE_TCP; t <= NODE_SHM; t++) {
		struct larder_client *c = node_client(&node, (enum node_transport)t);
		uint32_t ns = node_namespace(c, "parts");
		const char *key = node_transport_name((enum node_transport)t);

		assert_int_equal(promise_put(c, ns, key, LENGTH, 1), LARDER_OK);
		for (uint64_t seed = 1; seed <= 2; seed++) {
			uint8_t *value = promise_value(LENGTH, seed);
			struct larder_put_stream *s;

			assert_int_equal(larder_put_begin(c, ns, key, strlen(key), LENGTH, 20000,
							  &s), LARDER_OK);
			assert_int_equal(larder_put_part(s, 0, value, LENGTH), LARDER_OK);
			assert_int_equal(larder_put_commit(s), seed == 1 ? LARDER_EXISTS_SAME :
									   LARDER_CONFLICT);
			free(value);
		}
		assert_int_equal(promise_get(c, ns, key, LENGTH, 1), LARDER_OK);
		larder_close(c);
	}
}

static void P3_waiting_is_bounded_and_a_choice(void **state)
{
	struct larder_client *c = node_client(&node, NODE_TCP);
	uint32_t ns = node_namespace(c, "waits");
	struct second patient = { .seed = 1, .deadline_ms = 300 };
	struct second hasty = { .seed = 1, .deadline_ms = 5000, .flags = LARDER_F_NOWAIT };
	struct larder_put_stream *stream;

	(void)larder_delete(c, ns, "w", 1, 0, 5000);
	assert_int_equal(larder_put_begin(c, ns, "w", 1, LENGTH, 20000, &stream), 0);
	(void)second_main(&patient);
	assert_int_equal(patient.status, LARDER_DEADLINE);
	assert_true(patient.took_ms >= 290 && patient.took_ms < 3000);
	(void)second_main(&hasty);
	assert_int_equal(hasty.status, LARDER_BUSY);
	assert_true(hasty.took_ms < 3000);
	assert_int_equal(larder_put_abort(stream), 0);
	larder_close(c);
}

PROMISE("", cmocka_unit_test(P3_same_is_same_and_other_is_conflict),
	cmocka_unit_test(P3_the_second_waits_and_is_told),
	cmocka_unit_test(P3_parts_of_a_present_key_are_compared_at_the_commit),
	cmocka_unit_test(P3_waiting_is_bounded_and_a_choice))
