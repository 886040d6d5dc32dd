/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tenant that floods the node with PUTs of 4 MiB costs another one's EXISTS and 4 KiB GET:
 * node-side service time, quiet and flooded in turn, the median over pairs of the ratio of their
 * 99th percentiles. Twice the goal is asserted: four. LARDER_NEIGHBOUR_MAX=2 asserts another bound.
 *
 * Service time is the ledger's: from the request's header, read, to its reply handed to the
 * transport (over tcp: to the kernel). The clock is the processor time of the thread while it is
 * inside the node's turns, so what the peers do and what the scheduler gives to others is not in
 * it; what interrupts and the loopback do inside the node's own system calls is.
 *
 * Not in it either is the time that a request lies in the kernel or a ring before a turn looks
 * there: the rest of the turn that is under way. How long turns take is shown beside it.
 */
#include "flood.h"

#include "base/hist.h"

#define MIB (1u << 20)
#define VALUE (4u * MIB)
#define ATTEMPTS 5u
#define PAIRS 5u
#define PROBES 300u
#define FLOODERS 2u
#define KEYS 32u

struct neighbour {
	struct rig *r;
	struct peer *p;			/* of demo: looks on */
	uint32_t ns;
	struct flood f[FLOODERS];	/* of other */
	struct memory m[FLOODERS];
	uint8_t *value;
	bool flooding;
	uint64_t last_ns;
	uint64_t turns[HIST_BUCKETS];	/* how long they took */
};

static void neighbour_step(void *user)
{
	struct neighbour *n = user;

	n->turns[hist_bucket(n->r->now_ns - n->last_ns)]++;
	n->last_ns = n->r->now_ns;
	while (rig_poll_client(n->r) > 0)
		;
	for (uint32_t i = 0; n->flooding && i < FLOODERS; i++)
		flood_step(&n->f[i]);
}

static double percentile(const uint64_t *after, const uint64_t *before, double part)
{
	uint64_t total = 0, sum = 0;

	for (unsigned i = 0; i < HIST_BUCKETS; i++)
		total += after[i] - before[i];
	for (unsigned i = 0; i < HIST_BUCKETS; i++) {
		sum += after[i] - before[i];
		if ((double)sum >= part * (double)total)
			return (double)hist_bound(i);
	}
	return 0;
}

static void probe(struct neighbour *n, enum larder_latency_op op)
{
	char names[KEYS][16];
	const char *keys[KEYS];

	if (op == LARDER_LATENCY_GET) {
		assert_int_equal(peer_get(n->p, n->ns, "small", 4096), LARDER_OK);
		return;
	}
	for (uint32_t i = 0; i < KEYS; i++) {
		snprintf(names[i], sizeof(names[i]), "key-%u", i);
		keys[i] = names[i];
	}
	assert_int_equal(peer_keys(n->p, LARDER_OP_EXISTS, n->ns, 0, 0, 0, keys, KEYS), LARDER_OK);
}

struct times {
	double p50, p99, turn;		/* the longest but one in a hundred */
};

static struct times serve(struct neighbour *n, enum larder_latency_op op, bool flooding)
{
	const uint64_t *buckets = n->r->node->ledger->latency[0].buckets[op];
	static const uint64_t none[HIST_BUCKETS];
	uint64_t before[HIST_BUCKETS], written;
	const struct larder_usage *u = ledger_usage(n->r->node->ledger, 0, 1);

	n->flooding = flooding;
	for (uint32_t i = 0; i < 50; i++)	/* until the other state is over */
		probe(n, op);
	written = u->bytes[LARDER_CAUSE_CLIENT_WRITE];
	memcpy(before, buckets, sizeof(before));
	memset(n->turns, 0, sizeof(n->turns));
	for (uint32_t i = 0; i < PROBES; i++)
		probe(n, op);
	written = u->bytes[LARDER_CAUSE_CLIENT_WRITE] - written;
	if (flooding)		/* it was a flood */
		assert_true(written >= (uint64_t)PROBES * NODE_PIECE_BYTES / 4);
	return (struct times){ .p50 = percentile(buckets, before, 0.5),
			       .p99 = percentile(buckets, before, 0.99),
			       .turn = percentile(n->turns, none, 0.99) };
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), compare);
	return v[n / 2];
}

