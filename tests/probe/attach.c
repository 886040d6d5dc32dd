/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach BINARY...: listens to every probe of <larder/probes.h> in every binary that has it, with
 * the libbpf that it was linked to, says "listening", and when it is told to end (SIGINT) prints
 * {"libbpf": VERSION, "probes": {NAME: {"binaries", "hits", "arguments", "unreadable", "sum"}}}.
 * Exit 1 after a line when a probe that is there can not be attached to, 77 when BPF is not to be
 * had.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <jansson.h>

#include <larder/probes.h>

#include "attach.h"
#include "attach.skel.h"

static const struct {
	const char *name;
	unsigned arguments;
} table[] = {
#define ATTACH_ROW(name, n) { #name, n },
	LARDER_PROBE_TABLE(ATTACH_ROW)
#undef ATTACH_ROW
};

#define TABLE (sizeof(table) / sizeof(table[0]))
_Static_assert(TABLE <= ATTACH_PROBES, "attach.h has too little room");

static unsigned binaries[TABLE];
static struct bpf_link *links[8 * TABLE];
static unsigned n_links;

static int silent(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	return 0;
}

/* False: it is there, and can not be attached to. */
static bool attach(struct attach_bpf *skel, const char *binary, unsigned i)
{
	LIBBPF_OPTS(bpf_usdt_opts, o, .usdt_cookie = i);

	struct bpf_link *link = bpf_program__attach_usdt(skel->progs.hit, -1, binary, "larder",
							 table[i].name, &o);

	if (link) {
		binaries[i]++;
		links[n_links++] = link;
		return true;
	}
	if (errno == ENOENT)
		return true;
	fprintf(stderr, "attach: %s: %s: %s\n", binary, table[i].name, strerror(errno));
	return false;
}

static json_t *row(struct attach_bpf *skel, uint32_t i)
{
	struct attach_probe p = { 0 };
	json_t *sum = json_array();

	if (bpf_map_lookup_elem(bpf_map__fd(skel->maps.probes), &i, &p) < 0)
		fprintf(stderr, "attach: %s can not be read\n", table[i].name);
	for (unsigned a = 0; a < p.arguments && a < ATTACH_ARGUMENTS; a++)
		json_array_append_new(sum, json_integer((json_int_t)p.sum[a]));
	return json_pack("{s:i, s:I, s:i, s:i, s:I, s:o}", "binaries", (int)binaries[i],
			 "hits", (json_int_t)p.hits, "arguments", (int)p.arguments,
			 "declared", (int)table[i].arguments,
			 "unreadable", (json_int_t)p.unreadable, "sum", sum);
}

int main(int argc, char **argv)
{
	struct attach_bpf *skel;
	json_t *all = json_object(), *doc;
	sigset_t end;
	int got;

	sigemptyset(&end);
	sigaddset(&end, SIGINT);
	sigprocmask(SIG_BLOCK, &end, NULL);
	libbpf_set_print(silent);
	skel = attach_bpf__open_and_load();
	if (!skel) {
		fprintf(stderr, "attach: BPF is not to be had: %s\n", strerror(errno));
		return 77;
	}
	for (int b = 1; b < argc && b <= 8; b++)
		for (unsigned i = 0; i < TABLE; i++)
			if (!attach(skel, argv[b], i))
				return 1;
	fprintf(stderr, "listening\n");
	while (sigwait(&end, &got))
		;
	for (unsigned i = 0; i < TABLE; i++)
		json_object_set_new(all, table[i].name, row(skel, i));
	doc = json_pack("{s:s, s:o}", "libbpf", libbpf_version_string(), "probes", all);
	json_dumpf(doc, stdout, 0);
	putchar('\n');
	json_decref(doc);
	while (n_links > 0)
		bpf_link__destroy(links[--n_links]);
	attach_bpf__destroy(skel);
	return 0;
}
