/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be said of the settings before anything is begun: by --check, and by a start before it
 * takes its memory. Each looks as the start itself will, and changes nothing.
 */
#include "daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "say.h"

static int check_address(struct daemon *d, enum config_id id, const char *scheme,
			 const char *address)
{
	const struct config_option *o = &config_options[id];
	const char *why = NULL;
	char url[4200];

	if (snprintf(url, sizeof(url), "%s://%s", scheme, address) < (int)sizeof(url) &&
	    larder_node_listen_check(url, &why) == 0)
		return LARDERD_EXIT_OK;
	say(&d->log, LARDER_LOG_ERR, "%s: %s.%s: \"%s\" can not be listened on: %s",
	    d->config.value[id].origin, o->section, o->key, address, why ? why : "too long");
	return LARDERD_EXIT_LISTEN;
}

static int check_addresses(struct daemon *d, enum config_id id, const char *scheme)
{
	char *list = strdup(config_string(&d->config, id)), *save = NULL;
	int r = LARDERD_EXIT_OK;

	if (!list) {
		say(&d->log, LARDER_LOG_ERR, "no memory to look at listen.%s", scheme);
		return LARDERD_EXIT_INTERNAL;
	}
	for (char *a = strtok_r(list, " \t", &save); a && !r; a = strtok_r(NULL, " \t", &save))
		r = check_address(d, id, scheme, a);
	free(list);
	return r;
}

static int check_listeners(struct daemon *d)
{
	const char *shm = config_string(&d->config, CONFIG_listen_shm);
	const char *control = config_string(&d->config, CONFIG_control_socket);
	int r = check_addresses(d, CONFIG_listen_tcp, "tcp");

	if (!r)
		r = check_addresses(d, CONFIG_listen_rdma, "rdma");
	if (!r)
		r = check_addresses(d, CONFIG_listen_resp, "resp");
	if (!r && shm[0])
		r = check_address(d, CONFIG_listen_shm, "shm", shm);
	if (!r && strlen(control) >= sizeof(((struct sockaddr_un *)0)->sun_path)) {
		say(&d->log, LARDER_LOG_ERR, "%s: control.socket: the path of a unix socket has at "
		    "most %zu bytes", d->config.value[CONFIG_control_socket].origin,
		    sizeof(((struct sockaddr_un *)0)->sun_path) - 1);
		r = LARDERD_EXIT_LISTEN;
	}
	return r;
}

int daemon_check(struct daemon *d)
{
	struct larder_memory_config m;
	int r = check_listeners(d);

	if (r)
		return r;
	daemon_memory_config(d, &m);
	return larder_memory_check(&m) < 0 ? LARDERD_EXIT_MEMORY : LARDERD_EXIT_OK;
}

int daemon_check_tenants(struct daemon *d, int *ret_n)
{
	const struct config *c = &d->config;
	char why[1024] = "";
	struct tenants *saved;
	int r = tenants_open(NULL, config_string(c, CONFIG_state_dir), "", &d->log, &saved, why,
			     sizeof(why));

	if (r) {
		say(&d->log, LARDER_LOG_ERR, "%s", why);
		return LARDERD_EXIT_STATE;
	}
	tenants_free(saved);
	r = tenants_check(config_string(c, CONFIG_tenants_dir), why, sizeof(why));
	if (r < 0) {
		say(&d->log, LARDER_LOG_ERR, "%s", why);
		return LARDERD_EXIT_TENANTS;
	}
	*ret_n = r;
	return LARDERD_EXIT_OK;
}
