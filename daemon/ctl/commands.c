/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of commands, the help made from it, and the way from a command line to a command. ctl.h
 * says what a command is. A new one is a line here, a prototype there and a file.
 */
#include <stdio.h>
#include <string.h>

#include "ctl/ctl.h"
#include "ctl/output.h"
#include "ctl/remote.h"

static const struct ctl_command commands[] = {
	{ "put", cmd_put, "KEY [FILE|-]", "put a value from a file or standard input",
	  "  --ttl TIME          not wanted any more after TIME\n"
	  "  --nowait            BUSY at once where another writer is at work\n", false },
	{ "get", cmd_get, "KEY", "get a value, to standard output or a file",
	  "  -o, --output FILE   where the bytes go; '-' is standard output\n"
	  "  --range OFF:LEN     a part of it; 'OFF:' is all from there\n"
	  "  --wait              wait while somebody else is putting it\n"
	  "  --verify            let the node check its memory first\n", false },
	{ "exists", cmd_exists, "KEY...", "say of each key whether it is there", NULL, false },
	{ "stat", cmd_stat, "KEY...", "show what is known of objects", NULL, false },
	{ "ls", cmd_ls, "[PREFIX]", "list a namespace's objects",
	  "  -1, --names         only the keys, one a line\n", false },
	{ "rm", cmd_rm, "KEY... | --prefix PREFIX", "delete objects",
	  "  -f, --force         over leases and hard pins\n"
	  "  -y, --yes           several, or a prefix: do not ask\n", false },
	{ "pin", cmd_pin, "KEY...", "let objects be the last that are evicted",
	  "  --hard              never, within the tenant's pinned_bytes\n", false },
	{ "unpin", cmd_unpin, "KEY...", "take that back",
	  "  --hard              the hard pin; without it the other one\n", false },
	{ "ns", cmd_ns, "[ls | create NAME | show NAME | flush NAME | retire NAME]", "namespaces",
	  "  create: --model --revision --weights-digest --adapter --position --dtype --layout\n"
	  "          --hash-scheme TEXT, --hash-seed --bytes-per-block --tokens-per-block --tp\n"
	  "          --pp N, --short-last: the descriptor; all empty without one of them\n"
	  "          --admission all|second-touch: which keys it stores\n"
	  "  flush, retire: --force  over leases and hard pins; -y, --yes  do not ask\n", false },
	{ "ping", cmd_ping, "", "ask the data port for a sign of life",
	  "  -c, --count N       how often\n", false },
	{ "stats", cmd_stats, "", "show the node's figures", NULL, true },
	{ "top", cmd_top, "", "watch what tenants do",
	  "  -d, --delay TIME    between two pictures (1s)\n"
	  "  -n, --count N       stop after N pictures\n", true },
	{ "drain", cmd_drain, "", "take nothing new and finish what has begun",
	  "  --undo              serve again\n"
	  "  --wait              until nothing is under way (--deadline bounds it)\n", true },
	{ "undrain", cmd_undrain, "", "serve again", NULL, true },
	{ "quota", cmd_quota, "show TENANT [LIMIT] | set|line TENANT LIMIT=VALUE...",
	  "a tenant's limits: where each comes from, and setting them",
	  "  VALUE: a number, bytes with K, M, G or T, none, or default: takes back what was set\n"
	  "  --runtime           until the daemon ends; else saved\n"
	  "  line prints what to type for it with bpftool, as root, and sets nothing\n", true },
	{ "tenant", cmd_tenant, "[ls | purge NAME]", "who holds objects; throw away what one left",
	  "  purge: -y, --yes    do not ask\n", true },
	{ "connections", cmd_connections, "", "show who is connected", NULL, true },
	{ "why", cmd_why, "[NAMESPACE] KEY", "say what became of a key", NULL, true },
	{ "reload", cmd_reload, "", "read the configuration again", NULL, true },
	{ "replay", cmd_replay, "TRACE", "replay a trace of requests with real bytes",
	  "  --mode exact|engine        the reference's rule, or as an inference engine does it\n"
	  "  --order first-last|last-first   in which exact mode touches a request's blocks\n"
	  "  --block-bytes SIZE         of each value (4K)\n"
	  "  --requests N               stop after N requests\n"
	  "  --inflight N               engine: requests in flight (4)\n"
	  "  --lease TIME               engine: lease of a request's prefix (10s)\n"
	  "  --flush                    empty the namespace first\n"
	  "  --in-process               a node of this process, the trace's time as its clock\n"
	  "     --pages N --page-bytes SIZE --shards N --policy NAME --reserve SIZE --seed N\n"
	  "  --tokens-per-block N       of the trace (512)\n"
	  "  --model-linear NS --model-quadratic NS   prefill of n tokens after p takes\n"
	  "                             linear n + quadratic n (p + n/2); 47300 and 2.1\n", false },
	{ "trace-gen", cmd_trace_gen, "", "make a conversation-like trace",
	  "  --requests N        how long (12031)\n"
	  "  --seed S            another trace for each number (1)\n"
	  "  -o, --output FILE   where it goes; standard output otherwise\n", false },
	{ "bench", cmd_bench, "get|put|exists", "measure latency and throughput",
	  "  --size SIZE         of a value (64K)\n"
	  "  --batch N           keys in a batch (1)\n"
	  "  --depth N           batches in flight per connection (1)\n"
	  "  --buffers N         for each batch in flight, used in turn (1)\n"
	  "  --connections N     each with its thread (1)\n"
	  "  --keys N            working set (enough for 256 MiB)\n"
	  "  --duration TIME     of one run (5s)\n"
	  "  --count N           batches of one run, instead\n"
	  "  --warmup TIME       not counted, before each run (500ms)\n"
	  "  --rate N            batches a second in all, open loop: latency counts from the\n"
	  "                      moment a batch was due\n"
	  "  --repeat N          runs; medians and their spread are told (1)\n"
	  "  --checks on|off     get: whether the library verifies; put, off: checks are\n"
	  "                      computed before the clock starts\n"
	  "  --region            registered memory\n"
	  "  --spin              no progress thread: each connection's own thread polls\n"
	  "  --verify            get: compare every byte with what was put\n"
	  "  --keep              leave the objects behind\n"
	  "  --seed N            of the choice of keys (1)\n", false },
	{ "help", cmd_help, "[COMMAND]", "say how to use this", NULL, false },
};

