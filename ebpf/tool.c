/* SPDX-License-Identifier: Apache-2.0 */
#include "tool.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <larder/op.h>
#include <larder/probes.h>

#define TOOL_BINARY "/usr/bin/larderd"
#define TOOL_CONTROL "/run/larder/control.sock"
#define TOOL_PROVIDER "larder"
#define TOOL_PROGRAM_PREFIX "on_"

const char *argp_program_version = LARDER_VERSION;

/* --- options --------------------------------------------------------------------------------- */

static const struct argp_option tool_argp_options[] = {
	{ "pid", 'p', "PID", 0, "of one larderd (else every process of the binary)", 1 },
	{ "binary", 'b', "PATH", 0, "that has the probes (" TOOL_BINARY ", or that of PID)", 1 },
	{ "tenant", 't', "NAME", 0, "only this tenant", 1 },
	{ "control", 'C', "PATH", 0, "the daemon's control socket, for names (" TOOL_CONTROL ")",
	  1 },
	{ "json", 'j', NULL, 0, "one JSON document a line instead of text", 1 },
	{ "verbose", 'v', NULL, 0, "what libbpf has to say", 1 },
	{ 0 },
};

static unsigned tool_number(struct argp_state *state, const char *text, const char *what,
			    unsigned max)
{
	char *end;
	unsigned long v;

	errno = 0;
	v = strtoul(text, &end, 10);
	if (errno || *end || end == text || text[0] == '-' || v < 1 || v > max)
		argp_error(state, "%s is a number from 1 to %u, not '%s'", what, max, text);
	return (unsigned)v;
}

static error_t tool_option(int key, char *arg, struct argp_state *state)
{
	struct tool_options *o = state->input;

	switch (key) {
	case 'p':
		o->pid = (pid_t)tool_number(state, arg, "PID", INT32_MAX);
		break;
	case 'b':
		if (strlen(arg) >= sizeof(o->binary))
			argp_error(state, "the path of the binary is too long");
		strcpy(o->binary, arg);
		break;
	case 't':
		o->tenant = arg;
		break;
	case 'C':
		o->control = arg;
		break;
	case 'j':
		o->json = true;
		break;
	case 'v':
		o->verbose = true;
		break;
	case ARGP_KEY_ARG:
		if (state->arg_num == 0)
			o->interval_s = tool_number(state, arg, "INTERVAL", 86400);
		else if (state->arg_num == 1)
			o->count = tool_number(state, arg, "COUNT", 1000000000);
		else
			argp_error(state, "there are INTERVAL and COUNT, not '%s' too", arg);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

const struct argp tool_argp = { .options = tool_argp_options, .parser = tool_option };

static bool tool_is_verbose;

static int tool_libbpf_says(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	/* what fails is told by us, with what can be done */
	return tool_is_verbose ? vfprintf(stderr, fmt, ap) : 0;
}

void tool_parse(struct tool_options *o, const char *name, const struct argp *argp, int argc,
		char **argv, void *input)
{
	*o = (struct tool_options){ .name = name, .pid = -1, .control = TOOL_CONTROL };
	argp_err_exit_status = 2;
	if (argp_parse(argp, argc, argv, 0, NULL, input) != 0)
		exit(2);
	if (!o->binary[0] && o->pid > 0)
		snprintf(o->binary, sizeof(o->binary), "/proc/%d/exe", (int)o->pid);
	else if (!o->binary[0])
		strcpy(o->binary, TOOL_BINARY);
	tool_is_verbose = o->verbose;
	libbpf_set_print(tool_libbpf_says);
	setvbuf(stdout, NULL, _IOLBF, 0);	/* fails only for arguments that are wrong */
}

void tool_say(const struct tool_options *o, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s: ", o->name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

void tool_say_error(const struct tool_options *o, const char *what, int error)
{
	const char *advice = "--verbose tells more";

	/* a container's root has mostly neither */
	if (error == -EPERM || (error == -EACCES && geteuid() != 0))
		advice = "it takes CAP_BPF and CAP_PERFMON (connlife, witness: more), which root "
			 "has; larderctl stats --json needs none";
	else if (error == -ESRCH)
		advice = "this kernel offers no BTF, or nothing of that name: see larder-oplat(8)";
	tool_say(o, "%s: %s: %s", what, strerror(-error), advice);
}

/* --- attaching ------------------------------------------------------------------------------- */

static int tool_keep(struct tool *t, struct bpf_link *link)
{
	if (t->n_links == TOOL_LINKS) {
		(void)bpf_link__destroy(link);	/* it was never used */
		return -ENOSPC;
	}
	t->links[t->n_links++] = link;
	return 0;
}

static int tool_attach_probe(struct tool *t, struct bpf_program *program, const char *probe)
{
	const struct tool_options *o = t->options;
	struct bpf_link *link = bpf_program__attach_usdt(program, o->pid, o->binary,
							 TOOL_PROVIDER, probe, NULL);
	int r = link ? 0 : -errno;

	if (r == 0)
		r = tool_keep(t, link);
	if (r == 0)
		t->probes++;
	else if (r == -ENOENT && access(o->binary, R_OK) == 0)
		tool_say(o, "%s has no probe %s:%s: it is older, or was built without "
			 "<sys/sdt.h>", o->binary, TOOL_PROVIDER, probe);
	else if (r == -ENOENT)
		tool_say(o, "%s: there is no such file: name one with --binary, or --pid",
			 o->binary);
	else
		tool_say_error(o, probe, r);
	return r;
}

int tool_attach(struct tool *t, const struct tool_options *o, struct bpf_object *object)
{
	const size_t prefix = strlen(TOOL_PROGRAM_PREFIX);
	struct bpf_program *program;

	t->options = o;
	bpf_object__for_each_program(program, object) {
		const char *name = bpf_program__name(program);
		int r;

		if (strcmp(bpf_program__section_name(program), "usdt") != 0 ||
		    strncmp(name, TOOL_PROGRAM_PREFIX, prefix) != 0)
			continue;
		r = tool_attach_probe(t, program, name + prefix);
		if (r < 0)
			return r;
	}
	return 0;
}

void tool_attach_if_there(struct tool *t, struct bpf_program *program, const char *what)
{
	struct bpf_link *link;

	if (!bpf_program__autoload(program))
		return;		/* said when it was left out */
	link = bpf_program__attach(program);
	if (!link)
		tool_say(t->options, "not watched here: %s (%s)", what, strerror(errno));
	else if (tool_keep(t, link) < 0)
		tool_say(t->options, "not watched: %s: more than %u programs", what, TOOL_LINKS);
}

void tool_detach(struct tool *t)
{
	while (t->n_links > 0)
		(void)bpf_link__destroy(t->links[--t->n_links]);	/* it ends with us anyway */
}

void tool_ready(const struct tool *t)
{
	tool_say(t->options, "listening to %u probes of %s", t->probes, t->options->binary);
}

/* --- waiting --------------------------------------------------------------------------------- */

static void tool_end_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
}

void tool_signals(void)
{
	sigset_t set;

	tool_end_signals(&set);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);	/* fails only for a wrong first argument */
}

bool tool_wait(unsigned ms)
{
	struct timespec left = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000l };
	sigset_t set;

	tool_end_signals(&set);
	return sigtimedwait(&set, NULL, &left) > 0;
}

