/* SPDX-License-Identifier: Apache-2.0 */
/*
 * larder-witness: bytes as the kernel's edge sees them, to be held against the ledger. TCP by the
 * sockets of the node's cgroup; RoCE v2 by the packets that arrive on an interface.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <mntent.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <bpf/bpf.h>

#include <larder/probes.h>

#include "tool.h"
#include "witness.h"
#include "witness.skel.h"

_Static_assert(WITNESS_NOBODY == LARDER_PROBE_NOBODY, "interface");

struct witness {
	struct tool_options options;
	struct tool_names names;
	struct witness_bpf *skel;
	struct tool tool;
	const char *cgroup;	/* as told; NULL: that of the process */
	const char *roce;	/* interface; NULL: TCP */
	int xdp_fd;		/* a link; -1 */
	int only;		/* slot, or TOOL_TENANTS */
};

static const struct argp_child witness_children[] = { { &tool_argp, 0, NULL, 0 }, { 0 } };
static const struct argp_option witness_options[] = {
	{ "cgroup", 'g', "PATH", 0, "of cgroup2, whose sockets count (that of PID)", 0 },
	{ "roce", 'r', "INTERFACE", 0, "count RoCE v2 packets that arrive there, not TCP", 0 },
	{ 0 },
};

static error_t witness_option(int key, char *arg, struct argp_state *state)
{
	struct witness *w = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &w->options;
		return 0;
	case 'g':
		w->cgroup = arg;
		return 0;
	case 'r':
		w->roce = arg;
		return 0;
	case ARGP_KEY_END:
		if (!w->cgroup && !w->roce && w->options.pid < 0)
			argp_error(state, "name --pid, --cgroup or --roce");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp witness_argp = {
	.options = witness_options,
	.parser = witness_option,
	.args_doc = "[INTERVAL [COUNT]]",
	.doc = "Counts the bytes of larderd's connections where the kernel sees them: packets, "
	       "bytes on the wire, TCP payload, and how much of it was repeated, by tenant; or "
	       "RoCE v2 packets by queue pair.\v"
	       "Connections that were open before it began belong to nobody (tenant -). Without "
	       "INTERVAL (seconds) it prints once, when it is told to end; counts go on.",
	.children = witness_children,
};

/* --- attaching ------------------------------------------------------------------------------- */

/* The path of the process's cgroup below the mount of cgroup2. 0 or -errno. */
static int witness_own_cgroup(pid_t pid, char *path, size_t size)
{
	char name[64], line[4096], mount[2048] = "";
	struct mntent *m;
	FILE *f = setmntent("/proc/self/mounts", "r");
	int r = -ENOENT;

	while (f && (m = getmntent(f)))
		if (strcmp(m->mnt_type, "cgroup2") == 0) {
			snprintf(mount, sizeof(mount), "%s", m->mnt_dir);
			break;
		}
	if (f)
		(void)endmntent(f);	/* always 1 */
	snprintf(name, sizeof(name), "/proc/%d/cgroup", (int)pid);
	f = mount[0] ? fopen(name, "re") : NULL;
	if (!f)
		return mount[0] ? -errno : -ENOENT;
	while (r && fgets(line, sizeof(line), f)) {
		if (strncmp(line, "0::", 3) != 0)
			continue;
		line[strcspn(line, "\n")] = '\0';
		r = snprintf(path, size, "%s%s", mount, line + 3) < (int)size ? 0 : -ENAMETOOLONG;
	}
	(void)fclose(f);	/* it was only read */
	return r;
}

static int witness_keep(struct witness *w, struct bpf_link *link)
{
	int r = link ? 0 : -errno;

	if (r < 0)
		tool_say_error(&w->options, "the cgroup takes no program", r);
	else
		w->tool.links[w->tool.n_links++] = link;
	return r;
}

static int witness_attach_tcp(struct witness *w)
{
	char path[4096];
	int fd, r = 0;

	if (w->cgroup)
		snprintf(path, sizeof(path), "%s", w->cgroup);
	else
		r = witness_own_cgroup(w->options.pid, path, sizeof(path));
	if (r < 0) {
		tool_say(&w->options, "process %d has no cgroup of version 2 here: %s",
			 (int)w->options.pid, strerror(-r));
		return r;
	}
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		r = -errno;
		tool_say(&w->options, "%s: %s: --cgroup is a folder of cgroup2", path,
			 strerror(-r));
		return r;
	}
	r = tool_attach(&w->tool, &w->options, w->skel->obj);
	if (r == 0)
		r = witness_keep(w, bpf_program__attach_cgroup(w->skel->progs.tcp_in, fd));
	if (r == 0)
		r = witness_keep(w, bpf_program__attach_cgroup(w->skel->progs.tcp_out, fd));
	(void)close(fd);	/* the links hold what they need */
	return r;
}

