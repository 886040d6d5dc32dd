/* SPDX-License-Identifier: Apache-2.0 */
/* Credits of a verbs connection: two ends that talk by their immediate values alone. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/prng.h"
#include "transport/verbs_credits.h"

#define WIRE 4096u

/* What is on the way from one end to the other, in order. */
struct wire {
	uint32_t imm[WIRE];
	uint32_t head, tail;
};

struct end {
	struct verbs_credits c;
	struct wire out;
	uint32_t unread;	/* arrived, not taken */
	uint32_t most;		/* receives in use at a time */
};

static void wire_put(struct wire *w, uint32_t imm)
{
	assert_true(w->tail - w->head < WIRE);
	w->imm[w->tail++ % WIRE] = imm;
}

static bool end_send(struct end *e)
{
	if (!verbs_credits_may_send(&e->c))
		return false;
	wire_put(&e->out, verbs_credits_send(&e->c));
	return true;
}

static bool end_receive(struct end *e, struct end *from)
{
	int r;

	if (from->out.head == from->out.tail)
		return false;
	r = verbs_credits_arrived(&e->c, from->out.imm[from->out.head++ % WIRE]);
	assert_true(r >= 0);
	e->unread += r == 0;
	e->most = MAX(e->most, e->unread);
	return true;
}

static bool end_take(struct end *e)
{
	if (!e->unread)
		return false;
	e->unread--;
	verbs_credits_taken(&e->c);
	if (verbs_credits_update_due(&e->c))
		wire_put(&e->out, verbs_credits_update(&e->c));
	return true;
}

static void ends_init(struct end *a, struct end *b, uint32_t wa, uint32_t wb)
{
	memset(a, 0, sizeof(*a));
	memset(b, 0, sizeof(*b));
	verbs_credits_init(&a->c, wa, wb);
	verbs_credits_init(&b->c, wb, wa);
}

static void credits__stop_at_the_window(void **state)
{
	struct end a, b;

	ends_init(&a, &b, 8, 5);
	for (unsigned i = 0; i < 5; i++)
		assert_true(end_send(&a));
	assert_false(end_send(&a));
	for (unsigned i = 0; i < 5; i++)
		assert_true(end_receive(&b, &a));
	assert_false(end_send(&a));		/* received is not taken */
	assert_true(end_take(&b));
	assert_false(end_receive(&a, &b));	/* too little for an update */
	assert_true(end_take(&b));
	assert_true(end_receive(&a, &b));
	assert_true(end_send(&a));
	assert_true(end_send(&a));
	assert_false(end_send(&a));
}

static void credits__travel_with_messages(void **state)
{
	struct end a, b;

	ends_init(&a, &b, 100, 100);
	for (unsigned i = 0; i < 3; i++) {
		assert_true(end_send(&a));
		assert_true(end_receive(&b, &a));
		assert_true(end_take(&b));
	}
	assert_int_equal(a.c.limit, 100);
	assert_true(end_send(&b));
	assert_true(end_receive(&a, &b));
	assert_int_equal(a.c.limit, 103);
}

static void credits__more_than_the_window_is_refused(void **state)
{
	struct verbs_credits c;

	verbs_credits_init(&c, 3, 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(verbs_credits_arrived(&c, 0), 0);
	assert_int_equal(verbs_credits_arrived(&c, 0), -EPROTO);
}

static void credits__lies_are_refused(void **state)
{
	struct verbs_credits c;

	verbs_credits_init(&c, 3, 3);
	assert_int_equal(verbs_credits_arrived(&c, 1), -EPROTO);	/* nothing was sent */
	(void)verbs_credits_send(&c);
	assert_int_equal(verbs_credits_arrived(&c, 1), 0);
	assert_int_equal(verbs_credits_arrived(&c, 0), -EPROTO);	/* it went back */
	verbs_credits_init(&c, 3, 3);
	assert_int_equal(verbs_credits_arrived(&c, 1u << 23), -EPROTO);	/* no update was sent */
}

/* Whatever the order in which ends send, receive and take: nobody sends over the window, at most
 * two updates are under way, and when all that arrived was taken both can send again. */
static void credits__never_stall(void **state)
{
	const char *text = getenv("LARDER_TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL);
	struct prng prng;
	struct end a, b;

	print_message("seed %lu (LARDER_TEST_SEED)\n", seed);
	prng_seed(&prng, seed);
	for (unsigned run = 0; run < 200; run++) {
		uint32_t wa = 2 + (uint32_t)prng_below(&prng, 70);
		uint32_t wb = 2 + (uint32_t)prng_below(&prng, 70);

		ends_init(&a, &b, wa, wb);
		/* near where the counts wrap */
		a.c.sent = b.c.received = b.c.taken = b.c.told = (1u << 23) - 50;
		a.c.limit = a.c.sent + wb;
		for (unsigned i = 0; i < 3000; i++) {
			struct end *e = prng_below(&prng, 2) ? &a : &b;

			switch (prng_below(&prng, 3)) {
			case 0:
				(void)end_send(e);	/* false: over its window */
				break;
			case 1:
				(void)end_receive(e, e == &a ? &b : &a);	/* or nothing */
				break;
			default:
				(void)end_take(e);	/* false: nothing */
				break;
			}
		}
		assert_true(a.most <= wa && b.most <= wb);
		while (end_receive(&a, &b) || end_receive(&b, &a) || end_take(&a) ||
		       end_take(&b))
			;
		assert_true(verbs_credits_may_send(&a.c));
		assert_true(verbs_credits_may_send(&b.c));
	}
}

static void grant__a_late_connection_gets_fewer_then_none(void **state)
{
	uint32_t left = 1000, granted = 0, last = 64;

	assert_int_equal(verbs_credits_grant(64, left, 1000), 64);
	for (;;) {
		uint32_t n = verbs_credits_grant(64, left, 1000);

		if (!n)
			break;
		assert_true(n >= VERBS_WINDOW_MIN && n <= last);
		assert_true(n + VERBS_UPDATES <= left);
		left -= n + VERBS_UPDATES;
		last = n;
		granted++;
	}
	assert_true(left < VERBS_WINDOW_MIN + VERBS_UPDATES);
	assert_true(granted > 30);
}

static void grant__bounds(void **state)
{
	assert_int_equal(verbs_credits_grant(1, 1000, 1000), 0);	/* too little */
	assert_int_equal(verbs_credits_grant(2, 4, 1000), 2);
	assert_int_equal(verbs_credits_grant(60000, 100000, 100000), VERBS_WINDOW_MAX);
	assert_int_equal(verbs_credits_grant(64, 3, 1000), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(credits__stop_at_the_window),
		cmocka_unit_test(credits__travel_with_messages),
		cmocka_unit_test(credits__more_than_the_window_is_refused),
		cmocka_unit_test(credits__lies_are_refused),
		cmocka_unit_test(credits__never_stall),
		cmocka_unit_test(grant__a_late_connection_gets_fewer_then_none),
		cmocka_unit_test(grant__bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
