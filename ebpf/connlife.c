/* SPDX-License-Identifier: Apache-2.0 */
/* larder-connlife: connections of larderd, how long they stood and what they held. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/btf.h>

#include <larder/probes.h>

#include "connlife.h"
#include "connlife.skel.h"
#include "tool.h"

#define CONNLIFE_POLL_MS 100

struct connlife {
	struct tool_options options;
	struct tool_names names;
	struct connlife_bpf *skel;
	bool all;
	uint64_t first_ns;
};

static const struct argp_child connlife_children[] = { { &tool_argp, 0, NULL, 0 }, { 0 } };
static const struct argp_option connlife_options[] = {
	{ "all", 'a', NULL, 0, "each event, not only ends", 0 },
	{ 0 },
};

static error_t connlife_option(int key, char *arg, struct argp_state *state)
{
	struct connlife *c = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &c->options;
		return 0;
	case 'a':
		c->all = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp connlife_argp = {
	.options = connlife_options,
	.parser = connlife_option,
	.args_doc = "[SECONDS [COUNT]]",
	.doc = "A line for each connection of larderd that ended: whose it was, how long it stood, "
	       "its requests, its regions at their most. Where there is RDMA also what the kernel "
	       "sees: events of the connection manager, queue pairs created and destroyed.\v"
	       "Ends after SECONDS x COUNT, or when it is told to. What this kernel can not show "
	       "is said once, and the rest goes on.",
	.children = connlife_children,
};

static const char *const connlife_kinds[CONNLIFE_KINDS] = {
	"UP", "OPEN", "DOWN", "REGION_ADD", "REGION_DEL", "CM_EVENT", "QP_CREATED", "QP_DESTROYED",
};

static const char *connlife_cm_name(unsigned event)
{
	static const char *const names[] = {
		"ADDR_RESOLVED", "ADDR_ERROR", "ROUTE_RESOLVED", "ROUTE_ERROR", "CONNECT_REQUEST",
		"CONNECT_RESPONSE", "CONNECT_ERROR", "UNREACHABLE", "REJECTED", "ESTABLISHED",
		"DISCONNECTED", "DEVICE_REMOVAL", "MULTICAST_JOIN", "MULTICAST_ERROR",
		"ADDR_CHANGE", "TIMEWAIT_EXIT", "ADDRINFO_RESOLVED", "ADDRINFO_ERROR",
	};

	return event < sizeof(names) / sizeof(names[0]) ? names[event] : "?";
}

static void connlife_print_json(const struct connlife_event *e, const char *tenant)
{
	json_t *o = json_pack("{s:I, s:s}", "at_ns", (json_int_t)e->at_ns, "event",
			      connlife_kinds[e->kind]);

	if (e->kind == CONNLIFE_CM_EVENT)
		(void)json_object_update_new(o, json_pack("{s:s, s:i}", "name",
			connlife_cm_name(e->number), "status", e->status));
	else if (e->kind > CONNLIFE_CM_EVENT)
		(void)json_object_update_new(o, json_pack("{s:I, s:i, s:I, s:s}", "qp",
			(json_int_t)e->number, "status", e->status, "pid", (json_int_t)e->pid,
			"comm", e->comm));
	else
		(void)json_object_update_new(o, json_pack("{s:I, s:s}", "conn",
			(json_int_t)e->conn, "tenant", tenant));
	if (e->kind <= CONNLIFE_DOWN)
		(void)json_object_set_new(o, "transport",
					  json_string(tool_transport_name(e->transport)));
	if (e->kind == CONNLIFE_DOWN)
		(void)json_object_update_new(o, json_pack("{s:I, s:I, s:I, s:I}", "ns",
			(json_int_t)e->ns, "requests", (json_int_t)e->requests, "regions",
			(json_int_t)e->regions, "region_bytes", (json_int_t)e->bytes));
	if (e->kind == CONNLIFE_REGION_ADD || e->kind == CONNLIFE_REGION_DEL)
		(void)json_object_update_new(o, json_pack("{s:I, s:I}", "region",
			(json_int_t)e->regions, "bytes", (json_int_t)e->bytes));
	tool_print_json(o);
}

static void connlife_print_text(const struct connlife *c, const struct connlife_event *e,
				const char *tenant)
{
	printf("%10.3f %-12s ", (double)(e->at_ns - c->first_ns) / 1e9, connlife_kinds[e->kind]);
	if (e->kind == CONNLIFE_CM_EVENT)
		printf("%s, status %d\n", connlife_cm_name(e->number), e->status);
	else if (e->kind > CONNLIFE_CM_EVENT)
		printf("qp %u of %s (%u)%s\n", e->number, e->comm, e->pid,
		       e->status ? ", failed" : "");
	else if (e->kind == CONNLIFE_REGION_ADD || e->kind == CONNLIFE_REGION_DEL)
		printf("%6llu %-16s region %u, %llu bytes\n", e->conn, tenant, e->regions,
		       e->bytes);
	else if (e->kind == CONNLIFE_DOWN)
		printf("%6llu %-16s %-6s %12.3f ms %10llu requests %6u regions %12llu bytes\n",
		       e->conn, tenant, tool_transport_name(e->transport), (double)e->ns / 1e6,
		       e->requests, e->regions, e->bytes);
	else
		printf("%6llu %-16s %-6s\n", e->conn, tenant, tool_transport_name(e->transport));
}

static int connlife_event(void *user, void *data, size_t size)
{
	struct connlife *c = user;
	const struct connlife_event *e = data;
	char text[TOOL_NAME];
	const char *tenant = tool_tenant(&c->names, e->tenant, text);

	if (!c->first_ns)
		c->first_ns = e->at_ns;
	if (tenant == text)	/* a number: one that came after we last asked */
		tool_names_read(&c->options, &c->names);
	tenant = tool_tenant(&c->names, e->tenant, text);
	if (c->options.json)
		connlife_print_json(e, tenant);
	else
		connlife_print_text(c, e, tenant);
	return 0;
}

