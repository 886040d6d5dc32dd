/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of people talking to a chat service, as the store behind it sees them.
 *
 * Requests arrive as a Poisson process. Each is the next turn of the conversation that has
 * waited longest past its time, or else a new one. A conversation begins with one block that all
 * share (the system prompt), then its own; each turn carries the whole context so far plus what
 * was said since, so its full blocks are the last turn's and some new ones. A last block that
 * isn't full has an id of its own each time: the next turn fills it up and it becomes another
 * block. Some turns only repeat the last (the user asks again).
 *
 * What decides a cache's hit rate is how long after its last use a block is used again, in
 * blocks touched between. It follows from the tables below: length of a first turn, growth per
 * turn, gap between turns, chance of another turn. They were fitted to the public Mooncake
 * conversation trace: for 12,031 requests LRU's rates of leading runs at 1,000 to 30,000 blocks
 * are within two points of that trace's for every seed tried (tests/unit/ctl/test_trace_gen.c).
 *
 * A table is an inverse distribution function with straight lines between its points. Draws are
 * stratified: out of a shuffled deck of 32 slices of [0, 1), so that each 32 draws cover the
 * distribution evenly and two seeds differ in order rather than in kind. All in integers: no
 * library's rounding can change a trace.
 */
#include "ctl/trace_gen.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/util.h"

#define GEN_DECK 32u
#define GEN_UNIT (1u << 20)		/* probabilities and shares are parts of this */
#define GEN_MEAN_GAP_US 294000u		/* between arrivals: 12,031 in 3,537 s */
#define GEN_TOKENS_MAX 126000u		/* the service's context window */
#define GEN_REPEAT_PERCENT 3u		/* turns that repeat the last */
#define GEN_CLASSES 5u			/* of conversations by length */
#define GEN_BLOCKS_MAX (GEN_TOKENS_MAX / TRACE_TOKENS_PER_BLOCK + 1)

struct gen_point {
	uint32_t permille;
	uint32_t value;
};

/* Between arrivals, thousandths of the mean: the exponential distribution. */
static const struct gen_point gen_arrival[] = {
	{ 0, 0 },	 { 100, 105 },	 { 250, 288 },	 { 500, 693 },	{ 750, 1386 },
	{ 900, 2303 },	 { 950, 2996 },	 { 990, 4605 },	 { 1000, 7000 },
};
/* First turn, tokens. */
static const struct gen_point gen_first[] = {
	{ 0, 880 },	 { 100, 964 },	 { 250, 1400 },	 { 400, 3500 },	  { 500, 5300 },
	{ 650, 8800 },	 { 750, 12300 }, { 850, 18200 }, { 900, 23000 },  { 950, 34000 },
	{ 990, 68000 },	 { 1000, 90000 },
};
/* Growth per turn, tokens. */
static const struct gen_point gen_growth[] = {
	{ 0, 60 },	 { 100, 250 },	 { 250, 600 },	 { 500, 1100 },	  { 650, 2150 },
	{ 750, 3400 },	 { 850, 7050 },	 { 900, 10200 }, { 950, 15000 },  { 990, 27000 },
	{ 1000, 60000 },
};
/* Between turns, milliseconds. */
static const struct gen_point gen_gap[] = {
	{ 0, 8000 },	 { 10, 12000 },	 { 50, 32000 },	 { 100, 46000 },   { 250, 72000 },
	{ 400, 108000 }, { 500, 140000 },  { 650, 220000 },  { 750, 300000 },
	{ 850, 470000 }, { 900, 620000 },  { 950, 950000 },  { 990, 1800000 }, { 1000, 3400000 },
};
/* Answers, tokens: nothing follows from them. */
static const struct gen_point gen_answer[] = {
	{ 0, 3 },	 { 100, 24 },	 { 250, 156 },	 { 500, 350 },	{ 750, 472 },
	{ 900, 597 },	 { 990, 1120 },	 { 1000, 2000 },
};
/* Chance of another turn after the first, the second, ... in thousandths. */
static const uint16_t gen_again[] = { 300, 420, 480, 530, 580, 650 };

/* A shuffled deck of slices. */
struct gen_deck {
	uint8_t card[GEN_DECK];
	uint32_t left;
};

/* A conversation that will go on. */
struct gen_talk {
	uint64_t due_us;
	uint64_t order;		/* ties: who began to wait first */
	uint32_t tokens;
	uint32_t turns;
	uint32_t n_blocks;	/* full ones */
	uint64_t *blocks;
};

struct gen {
	uint64_t random;
	uint64_t now_us;
	uint64_t next_id;
	uint64_t order;
	struct gen_talk *heap;	/* the earliest due first */
	size_t n_heap;
	size_t heap_room;
	struct gen_deck arrival, first, growth;
	struct gen_deck gap[GEN_CLASSES], again[ARRAY_SIZE(gen_again)][GEN_CLASSES];
	uint64_t request[GEN_BLOCKS_MAX + 1];
};

/* A share of [0, GEN_UNIT) from the next slice. */
static uint32_t gen_draw(struct gen *g, struct gen_deck *d)
{
	const uint32_t slice = GEN_UNIT / GEN_DECK;
	uint32_t k, card;

	if (!d->left) {
		for (uint32_t i = 0; i < GEN_DECK; i++)
			d->card[i] = (uint8_t)i;
		d->left = GEN_DECK;
	}
	/* shuffled as it is dealt: Fisher and Yates from the top */
	k = (uint32_t)util_random_below(&g->random, d->left);
	card = d->card[k];
	d->card[k] = d->card[--d->left];
	return card * slice + (uint32_t)util_random_below(&g->random, slice);
}

