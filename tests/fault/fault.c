/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sweep: each scenario over each transport, the Nth call failing in each of its ways, for
 * N = 1, 2, ... until a run has no Nth. A child does the cases one after another, so that a leak
 * adds up and a crash costs one case: the parent says which, how to repeat it, and goes on behind.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "world.h"

#define FAULT_CASE_SECONDS 30u

struct options {
	const char *scenario, *transport;
	uint64_t n;
	unsigned way;
	bool one;			/* --n: that case only */
	unsigned every;			/* a case of so many is run */
	unsigned offset;
	unsigned patience;		/* failures of one sweep after which it is given up */
	unsigned burst;
	bool verbose;
};

/* Shared with the child. */
struct progress {
	uint64_t n;
	unsigned way;
	struct inject_report report;
	uint64_t passed, unfit;
	bool done;
};

static const char *fault_program;

/* --- the child ------------------------------------------------------------------------------- */

static void fault_case(const struct scenario *s, const char *transport, struct progress *p,
		       bool first)
{
	static struct world w;
	struct books before, after;
	unsigned fds = books_fds();

	books_get(&before);
	world_begin(&w, transport, p->n, p->way);
	s->run(&w);
	world_verify(&w);
	world_end(&w);
	books_get(&after);
	if (first)	/* what is made once in a process stays */
		return;
	if (after.allocations != before.allocations || after.mapped_bytes != before.mapped_bytes ||
	    books_fds() != fds)
		world_fail(&w, "left behind: %lld allocations, %lld bytes mapped, %d descriptors",
			   (long long)(after.allocations - before.allocations),
			   (long long)(after.mapped_bytes - before.mapped_bytes),
			   (int)(books_fds() - fds));
}

static void fault_warm_up(const struct scenario *s, const char *transport)
{
	struct progress p = { 0 };

	fault_case(s, transport, &p, true);
}

static void fault_child(const struct options *o, const struct scenario *s, const char *transport,
			struct progress *p)
{
	fault_warm_up(s, transport);
	inject_burst(o->burst);
	inject_share(&p->report);
	for (;;) {
		(void)alarm(FAULT_CASE_SECONDS);
		fault_case(s, transport, p, false);
		(void)alarm(0);
		if (!p->report.reached)
			break;
		p->passed += p->report.fired;
		p->unfit += !p->report.fired && p->way < p->report.ways;
		if (o->verbose)
			printf("%s %s %lu %u %s %s\n", s->name, transport, p->n, p->way,
			       inject_call_name(p->report.call),
			       p->report.fired ? inject_error_name(p->report.error) : "-");
		if (o->one)
			break;
		if (++p->way >= p->report.ways) {
			p->way = 0;
			p->n += o->every;
		}
	}
	p->done = true;
	exit(0);	/* and not _exit: the leak checker has its say */
}

/* --- the parent ------------------------------------------------------------------------------ */

static void fault_site(const void *site)
{
	char command[512];

	if (!site)
		return;
	(void)fflush(stdout);
	(void)snprintf(command, sizeof(command), "addr2line -fp -e %s 0x%lx | sed 's/^/    in /'",
		       fault_program, (unsigned long)site - 1);
	if (system(command) != 0)
		printf("    at %p\n", site);
}

static void fault_tell(const struct options *o, const struct scenario *s, const char *transport,
		       const struct progress *p, int status)
{
	const struct inject_report r = p->report;

	if (WIFSIGNALED(status))
		printf("    ends by signal %d (%s)\n", WTERMSIG(status),
		       WTERMSIG(status) == SIGALRM ? "it hangs" : strsignal(WTERMSIG(status)));
	if (r.fired)
		printf("    %s failed with %s\n", inject_call_name(r.call),
		       inject_error_name(r.error));
	fault_site(r.site);
	printf("FAILED: %s --scenario %s --transport %s --n %lu --way %u --burst %u\n",
	       fault_program, s->name, transport, p->n, p->way, o->burst);
}

