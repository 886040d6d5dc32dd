/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The world of one case: memory, node and client in one process, stepped from one thread, with a
 * clock that goes on only while nobody has anything to do. It knows what was acknowledged.
 */
#ifndef FAULT_WORLD_H
#define FAULT_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include <larder/client.h>
#include <larder/memory.h>
#include <larder/node.h>

#include "base/compiler.h"
#include "inject.h"

#define WORLD_KEYS 10u
#define WORLD_VALUE_MAX 300000u
#define WORLD_PAGE 4096u
#define WORLD_PAGES 256u
#define WORLD_LEASE 77u			/* the one lease id in use */
#define WORLD_CALL_MS 2000u

enum key_state {
	KEY_ABSENT,			/* never there, or its DELETE was acknowledged */
	KEY_MAYBE,			/* a call on it ended without a clear word */
	KEY_THERE,			/* acknowledged */
};

struct world {
	const char *transport;		/* "loop", "tcp", "shm" */
	char dir[64];
	char memory_dir[96];
	char url[160];
	uint64_t now_ns;
	struct larder_environment env;
	struct larder_log log;
	unsigned lines;			/* of warnings and worse */
	char last_line[256];
	struct larder_memory *memory;
	struct larder_node *node;
	struct larder_client *client;
	uint32_t ns;
	enum key_state key[WORLD_KEYS];
	bool leased[WORLD_KEYS];
	bool draining;
	uint64_t reconnects;		/* of the client, when it was armed */
	const struct larder_node *armed_node;
	uint64_t n;			/* which call is to fail, and how */
	unsigned way;
	struct inject_report report;
};

/* Says what is wrong and ends the process: the sweep goes on in another one. */
_Noreturn void world_fail(struct world *w, const char *fmt, ...) _printf_(2, 3);

/* world.c */
void world_begin(struct world *w, const char *transport, uint64_t n, unsigned way);
void world_end(struct world *w);
void world_arm(struct world *w);
void world_disarm(struct world *w);
int world_step(void *w);
/* Steps everybody for @ms of the world's clock. */
void world_run(struct world *w, uint64_t ms);

/* steps.c: coming up and going down. Each is tried again, with nothing in its way, if it failed. */
void world_memory(struct world *w);
void world_node(struct world *w);
void world_client(struct world *w);
void world_up(struct world *w);
void world_node_down(struct world *w);	/* node and memory; the client stays */

/* calls.c: calls of the client, each judged: what it may answer, what is known after it. */
const uint8_t *world_value(unsigned key, uint32_t *ret_len);
const char *world_key(unsigned key);
/* Before a call, so that an old sentence is not taken for its own. */
void world_ask(void);
/* @r is an answer to @what. True: it is 0. Anything else must be explained by the fault. */
bool world_answer(struct world *w, const char *what, int r);
void world_put(struct world *w, unsigned key);
/* From memory of the caller's (a region) that holds the value already. */
void world_put_from(struct world *w, unsigned key, const void *from);
void world_get(struct world *w, unsigned key, void *into, uint32_t room);
void world_delete(struct world *w, unsigned key);
void world_exists(struct world *w, unsigned key, bool lease);

/* verify.c: nothing is in the way any more. */
void world_verify(struct world *w);

struct scenario {
	const char *name;
	const char *transports;
	void (*run)(struct world *w);
};
extern const struct scenario scenarios[];

#endif
