/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tools share: options in the shape of bcc's libbpf-tools, attaching to the probes of a
 * binary, names of tenants, log2 histograms, the end by a signal.
 *
 * A tool opens its skeleton, sets its constants, loads it, attaches (tool_attach), waits
 * (tool_wait), prints, and lets go. Nothing of it stays in the kernel when its process has ended,
 * by whatever.
 */
#ifndef LARDER_EBPF_TOOL_H
#define LARDER_EBPF_TOOL_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <bpf/libbpf.h>
#include <jansson.h>

#define TOOL_TENANTS 64u
#define TOOL_NAME 40u
#define TOOL_LINKS 24u
#define TOOL_LOG2_SLOTS 44u	/* of nanoseconds: up to 2.4 hours */

struct tool_options {
	const char *name;	/* of the tool */
	pid_t pid;		/* -1: every process of the binary */
	char binary[4096];
	const char *tenant;	/* NULL: all */
	const char *control;
	unsigned interval_s;	/* 0: until it is told to end */
	unsigned count;		/* of intervals; 0: without end */
	bool json;
	bool verbose;
};

/* A tool's own argp has it as a child; its input is the struct tool_options. */
extern const struct argp tool_argp;
/* Parses all of it; exits with 2 and a line when it makes no sense. */
void tool_parse(struct tool_options *o, const char *name, const struct argp *argp, int argc,
		char **argv, void *input);

void tool_say(const struct tool_options *o, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* As it is, and what can be done. @error: -errno of libbpf. */
void tool_say_error(const struct tool_options *o, const char *what, int error);

struct tool {
	const struct tool_options *options;
	struct bpf_link *links[TOOL_LINKS];
	unsigned n_links;
	unsigned probes;	/* of links: those that are */
};

/*
 * Attaches each program on_NAME of @object to the probe NAME, at all its places in the binary.
 * 0, or -errno after a line. @also: sections other than usdt are attached too, those that can be.
 */
int tool_attach(struct tool *t, const struct tool_options *o, struct bpf_object *object);
/* As above for what the kernel may lack: it is said, and the rest goes on. */
void tool_attach_if_there(struct tool *t, struct bpf_program *program, const char *what);
void tool_detach(struct tool *t);
/* It listens: one line, for people and for tests that wait for it. */
void tool_ready(const struct tool *t);

/* Catches SIGINT and SIGTERM from now on, for tool_wait. */
void tool_signals(void);
/* True: told to end. False: @ms have passed. */
bool tool_wait(unsigned ms);

/* Names of the ledger's slots, from the daemon; "#7" for those that can't be told. */
struct tool_names {
	char name[TOOL_TENANTS][TOOL_NAME];
};
void tool_names_read(const struct tool_options *o, struct tool_names *n);
const char *tool_tenant(const struct tool_names *n, uint64_t slot, char text[TOOL_NAME]);
/* The slot that --tenant names; TOOL_TENANTS: all of them; -ENOENT after a line. */
int tool_tenant_slot(const struct tool_options *o, const struct tool_names *n);

const char *tool_op_name(unsigned opcode);
const char *tool_transport_name(unsigned transport);

/* A histogram of powers of two, as bars. Slot i counts [2^i, 2^(i+1)) ns. */
void tool_print_log2(const uint32_t *slots, unsigned n, const char *unit);
/* [[lower bound, count], ...] of the slots that are not empty */
json_t *tool_json_log2(const uint32_t *slots, unsigned n);
/* One line, and gives @doc back. */
void tool_print_json(json_t *doc);

#endif