/* Is @function one that fentry can be put on, in the kernel or in @module? */
static bool connlife_kernel_has(const char *function, const char *module)
{
	struct btf *kernel = btf__load_vmlinux_btf(), *own = NULL;
	bool there = false;

	if (kernel) {
		there = btf__find_by_name_kind(kernel, function, BTF_KIND_FUNC) > 0;
		own = there ? NULL : btf__load_module_btf(module, kernel);
	}
	if (own)
		there = btf__find_by_name_kind(own, function, BTF_KIND_FUNC) > 0;
	btf__free(own);
	btf__free(kernel);
	return there;
}

/* Leaves out what this kernel does not have, or everything of the kernel's own. */
static int connlife_choose(struct connlife *c, bool kernel)
{
	bool created = kernel && connlife_kernel_has("ib_create_qp_user", "ib_core");
	bool destroyed = kernel && connlife_kernel_has("ib_destroy_qp_user", "ib_core");
	int r = bpf_program__set_autoload(c->skel->progs.kernel_cm_event, kernel);

	if (r == 0)
		r = bpf_program__set_autoload(c->skel->progs.kernel_qp_created, created);
	if (r == 0)
		r = bpf_program__set_autoload(c->skel->progs.kernel_qp_destroyed, destroyed);
	if (kernel && !(created && destroyed))
		tool_say(&c->options, "not watched here: queue pairs (no BTF of ib_core's "
			 "ib_create_qp_user and ib_destroy_qp_user: no RDMA, or Linux before "
			 "5.16)");
	return r;
}

/*
 * libbpf wants the kernel's types of any object that could use them, also when none of its programs
 * that do is loaded. Where there are none it is content with the object's own, as a file.
 */
static int connlife_own_types(const struct connlife *c, char path[32])
{
	uint32_t size = 0;
	const void *types = btf__raw_data(bpf_object__btf(c->skel->obj), &size);
	int fd = types ? memfd_create("larder-connlife", MFD_CLOEXEC) : -1;

	if (fd < 0)
		return -1;
	if (write(fd, types, size) != (ssize_t)size) {
		(void)close(fd);	/* nobody has it */
		return -1;
	}
	(void)snprintf(path, 32, "/proc/self/fd/%d", fd);
	return fd;
}

