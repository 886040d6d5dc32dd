/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening: on the sockets that systemd hands in, else on the addresses of the configuration.
 *
 * A socket of systemd's (FileDescriptorName= "tcp" or "resp") outlives this process: while larderd
 * restarts, connections wait in its backlog instead of being refused, and no one else can take the
 * address. It stands for all of listen.tcp or listen.resp.
 */
#include "daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <systemd/sd-daemon.h>

#include "say.h"

/* Until the next sign of life, and to register one GiB with a device, at the slowest seen. */
#define LISTEN_EXTEND_US 60000000ull
#define LISTEN_REGISTER_GB_US 4000000ull

struct handed_in {
	const char *scheme;
	unsigned n;		/* sockets that came for it */
};

static int listen_port(const struct daemon *d, const char *scheme)
{
	if (strcmp(scheme, "tcp") == 0)
		return larder_node_port(d->node);
	return strcmp(scheme, "resp") == 0 ? larder_node_resp_port(d->node) : 0;
}

static void listen_tell(const struct daemon *d, const char *what, const char *scheme)
{
	int port = listen_port(d, scheme);

	if (port)
		say(&d->log, LARDER_LOG_INFO, "listening on %s (port %d)", what, port);
	else
		say(&d->log, LARDER_LOG_INFO, "listening on %s", what);
}

static int listen_one(struct daemon *d, const char *scheme, const char *address)
{
	char url[4200];
	int r;

	(void)snprintf(url, sizeof(url), "%s://%s", scheme, address);
	r = larder_node_listen(d->node, url);
	if (r)
		return r;
	listen_tell(d, url, scheme);
	return 0;
}

/* @must: one that can not be listened on ends the start. */
static int listen_all(struct daemon *d, enum config_id id, const char *scheme, bool must)
{
	char list[1024];
	char *save = NULL;

	if (snprintf(list, sizeof(list), "%s", config_string(&d->config, id)) >=
	    (int)sizeof(list)) {
		say(&d->log, LARDER_LOG_ERR, "listen.%s: longer than %zu bytes", scheme,
		    sizeof(list));
		return LARDERD_EXIT_LISTEN;
	}
	for (char *a = strtok_r(list, " \t", &save); a; a = strtok_r(NULL, " \t", &save))
		if (listen_one(d, scheme, a) && must)
			return LARDERD_EXIT_LISTEN;
	return LARDERD_EXIT_OK;
}

static int listen_take(struct daemon *d, struct handed_in *h, int fd, const char *name)
{
	char what[64];

	(void)snprintf(what, sizeof(what), "systemd's socket \"%s\"", name);
	if (larder_node_listen_fd(d->node, h->scheme, fd)) {
		say(&d->log, LARDER_LOG_ERR, "%s can not be listened on: it must be a TCP socket "
		    "(ListenStream=HOST:PORT, Accept=no)", what);
		return LARDERD_EXIT_LISTEN;
	}
	h->n++;
	listen_tell(d, what, h->scheme);
	return LARDERD_EXIT_OK;
}

/* Takes what systemd handed in. */
static int listen_handed_in(struct daemon *d, struct handed_in *h, size_t n_schemes)
{
	char **names = NULL;
	int n = sd_listen_fds_with_names(1, &names), r = LARDERD_EXIT_OK;

	for (int i = 0; i < n && r == LARDERD_EXIT_OK; i++) {
		size_t k = 0;

		while (k < n_schemes && strcmp(names[i], h[k].scheme) != 0)
			k++;
		if (k < n_schemes)
			r = listen_take(d, &h[k], SD_LISTEN_FDS_START + i, names[i]);
		else
			say(&d->log, LARDER_LOG_WARNING, "systemd's socket \"%s\" is not used: "
			    "FileDescriptorName= is tcp or resp", names[i]);
	}
	for (int i = 0; i < n; i++)
		free(names[i]);
	free(names);
	if (n < 0) {
		say(&d->log, LARDER_LOG_ERR, "can not take systemd's sockets: %s", strerror(-n));
		r = LARDERD_EXIT_LISTEN;
	}
	return r;
}

int daemon_listen(struct daemon *d)
{
	struct handed_in h[] = { { .scheme = "tcp" }, { .scheme = "resp" } };
	const char *shm = config_string(&d->config, CONFIG_listen_shm);
	int r = listen_handed_in(d, h, sizeof(h) / sizeof(h[0]));

	if (r == LARDERD_EXIT_OK && h[0].n == 0)
		r = listen_all(d, CONFIG_listen_tcp, "tcp", true);
	if (r == LARDERD_EXIT_OK && h[1].n == 0)
		r = listen_all(d, CONFIG_listen_resp, "resp", true);
	if (r == LARDERD_EXIT_OK && shm[0] && listen_one(d, "shm", shm))
		r = LARDERD_EXIT_LISTEN;
	if (r == LARDERD_EXIT_OK && config_string(&d->config, CONFIG_listen_rdma)[0]) {
		struct larder_memory_info info;

		larder_memory_get_info(d->memory, &info);
		(void)sd_notifyf(0, "EXTEND_TIMEOUT_USEC=%llu\nSTATUS=Registering memory",
				 LISTEN_EXTEND_US + (unsigned long long)(info.arena_bytes >> 30) *
							    LISTEN_REGISTER_GB_US);
	}
	/* last: it registers memory, and a device that is not there keeps nobody else out */
	return r ? r : listen_all(d, CONFIG_listen_rdma, "rdma", false);
}