static uint32_t gen_value(const struct gen_point *table, uint32_t share)
{
	uint64_t at = (uint64_t)share * 1000;	/* in parts of GEN_UNIT of a permille */
	uint64_t low, high;

	while ((uint64_t)table[1].permille * GEN_UNIT <= at)
		table++;
	low = (uint64_t)table[0].permille * GEN_UNIT;
	high = (uint64_t)table[1].permille * GEN_UNIT;
	return table[0].value + (uint32_t)((uint64_t)(table[1].value - table[0].value) *
					   (at - low) / (high - low));
}

/*
 * Long conversations weigh most in a hit rate, so that whether and when they go on is drawn from
 * decks of their own: a seed can't have all its long ones end by chance.
 */
static uint32_t gen_class(uint32_t tokens)
{
	static const uint32_t bounds[GEN_CLASSES - 1] = { 4000, 12000, 24000, 40000 };
	uint32_t c = 0;

	while (c < GEN_CLASSES - 1 && tokens >= bounds[c])
		c++;
	return c;
}

static bool gen_before(const struct gen_talk *a, const struct gen_talk *b)
{
	return a->due_us < b->due_us || (a->due_us == b->due_us && a->order < b->order);
}

static int gen_push(struct gen *g, const struct gen_talk *talk)
{
	size_t i = g->n_heap;

	if (i == g->heap_room) {
		size_t room = g->heap_room ? g->heap_room * 2 : 256;
		struct gen_talk *more = reallocarray(g->heap, room, sizeof(*more));

		if (!more)
			return -ENOMEM;
		g->heap = more;
		g->heap_room = room;
	}
	g->n_heap++;
	for (; i && gen_before(talk, &g->heap[(i - 1) / 2]); i = (i - 1) / 2)
		g->heap[i] = g->heap[(i - 1) / 2];
	g->heap[i] = *talk;
	return 0;
}

static struct gen_talk gen_pop(struct gen *g)
{
	struct gen_talk top = g->heap[0], last = g->heap[--g->n_heap];
	size_t i = 0;

	for (;;) {
		size_t k = 2 * i + 1;

		if (k >= g->n_heap)
			break;
		if (k + 1 < g->n_heap && gen_before(&g->heap[k + 1], &g->heap[k]))
			k++;
		if (!gen_before(&g->heap[k], &last))
			break;
		g->heap[i] = g->heap[k];
		i = k;
	}
	if (g->n_heap)
		g->heap[i] = last;
	return top;
}

/* The conversation whose turn this arrival is, with its new length. */
static int gen_next_talk(struct gen *g, struct gen_talk *talk)
{
	if (g->n_heap && g->heap[0].due_us <= g->now_us) {
		*talk = gen_pop(g);
		if (util_random_below(&g->random, 100) >= GEN_REPEAT_PERCENT)
			talk->tokens += gen_value(gen_growth, gen_draw(g, &g->growth));
	} else {
		*talk = (struct gen_talk){
			.tokens = gen_value(gen_first, gen_draw(g, &g->first)),
			.n_blocks = 1,
			.blocks = malloc(GEN_BLOCKS_MAX * sizeof(uint64_t)),
		};
		if (!talk->blocks)
			return -ENOMEM;
		talk->blocks[0] = 0;	/* the block that all share */
	}
	talk->tokens = MIN(talk->tokens, GEN_TOKENS_MAX);
	return 0;
}

/* Writes the turn down; *@again: the conversation was put back and goes on. */
static int gen_turn(struct gen *g, struct gen_talk *talk, struct trace *t, bool *again)
{
	uint32_t full = talk->tokens / TRACE_TOKENS_PER_BLOCK, n;
	uint32_t answer = gen_value(gen_answer,
				    (uint32_t)util_random_below(&g->random, GEN_UNIT));
	size_t kind = MIN((size_t)talk->turns, ARRAY_SIZE(gen_again) - 1);
	uint32_t class = gen_class(talk->tokens);
	int r;

	while (talk->n_blocks < full)
		talk->blocks[talk->n_blocks++] = g->next_id++;
	n = talk->n_blocks;
	memcpy(g->request, talk->blocks, n * sizeof(*g->request));
	if (talk->tokens % TRACE_TOKENS_PER_BLOCK)
		g->request[n++] = g->next_id++;
	r = trace_add(t, g->now_us / 1000, talk->tokens, answer, g->request, n);
	*again = false;
	if (r || talk->tokens == GEN_TOKENS_MAX ||
	    gen_draw(g, &g->again[kind][class]) >= (uint64_t)gen_again[kind] * GEN_UNIT / 1000)
		return r;
	talk->turns++;
	talk->order = g->order++;
	talk->due_us = g->now_us + 1000ull * gen_value(gen_gap, gen_draw(g, &g->gap[class]));
	r = gen_push(g, talk);
	*again = !r;
	return r;
}

int trace_generate(size_t requests, uint64_t seed, struct trace *t)
{
	_cleanup_free_ struct gen *g = calloc(1, sizeof(*g));
	int r = g ? 0 : -ENOMEM;

	if (r)
		return r;
	g->random = util_mix64(seed + 1);
	g->next_id = 1;
	for (size_t i = 0; !r && i < requests; i++) {
		struct gen_talk talk = { 0 };
		bool again = false;

		if (i)
			g->now_us += (uint64_t)GEN_MEAN_GAP_US *
				     gen_value(gen_arrival, gen_draw(g, &g->arrival)) / 1000;
		r = gen_next_talk(g, &talk);
		if (!r)
			r = gen_turn(g, &talk, t, &again);
		if (!again)
			free(talk.blocks);
	}
	while (g->n_heap)
		free(g->heap[--g->n_heap].blocks);
	free(g->heap);
	return r;
}
