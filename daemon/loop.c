/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control thread: signals, control socket, drain. SIGTERM and SIGINT drain within
 * drain.timeout and stop; a second one stops at once. SIGHUP reloads.
 */
#include "daemon.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "bus.h"
#include "notify.h"
#include "say.h"

#define LOOP_DRAIN_STEP_US 10000ull
#define LOOP_WATCH_US 10000000ull
#define LOOP_MAP_US 250000ull	/* limits through the map: in force within a second */

static int loop_drain_step(sd_event_source *s, uint64_t usec, void *user)
{
	struct daemon *d = user;

	if (larder_node_is_drained(d->node))
		return sd_event_exit(d->event, LARDERD_EXIT_OK);
	if (usec >= d->drain_deadline_us) {
		say(&d->log, LARDER_LOG_WARNING,
		    "drain.timeout of %s ms is over: what is still under way is cut",
		    config_string(&d->config, CONFIG_drain_timeout));
		return sd_event_exit(d->event, LARDERD_EXIT_CUT);
	}
	(void)sd_event_source_set_time_relative(s, LOOP_DRAIN_STEP_US);
	return sd_event_source_set_enabled(s, SD_EVENT_ONESHOT);
}

static int loop_stop(sd_event_source *s, const struct signalfd_siginfo *si, void *user)
{
	struct daemon *d = user;
	uint64_t now;
	int r;

	if (d->stopping)
		return sd_event_exit(d->event, larder_node_is_drained(d->node) ? LARDERD_EXIT_OK
									       : LARDERD_EXIT_CUT);
	d->stopping = true;
	notify_stopping(d->notify, config_number(&d->config, CONFIG_drain_timeout));
	bus_changed(d->bus);
	say(&d->log, LARDER_LOG_INFO, "draining, then stopping");
	larder_node_drain(d->node, true);
	r = sd_event_now(d->event, CLOCK_MONOTONIC, &now);
	if (r < 0)
		return r;
	d->drain_deadline_us = now + config_number(&d->config, CONFIG_drain_timeout) * 1000;
	r = sd_event_add_time_relative(d->event, &d->drain_timer, CLOCK_MONOTONIC, 0, 1000,
				       loop_drain_step, d);
	if (r >= 0)
		return 0;
	/* nobody would look whether it is drained: better cut than never stopped */
	say(&d->log, LARDER_LOG_ERR, "can not wait for the drain, stopping at once: %s",
	    strerror(-r));
	return sd_event_exit(d->event, LARDERD_EXIT_CUT);
}

static int loop_reload(sd_event_source *s, const struct signalfd_siginfo *si, void *user)
{
	struct daemon *d = user;
	char error[1536] = "";

	/* the line was logged already; the old settings stay */
	(void)daemon_reload(d, error, sizeof(error));
	return 0;
}

static int loop_reactor_failed(sd_event_source *s, int fd, uint32_t events, void *user)
{
	struct daemon *d = user;

	return sd_event_exit(d->event, LARDERD_EXIT_INTERNAL);
}

static int loop_watch(sd_event_source *s, uint64_t usec, void *user)
{
	daemon_watch(user);
	(void)sd_event_source_set_time_relative(s, LOOP_WATCH_US);
	return sd_event_source_set_enabled(s, SD_EVENT_ONESHOT);
}

/* Nothing tells when somebody writes into a BPF map. */
static int loop_map(sd_event_source *s, uint64_t usec, void *user)
{
	struct daemon *d = user;

	tenants_look_at_map(d->tenants);
	larder_node_ledger_refresh(d->node);
	(void)sd_event_source_set_time_relative(s, LOOP_MAP_US);
	return sd_event_source_set_enabled(s, SD_EVENT_ONESHOT);
}