/* What a child that did not come to its end has left in /dev/shm. */
static void fault_clean(pid_t pid)
{
	static const char *const name[] = { "memory/arena", "memory/records", "memory", "sock",
					    "" };
	char path[96];

	for (unsigned i = 0; i < ARRAY_SIZE(name); i++) {
		(void)snprintf(path, sizeof(path), "/dev/shm/larder-fault.%u/%s", (unsigned)pid,
			       name[i]);
		(void)remove(path);	/* it may not have been made */
	}
}

/* Returns the number of cases that failed. */
static unsigned fault_sweep(const struct options *o, const struct scenario *s,
			    const char *transport, struct progress *p)
{
	unsigned failed = 0;

	*p = (struct progress){ .n = o->one ? o->n : 1 + o->offset % o->every,
				.way = o->one ? o->way : 0 };
	while (!p->done) {
		int status = 0;
		pid_t pid;

		(void)fflush(stdout);
		pid = fork();
		if (pid < 0)
			return failed + 1;
		if (pid == 0)
			fault_child(o, s, transport, p);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		if (status == 0)
			continue;
		fault_tell(o, s, transport, p, status);
		fault_clean(pid);
		failed++;
		if (o->one || !p->report.reached || failed >= o->patience)
			break;
		if (++p->way >= p->report.ways) {
			p->way = 0;
			p->n += o->every;
		}
	}
	return failed;
}

static bool fault_wanted(const char *list, const char *name)
{
	return !list || strcmp(list, name) == 0;
}

static void fault_all(const struct options *o, struct progress *p, uint64_t sum[2])
{
	for (const struct scenario *s = scenarios; s->name; s++) {
		char transports[32], *at = NULL;

		if (!fault_wanted(o->scenario, s->name))
			continue;
		(void)snprintf(transports, sizeof(transports), "%s", s->transports);
		for (char *t = strtok_r(transports, " ", &at); t; t = strtok_r(NULL, " ", &at)) {
			unsigned failed;

			if (!fault_wanted(o->transport, t))
				continue;
			failed = fault_sweep(o, s, t, p);
			printf("%-8s %-4s %6lu calls, %6lu cases, %u failed\n", s->name, t,
			       p->n - 1, p->passed + failed, failed);
			sum[0] += p->passed;
			sum[1] += failed;
		}
	}
}

static int fault_options(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
		{ "scenario", required_argument, NULL, 's' },
		{ "transport", required_argument, NULL, 't' },
		{ "n", required_argument, NULL, 'n' },
		{ "way", required_argument, NULL, 'w' },
		{ "every", required_argument, NULL, 'e' },
		{ "offset", required_argument, NULL, 'o' },
		{ "burst", required_argument, NULL, 'b' },
		{ "patience", required_argument, NULL, 'p' },
		{ "verbose", no_argument, NULL, 'v' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case 's': o->scenario = optarg; break;
		case 't': o->transport = optarg; break;
		case 'n': o->n = strtoull(optarg, NULL, 10); o->one = true; break;
		case 'w': o->way = (unsigned)strtoul(optarg, NULL, 10); break;
		case 'e': o->every = MAX((unsigned)strtoul(optarg, NULL, 10), 1u); break;
		case 'o': o->offset = (unsigned)strtoul(optarg, NULL, 10); break;
		case 'b': o->burst = (unsigned)strtoul(optarg, NULL, 10); break;
		case 'p': o->patience = (unsigned)strtoul(optarg, NULL, 10); break;
		case 'v': o->verbose = true; break;
		default: return -EINVAL;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct options o = { .every = 1, .patience = 20 };
	struct progress *p;
	uint64_t sum[2] = { 0 };

	fault_program = argv[0];
	if (fault_options(argc, argv, &o) < 0)
		return 2;
	p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return 1;
	fault_all(&o, p, sum);
	printf("%lu passed, %lu failed, 0 skipped\n", sum[0], sum[1]);
	return sum[1] ? 1 : 0;
}
