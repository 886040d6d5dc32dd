/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real larderd for a test: in a folder of its own, with memory of its own, ended by pid, cleaned
 * up whatever happens. BIN names the folder of the programs.
 */
#ifndef LARDER_TESTS_E2E_HARNESS_H
#define LARDER_TESTS_E2E_HARNESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>
#include <larder/client.h>

struct node {
	pid_t pid;		/* 0: not running */
	char dir[256];		/* sockets, settings, log */
	char memory[256];	/* on tmpfs */
	char socket[300];
	char control[300];
	char log[300];
	int port;
	char secret[65];
	long log_from;		/* where the log of this start begins */
	char extra[2048];	/* lines for larderd.conf: "[engine]\npolicy = fifo\n" */
};

/* A folder and settings; nothing runs yet. @extra may be NULL. Aborts the test on failure. */
void node_setup(struct node *n, const char *extra);
/*
 * One more tenant, with the same secret; @lines (may be NULL) go on after its [tenant] section. A
 * node that runs is told to read it.
 */
void node_add_tenant(struct node *n, const char *name, const char *lines);
/* Starts it and waits until it answers: both halves, for who wants to do something in between. */
void node_start(struct node *n);
void node_launch(struct node *n);
void node_await(struct node *n);
/* Starts it with further arguments and returns its exit code: for starts that must fail. */
int node_start_expect_exit(struct node *n, char *const more[], char *output, size_t size);
/* SIGSTOP: returns when every thread has stopped. */
void node_signal(struct node *n, int signal);
/* Waits for its end, at most @ms. Exit code, or 256 + signal; -1 = still there. */
int node_wait(struct node *n, unsigned ms);
/* SIGTERM, and the exit code must be 0. */
void node_stop(struct node *n);
/* kill -9, by pid. */
void node_kill(struct node *n);
/* Ends it in any case and removes everything. */
void node_cleanup(struct node *n);

enum node_transport { NODE_TCP, NODE_SHM };
const char *node_transport_name(enum node_transport t);
/* An open handle, tenant "demo"; connected. Aborts the test on failure. */
struct larder_client *node_client(struct node *n, enum node_transport t);
struct larder_client *node_client_with(struct node *n, enum node_transport t,
				       const struct larder_client_options *o);
/* As another tenant. */
struct larder_client *node_client_as(struct node *n, enum node_transport t, const char *tenant);
uint32_t node_namespace(struct larder_client *c, const char *name);

/* One figure of the control socket's stats: node_stat(n, "connections", "requests"). */
int64_t node_stat(struct node *n, const char *group, const char *name);
/* Waits until it is @value, at most 5 s; returns the last one seen. */
int64_t node_stat_wait(struct node *n, const char *group, const char *name, int64_t value);
/* Sends one line to the control socket; a new reference, NULL on failure. */
json_t *node_control(struct node *n, const char *line);

/* Resident memory, open descriptors and mappings of the node. */
uint64_t node_rss_kib(const struct node *n);
unsigned node_fds(const struct node *n);

/* Bytes that tell where they belong: from a seed and their offset. */
void pattern_fill(void *data, size_t len, uint64_t seed);
/* Offset of the first byte that differs, or -1. */
int64_t pattern_check(const void *data, size_t len, uint64_t seed);

uint64_t now_ms(void);
void sleep_ms(unsigned ms);

#endif