int daemon_reload(struct daemon *d, char *error, size_t size)
{
	struct config new;
	int r;

	notify_reloading();
	r = daemon_read_config(d->arguments, &new);
	if (r) {
		(void)snprintf(error, size, "%s", new.error);
		say(&d->log, LARDER_LOG_ERR, "reload refused, the old settings stay: %s",
		    new.error);
		goto out;
	}
	r = tenants_load(d->tenants, config_string(&new, CONFIG_tenants_dir), error, size);
	if (r < 0) {
		say(&d->log, LARDER_LOG_ERR, "reload refused, the old settings stay: %s", error);
		goto out;
	}
	r = 0;
	for (int i = 0; i < CONFIG_OPTIONS; i++) {
		struct config_value *old = &d->config.value[i];
		struct config_value *now = &new.value[i];
		const struct config_option *o = &config_options[i];

		if (strcmp(old->text, now->text) == 0)
			continue;
		say(&d->log, o->live ? LARDER_LOG_INFO : LARDER_LOG_WARNING,
		    o->live ? "%s.%s: %s instead of %s"
			    : "%s.%s: %s takes effect at the next start, %s until then",
		    o->section, o->key, now->text, old->text);
		if (o->live) {
			struct config_value swap = *old;

			*old = *now;
			*now = swap;
		}
	}
	d->log.level = config_log_level(config_string(&d->config, CONFIG_log_level));
	larder_node_set_scrub(d->node, config_number(&d->config, CONFIG_engine_scrub));
	if (d->control)
		(void)control_set_groups(d->control,
					 config_string(&d->config, CONFIG_control_stats_group),
					 config_string(&d->config, CONFIG_control_admin_group));
	say(&d->log, LARDER_LOG_INFO, "reloaded");
out:
	config_done(&new);
	notify_ready(d->notify);
	bus_reloaded(d->bus, r < 0 ? error : NULL);
	return r < 0 ? r : 0;
}

static int loop_sources(struct daemon *d)
{
	const char *socket = config_string(&d->config, CONFIG_control_socket);
	int r;

	if ((r = sd_event_add_signal(d->event, NULL, SIGTERM, loop_stop, d)) < 0 ||
	    (r = sd_event_add_signal(d->event, NULL, SIGINT, loop_stop, d)) < 0 ||
	    (r = sd_event_add_signal(d->event, NULL, SIGHUP, loop_reload, d)) < 0 ||
	    (r = sd_event_add_io(d->event, NULL, reactors_failed_fd(d->reactors), EPOLLIN,
				 loop_reactor_failed, d)) < 0 ||
	    (r = notify_open(d->event, d, &d->notify)) < 0 ||
	    (r = bus_open(d->event, d, &d->bus)) < 0 ||
	    (r = sd_event_add_time_relative(d->event, NULL, CLOCK_MONOTONIC, LOOP_WATCH_US, 0,
					    loop_watch, d)) < 0 ||
	    (d->bpf_maps.there &&
	     (r = sd_event_add_time_relative(d->event, NULL, CLOCK_MONOTONIC, LOOP_MAP_US, 0,
					     loop_map, d)) < 0)) {
		say(&d->log, LARDER_LOG_ERR, "the control loop can not start: %s", strerror(-r));
		return LARDERD_EXIT_INTERNAL;
	}
	if (socket[0] &&
	    control_open(d->event, socket, daemon_answer, d,
			 config_string(&d->config, CONFIG_control_stats_group),
			 config_string(&d->config, CONFIG_control_admin_group), &d->log,
			 &d->control))
		return LARDERD_EXIT_LISTEN;
	return LARDERD_EXIT_OK;
}

int daemon_loop(struct daemon *d)
{
	int r = sd_event_new(&d->event);

	if (r < 0) {
		say(&d->log, LARDER_LOG_ERR, "the control loop can not start: %s", strerror(-r));
		return LARDERD_EXIT_INTERNAL;
	}
	r = loop_sources(d);
	if (r == LARDERD_EXIT_OK) {
		tenants_started(d->tenants);
		notify_ready(d->notify);
		say(&d->log, LARDER_LOG_NOTICE, "ready");
		r = sd_event_loop(d->event);
		if (r < 0) {
			say(&d->log, LARDER_LOG_ERR, "the control loop failed: %s", strerror(-r));
			r = LARDERD_EXIT_INTERNAL;
		}
	}
	d->control = control_close(d->control);
	d->notify = notify_close(d->notify);
	d->bus = bus_close(d->bus);
	d->drain_timer = sd_event_source_unref(d->drain_timer);
	d->event = sd_event_unref(d->event);
	return r;
}