/* A link goes with its process. Where the driver will not, the kernel does it for any device. */
static int witness_attach_roce(struct witness *w)
{
	LIBBPF_OPTS(bpf_link_create_opts, slow, .flags = XDP_FLAGS_SKB_MODE);
	int program = bpf_program__fd(w->skel->progs.roce_in), r;
	unsigned index = if_nametoindex(w->roce);

	if (!index) {
		tool_say(&w->options, "%s: there is no such interface", w->roce);
		return -ENODEV;
	}
	w->tool.options = &w->options;
	w->xdp_fd = bpf_link_create(program, (int)index, BPF_XDP, NULL);
	if (w->xdp_fd < 0)
		w->xdp_fd = bpf_link_create(program, (int)index, BPF_XDP, &slow);
	if (w->xdp_fd >= 0)
		return 0;
	r = -errno;
	tool_say_error(&w->options, w->roce, r);
	return r;
}

/* --- printing -------------------------------------------------------------------------------- */

static void witness_way_add(struct witness_way *into, const struct witness_way *w)
{
	into->packets += w->packets;
	into->wire_bytes += w->wire_bytes;
	into->payload += w->payload;
	into->repeated += w->repeated;
}

static json_t *witness_way_json(const struct witness_way *w)
{
	return json_pack("{s:I, s:I, s:I, s:I}", "packets", (json_int_t)w->packets,
			 "wire_bytes", (json_int_t)w->wire_bytes, "payload",
			 (json_int_t)w->payload, "repeated", (json_int_t)w->repeated);
}

static void witness_print_tcp(struct witness *w)
{
	static struct witness_socket sums[TOOL_TENANTS + 1];
	static unsigned n[TOOL_TENANTS + 1];
	int fd = bpf_map__fd(w->skel->maps.sockets);
	json_t *all = json_object();
	char text[TOOL_NAME];
	__u64 key, *last = NULL;

	memset(sums, 0, sizeof(sums));
	memset(n, 0, sizeof(n));
	while (bpf_map_get_next_key(fd, last, &key) == 0) {
		struct witness_socket s;

		last = &key;
		if (bpf_map_lookup_elem(fd, &key, &s) == 0) {
			unsigned slot = s.tenant < TOOL_TENANTS ? s.tenant : TOOL_TENANTS;

			witness_way_add(&sums[slot].in, &s.in);
			witness_way_add(&sums[slot].out, &s.out);
			n[slot]++;
		}
	}
	if (!w->options.json)
		printf("%-20s %6s %12s %16s %16s %12s %16s %16s %12s\n", "TENANT", "CONNS",
		       "PACKETS IN", "WIRE IN", "PAYLOAD IN", "REPEATED", "WIRE OUT",
		       "PAYLOAD OUT", "REPEATED");
	for (unsigned i = 0; i <= TOOL_TENANTS; i++) {
		const char *name = tool_tenant(&w->names, i, text);
		const struct witness_way *in = &sums[i].in, *out = &sums[i].out;

		if (!n[i] || (w->only < (int)TOOL_TENANTS && (int)i != w->only))
			continue;
		(void)json_object_set_new(all, name, json_pack("{s:i, s:o, s:o}", "connections",
			(int)n[i], "in", witness_way_json(in), "out", witness_way_json(out)));
		if (!w->options.json)
			printf("%-20s %6u %12llu %16llu %16llu %12llu %16llu %16llu %12llu\n",
			       name, n[i], in->packets, in->wire_bytes, in->payload,
			       in->repeated, out->wire_bytes, out->payload, out->repeated);
	}
	if (w->options.json)
		tool_print_json(json_pack("{s:O, s:I}", "tenants", all, "lost",
					  (json_int_t)w->skel->bss->lost));
	json_decref(all);
}

