/* SPDX-License-Identifier: Apache-2.0 */
/* The node's figures as JSON, for the control socket. Names end with their unit. */
#include "daemon.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <larder/key.h>
#include <larder/status.h>

#include "stats.h"

static json_t *stats_memory(const struct larder_node_stats *s)
{
	json_t *o = json_object();

	stats_add(o, "arena_bytes", s->memory.arena_bytes);
	stats_add(o, "records_bytes", s->memory.records_bytes);
	stats_add(o, "page_size_bytes", s->memory.page_size_bytes);
	stats_add(o, "pages", s->memory.pages);
	stats_add(o, "pages_free", s->pages_free);
	stats_add(o, "records", s->memory.records);
	stats_add(o, "records_free", s->records_free);
	stats_add(o, "metadata_bytes_per_object", s->bytes_per_object);
	(void)json_object_set_new(o, "hugepages", json_boolean(s->memory.hugepages));
	return o;
}

static json_t *stats_objects(const struct larder_node_stats *s)
{
	json_t *o = json_object();

	stats_add(o, "objects", s->objects);
	stats_add(o, "value_bytes", s->value_bytes);
	stats_add(o, "evictions", s->evictions);
	stats_add(o, "leases", s->leases);
	stats_add(o, "references", s->references);
	stats_add(o, "filling", s->filling);
	stats_add(o, "waiting", s->parked);
	stats_add(o, "rebuilt", s->rebuilt_objects);
	stats_add(o, "dropped_records", s->dropped_records);
	stats_add(o, "quarantined", s->quarantined);
	stats_add(o, "scrubbed_bytes", s->scrubbed_bytes);
	stats_add(o, "scrub_passes", s->scrub_passes);
	return o;
}

static json_t *stats_connections(const struct larder_node_stats *s)
{
	json_t *o = json_object();

	stats_add(o, "connections", s->connections);
	stats_add(o, "unauthenticated", s->unauthenticated);
	stats_add(o, "requests", s->requests);
	stats_add(o, "regions", s->regions);
	stats_add(o, "region_bytes", s->region_bytes);
	return o;
}

/* One member of a request, spelled like a key. Its length, or -EINVAL. */
static int stats_spelled(const json_t *request, const char *member, void *bytes, size_t size)
{
	const char *text = json_string_value(json_object_get(request, member));
	bool is_hash = false;
	int n = text ? larder_key_parse(text, bytes, size, &is_hash) : -EINVAL;

	return is_hash ? -EINVAL : n;
}

json_t *daemon_why(struct daemon *d, const json_t *request, int *ret_status)
{
	const char *tenant = json_string_value(json_object_get(request, "tenant"));
	uint8_t ns[LARDER_KEY_MAX], key[LARDER_KEY_MAX];
	int ns_len = stats_spelled(request, "ns", ns, sizeof(ns));
	int key_len = stats_spelled(request, "key", key, sizeof(key)), r;
	struct larder_node_why w;
	json_t *o;

	*ret_status = LARDER_BAD_REQUEST;
	if (!tenant || ns_len < 0 || key_len < 0)
		return NULL;
	r = larder_node_why(d->node, tenant, ns, (size_t)ns_len, key, (size_t)key_len, &w);
	if (r == -ENOENT)
		*ret_status = LARDER_NOT_FOUND;
	if (r < 0)
		return NULL;
	o = json_pack("{s:s, s:I, s:I}", "fate", w.fate, "record_ms", (json_int_t)w.record_ms,
		      "record_entries", (json_int_t)w.record_entries);
	if (strcmp(w.fate, "evicted") == 0) {
		stats_add(o, "ago_ms", w.ago_ms);
		stats_add(o, "age_ms", w.age_ms);
		if (w.room_for[0])
			(void)json_object_set_new(o, "room_for", json_string(w.room_for));
	} else if (strcmp(w.fate, "refused") == 0) {
		stats_add(o, "ago_ms", w.ago_ms);
		(void)json_object_set_new(o, "status",
					  json_string(larder_status_name(w.status)));
	}
	*ret_status = o ? LARDER_OK : LARDER_INTERNAL;
	return o;
}

static void stats_addresses(char *text, size_t size, const char *scheme, const char *addresses)
{
	char list[1024], *save = NULL;

	(void)snprintf(list, sizeof(list), "%s", addresses);
	for (char *a = strtok_r(list, " \t", &save); a; a = strtok_r(NULL, " \t", &save)) {
		size_t len = strlen(text);

		(void)snprintf(text + len, size - len, "%s%s://%s", len ? "," : "", scheme, a);
	}
}

/* Where it listens, by commas: "tcp://127.0.0.1:16180,shm:///run/larder/larder.sock". */
static json_t *stats_listen(const struct daemon *d)
{
	const char *shm = config_string(&d->config, CONFIG_listen_shm);
	char text[2560] = "";

	stats_addresses(text, sizeof(text), "tcp", config_string(&d->config, CONFIG_listen_tcp));
	stats_addresses(text, sizeof(text), "resp", config_string(&d->config, CONFIG_listen_resp));
	if (shm[0]) {
		size_t len = strlen(text);

		(void)snprintf(text + len, sizeof(text) - len, "%sshm://%s", len ? "," : "", shm);
	}
	return json_string(text);
}

json_t *daemon_stats(struct daemon *d)
{
	struct larder_node_stats s;

	larder_node_get_stats(d->node, &s);
	return json_pack("{s:s, s:I, s:b, s:b, s:o, s:o, s:o, s:o, s:o}", "version", LARDER_VERSION,
			 "uptime_ms", (json_int_t)s.uptime_ms, "draining", s.draining, "drained",
			 larder_node_is_drained(d->node), "listen", stats_listen(d), "memory",
			 stats_memory(&s), "objects", stats_objects(&s), "connections",
			 stats_connections(&s), "tenants", daemon_stats_tenants(d));
}