static int connlife_load(struct connlife *c, int slot)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts);
	char types[32];
	int fd = -1, r = 0;

	for (int kernel = 1; kernel >= 0; kernel--) {
		c->skel = connlife_bpf__open_opts(&opts);
		if (!c->skel)
			return -errno;
		if (slot < (int)TOOL_TENANTS)
			c->skel->rodata->wanted_tenant = (unsigned)slot;
		c->skel->rodata->all_events = c->all;
		r = connlife_choose(c, kernel);
		if (r == 0)
			r = connlife_bpf__load(c->skel);
		if (r == 0 || !kernel)
			break;
		tool_say(&c->options, "not watched here: the kernel's part (%s)", r == -ESRCH ?
			 "this kernel offers no BTF" : strerror(-r));
		fd = connlife_own_types(c, types);
		opts.btf_custom_path = fd < 0 ? NULL : types;
		connlife_bpf__destroy(c->skel);
		c->skel = NULL;
	}
	if (fd >= 0)
		(void)close(fd);	/* it was only read */
	return r;
}

static int connlife_run(struct connlife *c)
{
	const struct tool_options *o = &c->options;
	struct ring_buffer *ring = ring_buffer__new(bpf_map__fd(c->skel->maps.events),
						    connlife_event, c, NULL);
	uint64_t turns = o->interval_s * 1000ull / CONNLIFE_POLL_MS * (o->count ? o->count : 1);
	const __u64 *seen = c->skel->bss->seen;
	int r = 0;

	if (!ring)
		return -errno;
	for (uint64_t i = 0; r >= 0 && (turns == 0 || i < turns); i++) {
		bool end = tool_wait(CONNLIFE_POLL_MS);

		r = ring_buffer__consume(ring);
		if (end)
			break;
	}
	ring_buffer__free(ring);
	if (o->json)
		tool_print_json(json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}",
			"up", (json_int_t)seen[CONNLIFE_UP],
			"open", (json_int_t)seen[CONNLIFE_OPEN],
			"down", (json_int_t)seen[CONNLIFE_DOWN],
			"qp_created", (json_int_t)seen[CONNLIFE_QP_CREATED],
			"qp_destroyed", (json_int_t)seen[CONNLIFE_QP_DESTROYED],
			"dropped", (json_int_t)c->skel->bss->dropped));
	else
		printf("%llu connections came, %llu were let in, %llu ended; queue pairs: %llu "
		       "created, %llu destroyed; %llu events dropped\n",
		       (unsigned long long)seen[CONNLIFE_UP],
		       (unsigned long long)seen[CONNLIFE_OPEN],
		       (unsigned long long)seen[CONNLIFE_DOWN],
		       (unsigned long long)seen[CONNLIFE_QP_CREATED],
		       (unsigned long long)seen[CONNLIFE_QP_DESTROYED],
		       (unsigned long long)c->skel->bss->dropped);
	return r < 0 ? r : 0;
}

int main(int argc, char **argv)
{
	static struct connlife c;
	struct tool tool = { 0 };
	int slot, r;

	tool_parse(&c.options, "larder-connlife", &connlife_argp, argc, argv, &c);
	tool_names_read(&c.options, &c.names);
	slot = tool_tenant_slot(&c.options, &c.names);
	if (slot < 0)
		return 2;
	tool_signals();
	r = connlife_load(&c, slot);
	if (r < 0)
		tool_say_error(&c.options, "the program can not be loaded", r);
	else
		r = tool_attach(&tool, &c.options, c.skel->obj);
	if (r == 0) {
		struct bpf_program *qp_created = c.skel->progs.kernel_qp_created;

		tool_attach_if_there(&tool, c.skel->progs.kernel_cm_event,
				     "the connection manager's events: no rdma_cm");
		tool_attach_if_there(&tool, qp_created, "queue pairs that come");
		tool_attach_if_there(&tool, c.skel->progs.kernel_qp_destroyed,
				     "queue pairs that go");
		tool_ready(&tool);
		r = connlife_run(&c);
		if (r < 0)
			tool_say_error(&c.options, "the ring buffer can not be read", r);
	}
	tool_detach(&tool);
	connlife_bpf__destroy(c.skel);
	return r < 0 ? 5 : 0;
}