/* Medians of interleaved pairs: the ratio that is held to a bound. */
static double measure_once(struct neighbour *n, enum larder_latency_op op, const char *name)
{
	double quiet[PAIRS], flooded[PAIRS], p50[PAIRS], p99[PAIRS], turn[PAIRS], ratio;

	for (uint32_t i = 0; i < PAIRS; i++) {
		struct times a = serve(n, op, false), b = serve(n, op, true);

		quiet[i] = a.p99;
		flooded[i] = b.p99;
		p50[i] = b.p50 / a.p50;
		p99[i] = b.p99 / a.p99;
		turn[i] = b.turn;
	}
	ratio = median(p99, PAIRS);
	print_message("%s %s: p99 quiet %.1f us, flooded %.1f us, ratio %.2f (of p50 %.2f); a turn "
		      "beside the flood: p99 %.1f us\n",
		      n->r->ops->name, name, median(quiet, PAIRS) / 1000,
		      median(flooded, PAIRS) / 1000, ratio, median(p50, PAIRS),
		      median(turn, PAIRS) / 1000);
	return ratio;
}

/* What else runs on the machine can only add to the ratio: the best of a few says what is ours. */
static void measure(struct neighbour *n, enum larder_latency_op op, const char *name)
{
	const char *max = getenv("LARDER_NEIGHBOUR_MAX");
	double allowed = max ? strtod(max, NULL) : 4.0, best = measure_once(n, op, name);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	if (!max)
		return;		/* a sanitizer's time is not the node's */
#endif
	for (uint32_t i = 1; i < ATTEMPTS && best > allowed; i++) {
		double again = measure_once(n, op, name);

		best = again < best ? again : best;
	}
	assert_true(best <= allowed);
}

static void flood__leaves_small_requests_their_time(const struct transport_ops *ops, bool one_sided)
{
	struct neighbour n = { .flooding = false };

	n.r = rig_new();
	n.r->ops = ops;
	n.r->mc.pages = 1024;
	n.r->mc.page_size_bytes = 65536;
	n.r->node_time = true;
	rig_open(n.r);
	n.p = peer_login(n.r);
	n.ns = peer_open_ns(n.p);
	n.value = value_make("flood", VALUE);
	if (!one_sided)
		assert_int_equal(peer_put_key(n.p, n.ns, "small", 4096), LARDER_OK);
	for (uint32_t i = 0; i < FLOODERS; i++) {
		struct peer *p = peer_login_as(n.r, "other", "tom");

		if (one_sided) {
			memory_make(&n.m[i], p);
			assert_int_equal(region_add(p, &n.m[i], 1), LARDER_OK);
			memcpy(n.m[i].at, n.value, VALUE);
		}
		flood_puts(&n.f[i], p, peer_open_ns(p), n.value, VALUE, one_sided, 4);
	}
	n.r->each_step = neighbour_step;
	n.r->each_user = &n;
	n.last_ns = n.r->now_ns;
	measure(&n, LARDER_LATENCY_EXISTS, "EXISTS of 32 keys");
	if (!one_sided)
		measure(&n, LARDER_LATENCY_GET, "GET of 4 KiB");
	n.r->each_step = NULL;
	peer_close(n.p);
	for (uint32_t i = 0; i < FLOODERS; i++) {
		flood_end(&n.f[i]);
		if (one_sided)
			memory_drop(&n.m[i], false);
	}
	free(n.value);
	rig_stop(n.r);
}

static void flood_inline__leaves_small_requests_their_time(void **state)
{
	flood__leaves_small_requests_their_time(transport_loop(), false);
}

static void flood_over_tcp__leaves_small_requests_their_time(void **state)
{
	flood__leaves_small_requests_their_time(transport_tcp(), false);
}

static void flood_by_regions__leaves_small_requests_their_time(void **state)
{
	flood__leaves_small_requests_their_time(transport_shm(), true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flood_inline__leaves_small_requests_their_time),
		cmocka_unit_test(flood_over_tcp__leaves_small_requests_their_time),
		cmocka_unit_test(flood_by_regions__leaves_small_requests_their_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