/* --- words ----------------------------------------------------------------------------------- */

const char *tool_op_name(unsigned opcode)
{
	static const char *const names[LARDER_OP_MAX] = {
		[LARDER_OP_HELLO] = "HELLO", [LARDER_OP_AUTH] = "AUTH",
		[LARDER_OP_PING] = "PING", [LARDER_OP_CANCEL] = "CANCEL",
		[LARDER_OP_NS_CREATE] = "NS_CREATE", [LARDER_OP_NS_OPEN] = "NS_OPEN",
		[LARDER_OP_NS_LIST] = "NS_LIST", [LARDER_OP_NS_FLUSH] = "NS_FLUSH",
		[LARDER_OP_NS_RETIRE] = "NS_RETIRE", [LARDER_OP_REGION_ADD] = "REGION_ADD",
		[LARDER_OP_REGION_DEL] = "REGION_DEL", [LARDER_OP_PUT] = "PUT",
		[LARDER_OP_PUT_BEGIN] = "PUT_BEGIN", [LARDER_OP_PUT_PART] = "PUT_PART",
		[LARDER_OP_PUT_COMMIT] = "PUT_COMMIT", [LARDER_OP_PUT_ABORT] = "PUT_ABORT",
		[LARDER_OP_GET] = "GET", [LARDER_OP_EXISTS] = "EXISTS",
		[LARDER_OP_LEASE] = "LEASE", [LARDER_OP_RELEASE] = "RELEASE",
		[LARDER_OP_PIN] = "PIN", [LARDER_OP_UNPIN] = "UNPIN",
		[LARDER_OP_STAT] = "STAT", [LARDER_OP_LIST] = "LIST",
		[LARDER_OP_DELETE] = "DELETE",
	};

	return opcode < LARDER_OP_MAX && names[opcode] ? names[opcode] : "?";
}

const char *tool_transport_name(unsigned transport)
{
	switch (transport) {
	case LARDER_TRANSPORT_TCP:
		return "tcp";
	case LARDER_TRANSPORT_SHM:
		return "shm";
	case LARDER_TRANSPORT_RDMA:
		return "rdma";
	default:
		return "other";
	}
}
