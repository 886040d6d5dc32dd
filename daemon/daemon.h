/* SPDX-License-Identifier: Apache-2.0 */
/* The running daemon: what main, the control socket and the signals share. */
#ifndef LARDER_DAEMON_DAEMON_H
#define LARDER_DAEMON_DAEMON_H

#include <systemd/sd-event.h>

#include <jansson.h>
#include <larder/log.h>
#include <larder/memory.h>
#include <larder/node.h>

#include "bpf_maps.h"
#include "config.h"
#include "control.h"
#include "exit_codes.h"
#include "reactors.h"
#include "tenants.h"
#include "watch.h"

#define DAEMON_SET_MAX 64

/* What the command line said. */
struct daemon_arguments {
	const char *config_path;
	bool config_required;		/* it was named */
	const char *set[DAEMON_SET_MAX];
	unsigned n_set;
	bool check, dump_config, dump_man, dump_man_limits;
};

struct bus;
struct notify;

struct daemon {
	const struct daemon_arguments *arguments;
	struct config config;
	struct larder_log log;
	struct larder_memory *memory;
	char memory_dir[4096];
	struct larder_node *node;
	struct bpf_maps bpf_maps;	/* what the ledger lies in, where it does */
	struct tenants *tenants;
	struct reactors *reactors;
	struct control *control;
	struct notify *notify;
	struct bus *bus;
	sd_event *event;
	sd_event_source *drain_timer;
	uint64_t drain_deadline_us;
	uint64_t progress_us;		/* when a terminal was last told how the start goes on */
	struct watch watch;
	bool stopping;
};

/* Reads files and --set into @c. 0 or -errno with c->error set. */
int daemon_read_config(const struct daemon_arguments *a, struct config *c);

/* What can be told of the settings before anything is begun. LARDERD_EXIT_*, after a line. */
int daemon_check(struct daemon *d);
/* The same of the tenants' files and of the saved limits; *@ret_n: how many tenants. */
int daemon_check_tenants(struct daemon *d, int *ret_n);
/* The memory as it is configured; its directory goes to d->memory_dir. */
void daemon_memory_config(struct daemon *d, struct larder_memory_config *m);
/*
 * Memory, node, tenants, listeners: each in order. LARDERD_EXIT_*; OK with d->stopping set: a
 * signal ended it on the way.
 */
int daemon_start(struct daemon *d);
/* listen.c: a step of it. LARDERD_EXIT_*. */
int daemon_listen(struct daemon *d);
void daemon_stop(struct daemon *d);

/* The control thread: signals, control socket, watchdog, until a stop is done. LARDERD_EXIT_*. */
int daemon_loop(struct daemon *d);

/* Re-reads the files; on failure @error holds the line and nothing has changed. */
int daemon_reload(struct daemon *d, char *error, size_t size);

/* Answers a request of the control socket; @user is the daemon. */
control_answer_fn daemon_answer;
/* The "stats" answer: a new reference or NULL. */
json_t *daemon_stats(struct daemon *d);
/* Its part about tenants. */
json_t *daemon_stats_tenants(struct daemon *d);
/* Looks whether a tenant's figures want attention, and says so. */
void daemon_watch(struct daemon *d);
/* Answers a request "why" (control_protocol.h). NULL: *@ret_status says why not. */
json_t *daemon_why(struct daemon *d, const json_t *request, int *ret_status);

#endif