const struct ctl_command *ctl_command_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}

int ctl_help(const struct ctl_command *command)
{
	printf("larderctl %s%s%s\n  %s\n", command->name, *command->arguments ? " " : "",
	       command->arguments, command->summary);
	if (command->options)
		printf("\n%s", command->options);
	puts("\nSee larderctl(1); 'larderctl help' lists the options that every command takes.");
	return output_end();
}

static int help_all(void)
{
	puts("larderctl [OPTION...] COMMAND [ARGUMENT...]\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		printf("  %-10s %s\n", commands[i].name, commands[i].summary);
	puts("\n"
	     "  --url URL           LARDER_URL: larder://HOST (picks), tcp://HOST:16180,\n"
	     "                      shm:///run/larder/larder.sock\n"
	     "  --tenant NAME       LARDER_TENANT\n"
	     "  --secret-file FILE  LARDER_SECRET_FILE\n"
	     "  --ns NAME           LARDER_NS: namespace\n"
	     "  --deadline MS       of each operation\n"
	     "  --json              one JSON document instead of text\n"
	     "  --control PATH      LARDER_CONTROL: the daemon's control socket\n"
	     "  -H, --host HOST     administration commands: there, over ssh\n"
	     "  -v, --verbose       what the library has to say\n"
	     "  -h, --help          of a command\n"
	     "  --version\n\n"
	     "Exit status: 0 done, 1 not found, 2 usage, 3 refused, 4 unreachable, 5 failed.");
	return output_end();
}

int cmd_help(struct ctl *ctl, int argc, char **argv)
{
	const struct ctl_command *command;

	if (ctl_getopt(ctl, argc, argv, "", NULL) != -1)
		return CTL_USAGE;
	if (optind == argc)
		return help_all();
	command = ctl_command_find(argv[optind]);
	if (!command)
		return ctl_usage(NULL, "no such command: %s", argv[optind]);
	return ctl_help(command);
}

static int commands_globals(struct ctl *ctl, int argc, char **argv)
{
	int c;

	while ((c = ctl_getopt_global(ctl, argc, argv)) != -1) {
		if (c == 'V') {
			puts("larderctl " LARDER_VERSION);
			return output_end();
		}
		if (c != 'H')
			return CTL_USAGE;
		ctl->host = optarg;
	}
	return -1;
}

int ctl_main(int argc, char **argv)
{
	const struct ctl_command *command;
	struct ctl ctl;
	int r;

	ctl_init(&ctl);
	r = commands_globals(&ctl, argc, argv);
	if (r >= 0)
		return r;
	if (ctl.help)
		return help_all();
	if (optind == argc)
		return ctl_usage(NULL, "no command");
	argc -= optind;
	argv += optind;
	command = ctl_command_find(argv[0]);
	if (!command)
		return ctl_usage(NULL, "no such command: %s", argv[0]);
	r = ctl_take_host(&ctl, &argc, argv);
	if (r)
		return r;
	if (ctl.host && !command->admin)
		return ctl_usage(command->name, "not with -H: data commands take --url");
	if (ctl.host)
		return remote_exec(&ctl, argc, argv);
	optind = 0;	/* getopt begins anew */
	return command->run(&ctl, argc, argv);
}
