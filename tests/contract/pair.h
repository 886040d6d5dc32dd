/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bench that every case of the contract suite stands on: two transports of the same kind in one
 * thread, a connection between them, and a step that polls both.
 *
 * Every event passes side_note, which checks what must hold always, whatever the case is about:
 * done-events in the order of acceptance and with a cookie that was accepted, buffers back in the
 * order they were posted, nothing received after DOWN, nothing at all after GONE.
 */
#ifndef LARDER_TESTS_CONTRACT_PAIR_H
#define LARDER_TESTS_CONTRACT_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/prng.h"
#include "transport/transport.h"

#define PAIR_LOG 8192u
#define PAIR_BATCH 64u
#define PAIR_PATIENCE_MS 10000

/* One transport under test: what the cases ask it for besides its table. */
struct subject {
	const char *name;
	const struct transport_ops *ops;
	bool message;		/* TRANSPORT_MESSAGE */
	bool other_process;	/* reaches a peer in another process */
	bool no_gates;		/* one-sided, and only the end of a connection stops the node */
	bool flushes;		/* a device takes its time to give back what it holds */
	bool cm_allocates;	/* a library below it allocates when connections come and go */
	uint32_t largest;	/* descriptor that the cases send */
};

struct side {
	struct transport *t;
	struct transport_conn *conn;
	const char *name;
	bool up, down, gone;
	int down_status;
	uint64_t polls;
	uint64_t accepted;	/* descriptors: their cookies are 0, 1, 2, ... */
	uint64_t done;		/* done-events seen */
	uint64_t cancelled;	/* of these with status < 0 */
	uint64_t posted;	/* buffers: likewise */
	uint64_t back;		/* RX events seen */
	uint64_t returned;	/* of these with status < 0 */
	uint64_t rx_bytes;	/* of those with status 0 */
	uint32_t max;		/* for poll */
	uint32_t n;
	struct transport_event log[PAIR_LOG];	/* the last ones; n counts all */
	void (*on_event)(void *user, const struct transport_event *ev);
	void *user;
};

struct pair {
	const struct subject *subject;
	struct side a;		/* connected */
	struct side b;		/* listens, accepts */
	char address[TRANSPORT_ADDR_TEXT];
	struct prng prng;
	uint64_t seed;
};

/* Group state of cmocka: the subject. */
const struct subject *subject_of(void **state);
/* Ends the case as skipped, with the reason printed. */
#define SKIP_BECAUSE(why)                                                                          \
	do {                                                                                       \
		print_message("skipped: %s\n", why);                                               \
		skip();                                                                            \
	} while (0)

#define REGION_BYTES (2u << 20)
extern uint8_t node_memory[REGION_BYTES];	/* what the node moves between regions and itself */

/* The peer that is killed: reads what comes to it and tells each message by a byte on @ready. */
void child_echo(const struct subject *s, const char *address, int ready);

struct transport_config pair_config(void);
void side_open(const struct subject *s, struct side *side, const char *name,
	       const struct transport_config *config);
/* An address that nobody uses. */
void pair_address(const struct subject *s, char *text, size_t size);
/* Opens both, connects them, waits for both UPs. Prints the seed. Free with pair_close. */
struct pair *pair_new(const struct subject *s);
/* The same, not connected yet: b listens. */
struct pair *pair_new_apart(const struct subject *s, const struct transport_config *config);
void pair_connect(struct pair *p);
void pair_close(struct pair *p);

/* One poll of one side; number of events. */
int side_step(struct side *side);
void pair_step(struct pair *p);
void side_note(struct side *side, const struct transport_event *ev);
/* Steps (both sides) until @done(@user); fails the case when patience ends. */
void pair_until(struct pair *p, bool (*done)(void *user), void *user);
void pair_until_gone(struct pair *p, struct side *side);
/* The same, and @side reads meanwhile, as a session does: where nobody reads, unread input may keep
 * the peer's end from being seen. */
void pair_read_until_gone(struct pair *p, struct side *side);
/* Polls both sides until several rounds in a row gave nothing. */
void pair_settle(struct pair *p);

/* One descriptor; 1 accepted, 0 full, -errno. */
int side_send(struct side *side, const void *data, size_t len);
int side_send_iov(struct side *side, const struct iovec *iov, uint16_t niov);
/* One buffer; the case fails when it is not taken. */
void side_post(struct side *side, void *data, uint32_t len);
const struct transport_event *side_last(const struct side *side, uint8_t type);
uint64_t now_ms(void);

/* Byte @at of the pattern of @seed. */
static inline uint8_t pattern_byte(uint64_t seed, uint64_t at)
{
	return (uint8_t)((at * 0x9e3779b97f4a7c15ull + seed) >> 56) ^ (uint8_t)at;
}

void pattern_fill(uint8_t *to, uint64_t seed, uint64_t at, size_t len);
void pattern_check(const uint8_t *from, uint64_t seed, uint64_t at, size_t len);

/*
 * A transfer in one direction: random descriptors cut into random pieces on one side, random
 * buffers (a stream) or one buffer per message on the other; every byte verified.
 */
struct flow {
	struct pair *pair;
	struct side *from, *to;
	uint64_t seed;
	uint64_t total;
	uint64_t queued;	/* bytes accepted */
	uint64_t asked;		/* bytes of buffers posted (stream) */
	uint64_t got;		/* bytes verified */
	uint32_t largest_tx;
	uint32_t largest_rx;
	uint8_t *src;		/* total bytes */
	uint8_t *dst;		/* stream: total bytes; message: slots */
	uint64_t messages;	/* sent; lengths[i % FLOW_LENGTHS] */
	uint64_t received;
	uint32_t *lengths;
};

#define FLOW_LENGTHS 1024u

void flow_start(struct flow *f, struct pair *p, bool a_to_b, uint64_t total);
void flow_feed(struct flow *f);		/* gives both sides what they take */
bool flow_done(const struct flow *f);
void flow_run(struct flow *f);		/* feeds and steps until all has arrived and is done */
void flow_free(struct flow *f);

/* --- the cases, by file --- */
struct CMUnitTest;
extern const struct CMUnitTest cases_end[], cases_bytes[], cases_turn[], cases_regions[];
extern const size_t n_cases_end, n_cases_bytes, n_cases_turn, n_cases_regions;

#endif
