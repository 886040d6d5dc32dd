/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command. Each seed is a child of its own: a fault of the node (a failed assertion, a
 * sanitizer's report, a hang) is that seed's and ends with its replay command like any other.
 *
 *	sim --seed N [--verbose]	one seed, with what it drew and its hash
 *	sim --base N --seeds N		that many from a base, those of --kept FILE before them;
 *					--first: end with the first that fails
 *	sim --twice N			one seed twice: the traces must agree
 */
#include <getopt.h>
#include <stdarg.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim.h"

#define SIM_SECONDS 30u		/* of processor time, for one seed */
#define SIM_REAL_SECONDS 600u	/* a seed that waits for something that is not of this world */
#define SIM_FAILURES_MAX 3u
#define SIM_KEPT_MAX 256u

static const char *sim_program;

void sim_fail(struct world *w, const char *fmt, ...)
{
	va_list ap;

	printf("\nseed %" PRIu64 ", %.6f s, turn %" PRIu64 ": ", w->seed, (double)w->now_ns / 1e9,
	       w->turns);
	va_start(ap, fmt);
	(void)vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	knobs_print(w);
	(void)fflush(stdout);
	_exit(1);
}

static uint64_t sim_run(uint64_t seed, bool verbose, bool tell)
{
	struct world *w = calloc(1, sizeof(*w));
	uint64_t hash;

	if (!w) {
		printf("no memory for a world\n");
		exit(2);
	}
	w->seed = seed;
	w->verbose = verbose;
	world_open(w);
	if (tell)
		knobs_print(w);
	for (uint32_t i = 0; i < w->knobs.rounds; i++) {
		actor_round(w);
		calm_round(w, i + 1 == w->knobs.rounds);
	}
	world_close(w);
	hash = w->hash;
	if (tell)
		printf("hash %016" PRIx64 ", %" PRIu64 " operations, %" PRIu64 " certain, %" PRIu64
		       " crashes, %" PRIu64 " turns, %.3f s\n", hash, w->ops_done, w->ops_definite,
		       w->crashes, w->turns, (double)w->now_ns / 1e9 - 1000);
	free(w);
	return hash;
}

static void sim_replay(uint64_t seed)
{
	printf("replay: %s --seed %" PRIu64 "\n", sim_program, seed);
	(void)fflush(stdout);
}

/* In a child. Its hash, or 0 when it failed. */
static uint64_t sim_child(uint64_t seed)
{
	const struct itimerval limit = { .it_value.tv_sec = SIM_SECONDS };
	uint64_t hash = 0;
	int fds[2], status;
	pid_t pid;

	if (pipe(fds) < 0 || (pid = fork()) < 0) {
		perror("sim");
		exit(2);
	}
	if (pid == 0) {
		(void)close(fds[0]);
		/* a machine may be busy: a seed hangs when it has worked for so long */
		(void)setitimer(ITIMER_PROF, &limit, NULL);
		(void)alarm(SIM_REAL_SECONDS);
		hash = sim_run(seed, false, false) | 1;
		exit(write(fds[1], &hash, sizeof(hash)) == sizeof(hash) ? 0 : 2);
	}
	(void)close(fds[1]);
	if (read(fds[0], &hash, sizeof(hash)) != sizeof(hash))
		hash = 0;
	(void)close(fds[0]);
	if (waitpid(pid, &status, 0) < 0) {
		perror("sim");
		exit(2);
	}
	if (WIFSIGNALED(status))
		printf("\nseed %" PRIu64 ": died of signal %d (%s)%s\n", seed, WTERMSIG(status),
		       strsignal(WTERMSIG(status)),
		       WTERMSIG(status) == SIGALRM || WTERMSIG(status) == SIGPROF ? ": it hangs"
										  : "");
	if (status != 0)
		hash = 0;
	if (!hash)
		sim_replay(seed);
	return hash;
}

/*
 * Seeds that ever failed, one a line; what follows the number says why. Read to the end before the
 * first runs: a child that exits would put back the shared position of an open file.
 */
static uint32_t sim_kept_read(const char *path, uint64_t seeds[SIM_KEPT_MAX])
{
	FILE *f = fopen(path, "re");
	char line[256];
	uint32_t n = 0;

	if (!f) {
		perror(path);
		exit(2);
	}
	while (n < SIM_KEPT_MAX && fgets(line, sizeof(line), f)) {
		char *end;

		seeds[n] = strtoull(line, &end, 10);
		n += end != line;
	}
	(void)fclose(f);
	return n;
}

static uint32_t sim_kept(const char *path, uint32_t *failed)
{
	uint64_t seeds[SIM_KEPT_MAX];
	uint32_t n = sim_kept_read(path, seeds);

	for (uint32_t i = 0; i < n; i++)
		*failed += sim_child(seeds[i]) == 0;
	return n;
}

static int sim_many(uint64_t base, uint64_t seeds, const char *kept, uint32_t most)
{
	uint32_t failed = 0;
	uint64_t n = 0;

	if (kept)
		n = sim_kept(kept, &failed);
	for (uint64_t i = 0; i < seeds && failed < most; i++, n++)
		failed += sim_child(base + i) == 0;
	printf("%" PRIu64 " passed, %u failed, 0 skipped\n", n - failed, failed);
	return failed ? 1 : 0;
}

static int sim_twice(uint64_t seed)
{
	uint64_t one = sim_child(seed), two = sim_child(seed);

	if (one && one == two) {
		printf("seed %" PRIu64 ": twice %016" PRIx64 "\n", seed, one);
		return 0;
	}
	printf("seed %" PRIu64 ": %016" PRIx64 ", then %016" PRIx64 ": not one trace\n", seed, one,
	       two);
	sim_replay(seed);
	return 1;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "seeds", required_argument, NULL, 'n' },
		{ "base", required_argument, NULL, 'b' },
		{ "twice", required_argument, NULL, 't' },
		{ "kept", required_argument, NULL, 'k' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "first", no_argument, NULL, 'f' },
		{ NULL, 0, NULL, 0 },
	};
	uint64_t seed = 0, base = 1, seeds = 200;
	const char *kept = NULL;
	bool one = false, verbose = false;
	uint32_t most = SIM_FAILURES_MAX;
	int c;

	sim_program = argv[0];
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (c) {
		case 's':
			seed = strtoull(optarg, NULL, 0);
			one = true;
			break;
		case 'n':
			seeds = strtoull(optarg, NULL, 0);
			break;
		case 'b':
			base = strtoull(optarg, NULL, 0);
			break;
		case 't':
			return sim_twice(strtoull(optarg, NULL, 0));
		case 'k':
			kept = optarg;
			break;
		case 'v':
			verbose = true;
			break;
		case 'f':
			most = 1;
			break;
		default:
			printf("usage: sim [--seed N [--verbose] | --twice N | --base N --seeds N "
			       "[--kept FILE] [--first]]\n");
			return 2;
		}
	if (!one)
		return sim_many(base, seeds, kept, most);
	(void)sim_run(seed, verbose, true);
	return 0;
}
