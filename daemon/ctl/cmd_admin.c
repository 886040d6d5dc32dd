/* SPDX-License-Identifier: Apache-2.0 */
/* drain, undrain, reload: through the control socket. */
#include <stdio.h>
#include <time.h>

#include "control_protocol.h"
#include "ctl/control.h"
#include "ctl/output.h"
#include "ctl/progress.h"

#define DRAIN_POLL_MS 100
#define DRAIN_WAIT_MS 30000u

/* Admin commands without options of their own. */
static int admin_plain(struct ctl *ctl, int argc, char **argv)
{
	if (ctl_getopt(ctl, argc, argv, "", NULL) != -1)
		return CTL_USAGE;
	if (!ctl->help && optind < argc)
		return ctl_usage(argv[0], "takes no argument");
	return CTL_DONE;
}

static int admin_do(struct ctl *ctl, const char *what, const char *cmd, const char *sentence)
{
	json_t *result;
	int r = control_ask(ctl, what, cmd, &result, NULL);

	if (r)
		return r;
	if (ctl->json)
		return output_json(result);
	json_decref(result);
	puts(sentence);
	return output_end();
}

/* 0 = drained, else the exit code. */
static int drain_wait(struct ctl *ctl)
{
	uint32_t ms = ctl->deadline_ms ? ctl->deadline_ms : DRAIN_WAIT_MS;
	uint64_t end = util_now_ns() + ms * NSEC_PER_MSEC;
	const struct timespec pause = { 0, DRAIN_POLL_MS * (long)NSEC_PER_MSEC };

	for (;;) {
		bool drained;
		json_t *stats;
		int r = control_ask(ctl, "drain", LARDER_CONTROL_STATS, &stats, NULL);

		if (r)
			return r;
		drained = json_is_true(json_object_get(stats, "drained"));
		json_decref(stats);
		if (drained)
			return CTL_DONE;
		if (util_now_ns() >= end)
			return ctl_fail(CTL_FAILED, "drain: not finished in time (DEADLINE)");
		(void)nanosleep(&pause, NULL);	/* an early end only asks sooner */
	}
}

int cmd_drain(struct ctl *ctl, int argc, char **argv)
{
	static const struct option own[] = {
		{ "undo", no_argument, NULL, 256 }, { "wait", no_argument, NULL, 257 }, { 0 },
	};
	bool undo = false, wait = false;
	struct progress_watch watch;
	int c, r;

	while ((c = ctl_getopt(ctl, argc, argv, "", own)) != -1) {
		if (c == '?')
			return CTL_USAGE;
		undo |= c == 256;
		wait |= c == 257;
	}
	if (ctl->help)
		return ctl_help(ctl_command_find("drain"));
	if (optind < argc)
		return ctl_usage("drain", "takes no argument");
	if (undo && wait)
		return ctl_usage("drain", "--undo and --wait exclude each other");
	if (undo)
		return admin_do(ctl, "drain --undo", LARDER_CONTROL_UNDRAIN, "serving again");
	if (wait) {
		json_t *result;

		r = control_ask(ctl, "drain", LARDER_CONTROL_DRAIN, &result, NULL);
		if (r)
			return r;
		json_decref(result);
		progress_watch_begin(&watch, "drain");
		r = drain_wait(ctl);
		progress_watch_end(&watch);
		if (r)
			return r;
	}
	return admin_do(ctl, "drain", LARDER_CONTROL_DRAIN, wait ? "drained" : "draining");
}

int cmd_undrain(struct ctl *ctl, int argc, char **argv)
{
	int r = admin_plain(ctl, argc, argv);

	if (r || ctl->help)
		return r ? r : ctl_help(ctl_command_find("undrain"));
	return admin_do(ctl, "undrain", LARDER_CONTROL_UNDRAIN, "serving again");
}

int cmd_reload(struct ctl *ctl, int argc, char **argv)
{
	int r = admin_plain(ctl, argc, argv);

	if (r || ctl->help)
		return r ? r : ctl_help(ctl_command_find("reload"));
	return admin_do(ctl, "reload", LARDER_CONTROL_RELOAD, "reloaded");
}