static const char *witness_source(const struct witness_qp *q, char text[INET6_ADDRSTRLEN])
{
	bool v4 = !q->source[0] && !q->source[1] && !q->source[2];

	if (!inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? &q->source[3] : &q->source[0], text,
		       INET6_ADDRSTRLEN))
		strcpy(text, "?");
	return text;
}

static void witness_print_roce(struct witness *w)
{
	static const char *const names[WITNESS_CLASSES] = { "send", "write", "read", "other" };
	int fd = bpf_map__fd(w->skel->maps.qps);
	struct witness_qp key, *last = NULL;
	json_t *all = json_array();

	if (!w->options.json)
		printf("%-40s %8s %14s %14s %14s %14s %12s\n", "FROM", "QP", "SEND", "WRITE",
		       "READ", "WIRE", "REPEATED");
	while (bpf_map_get_next_key(fd, last, &key) == 0) {
		char text[INET6_ADDRSTRLEN];
		struct witness_roce r;
		json_t *o;

		last = &key;
		if (bpf_map_lookup_elem(fd, &key, &r) < 0)
			continue;
		o = json_pack("{s:s, s:I, s:I, s:I}", "from", witness_source(&key, text), "qp",
			      (json_int_t)key.qp, "wire_bytes", (json_int_t)r.wire_bytes,
			      "repeated", (json_int_t)r.repeated);
		for (unsigned i = 0; i < WITNESS_CLASSES; i++)
			(void)json_object_set_new(o, names[i], json_pack("{s:I, s:I}",
				"packets", (json_int_t)r.packets[i], "payload",
				(json_int_t)r.payload[i]));
		(void)json_array_append_new(all, o);
		if (!w->options.json)
			printf("%-40s %8u %14llu %14llu %14llu %14llu %12llu\n", text, key.qp,
			       r.payload[WITNESS_SEND], r.payload[WITNESS_WRITE],
			       r.payload[WITNESS_READ], r.wire_bytes, r.repeated);
	}
	if (w->options.json)
		tool_print_json(json_pack("{s:O, s:I, s:I}", "queue_pairs", all, "lost",
					  (json_int_t)w->skel->bss->lost, "malformed",
					  (json_int_t)w->skel->bss->malformed));
	json_decref(all);
}

static void witness_run(struct witness *w)
{
	const struct tool_options *o = &w->options;
	bool end = false;

	for (unsigned i = 0; !end && (o->count == 0 || i < o->count); i++) {
		do {
			end = tool_wait(o->interval_s ? o->interval_s * 1000 : 60000);
		} while (!end && o->interval_s == 0);
		tool_names_read(o, &w->names);
		if (w->roce)
			witness_print_roce(w);
		else
			witness_print_tcp(w);
	}
}

int main(int argc, char **argv)
{
	static struct witness w = { .xdp_fd = -1 };
	int r;

	tool_parse(&w.options, "larder-witness", &witness_argp, argc, argv, &w);
	tool_names_read(&w.options, &w.names);
	w.only = tool_tenant_slot(&w.options, &w.names);
	if (w.only < 0)
		return 2;
	tool_signals();
	w.skel = witness_bpf__open();
	if (!w.skel) {
		tool_say_error(&w.options, "the programs can not be opened", -errno);
		return 5;
	}
	r = bpf_program__set_autoload(w.skel->progs.roce_in, w.roce != NULL);
	if (r == 0)
		r = witness_bpf__load(w.skel);
	if (r < 0)
		tool_say_error(&w.options, "the programs can not be loaded", r);
	else
		r = w.roce ? witness_attach_roce(&w) : witness_attach_tcp(&w);
	if (r == 0) {
		tool_ready(&w.tool);
		witness_run(&w);
	}
	tool_detach(&w.tool);
	if (w.xdp_fd >= 0)
		(void)close(w.xdp_fd);	/* ends the link */
	witness_bpf__destroy(w.skel);
	return r < 0 ? 5 : 0;
}
