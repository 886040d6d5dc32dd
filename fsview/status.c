/* SPDX-License-Identifier: Apache-2.0 */
#include "status.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STATUS_COLUMN 28	/* where values begin in the text */

/* A member that memory lacks for is missed by who reads, and nothing else. */
static void status_add(json_t *o, const char *name, uint64_t v)
{
	(void)json_object_set_new(o, name, json_integer((json_int_t)v));
}

static void status_add_text(json_t *o, const char *name, const char *text, size_t max)
{
	json_t *value = json_stringn(text, strnlen(text, max));
	char *spelled;

	if (!value) {	/* no UTF-8: as keys are spelled */
		spelled = malloc(LARDER_KEY_TEXT_SIZE);
		if (spelled && larder_key_format(text, strnlen(text, max), spelled,
						 LARDER_KEY_TEXT_SIZE) > 0)
			value = json_string(spelled);
		free(spelled);
	}
	(void)json_object_set_new(o, name, value);
}

/* --- the files ------------------------------------------------------------------------------- */

static bool status_tenant_name(void *user, const char *name)
{
	(void)json_array_append_new(user, json_string(name));
	return true;
}

static int status_node(const struct status_source *s, json_t *o)
{
	struct ledger_node n;
	json_t *memory = json_object(), *tenants = json_array();
	struct fetch_info info;
	uint64_t now = s->clock->wall_ms();
	int r = ledger_node(s->ledger, &n);

	fetch_get_info(s->fetch, &info);
	status_add_text(o, "version", n.version, sizeof(n.version));
	if (n.section.start_time_ms && now > n.section.start_time_ms)
		status_add(o, "uptime_ms", now - n.section.start_time_ms);
	(void)json_object_set_new(o, "draining", json_boolean(n.section.draining));
	status_add_text(o, "transports", n.listen, sizeof(n.listen));
	status_add_text(o, "view_url", info.url, sizeof(info.url));
	status_add(memory, "size_bytes", n.section.pages * n.section.page_size_bytes);
	status_add(memory, "free_bytes", n.section.pages_free * n.section.page_size_bytes);
	status_add(memory, "page_size_bytes", n.section.page_size_bytes);
	status_add(memory, "records", n.section.records);
	status_add(memory, "records_free", n.section.records_free);
	(void)json_object_set_new(memory, "hugepages", json_boolean(n.hugepages));
	(void)json_object_set_new(o, "memory", memory);
	status_add(o, "objects", n.section.objects);
	status_add(o, "connections", n.section.connections);
	status_add(o, "evictions", n.section.evictions);
	status_add(o, "quarantined", n.section.quarantined);
	if (!r)
		r = ledger_tenants(s->ledger, status_tenant_name, tenants);
	(void)json_object_set_new(o, "tenants", tenants);
	return r;
}

static int status_usage(const struct status_source *s, const struct tenant *t, json_t *o)
{
	struct larder_usage u;
	struct larder_gauges g;
	int r = ledger_tenant(s->ledger, t->name, &u, &g);
	uint64_t refused = 0;
	json_t *by = json_object();

	for (unsigned i = 0; i < LARDER_LIMITS; i++) {
		refused += u.refused[i];
		if (u.refused[i])
			status_add(by, larder_limit_name(i), u.refused[i]);
	}
	status_add_text(o, "tenant", t->name, sizeof(t->name));
	status_add(o, "objects", g.objects);
	status_add(o, "value_bytes", g.value_bytes);
	status_add(o, "resident_bytes", g.resident_bytes);
	status_add(o, "pinned_bytes", g.pinned_bytes);
	status_add(o, "leased_bytes", g.leased_bytes);
	status_add(o, "leases", g.leases);
	status_add(o, "namespaces", g.namespaces);
	status_add(o, "connections", g.connections);
	status_add(o, "gets", u.ops[LARDER_OP_GET]);
	status_add(o, "get_hits", u.get_hits);
	status_add(o, "get_hit_bytes", u.get_hit_bytes);
	status_add(o, "puts", u.ops[LARDER_OP_PUT] + u.ops[LARDER_OP_PUT_COMMIT]);
	status_add(o, "puts_new", u.put_new);
	status_add(o, "read_bytes", u.bytes[LARDER_CAUSE_CLIENT_READ]);
	status_add(o, "written_bytes", u.bytes[LARDER_CAUSE_CLIENT_WRITE]);
	status_add(o, "evicted_objects", u.evicted_objects);
	status_add(o, "evicted_bytes", u.evicted_bytes);
	status_add(o, "expired_objects", u.expired_objects);
	status_add(o, "checksum_errors", u.checksum_errors);
	status_add(o, "no_space", u.status[LARDER_NO_SPACE]);
	status_add(o, "refused", refused);
	(void)json_object_set_new(o, "refused_by", by);
	return r;
}

static int status_limits(const struct status_source *s, const struct tenant *t, bool json,
			 json_t *o)
{
	uint64_t set[LARDER_LIMITS_MAX], effective[LARDER_LIMITS_MAX];
	int r = ledger_limits(s->ledger, t->name, set, effective);

	for (unsigned i = 0; i < LARDER_LIMITS; i++) {
		char a[LARDER_LIMIT_TEXT], b[LARDER_LIMIT_TEXT];
		json_t *v;

		if (json)
			v = json_pack("{s:I, s:I}", "set", (json_int_t)set[i], "effective",
				      (json_int_t)effective[i]);
		else if (set[i] == effective[i])
			v = json_string(larder_limit_format(i, set[i], a));
		else
			v = json_sprintf("%s (in force: %s)", larder_limit_format(i, set[i], a),
					 larder_limit_format(i, effective[i], b));
		(void)json_object_set_new(o, larder_limit_name(i), v);
	}
	return r;
}

/* The histogram is the node's: it does not tell tenants apart. */
static int status_latency(const struct status_source *s, json_t *o)
{
	static const char *const names[LARDER_LATENCY_OPS] = { "get", "put", "exists", "other" };
	struct larder_latency *l = malloc(sizeof(*l));
	int r = l ? ledger_latency(s->ledger, l) : -ENOMEM;

	(void)json_object_set_new(o, "of", json_string("the whole node, service time"));
	for (unsigned i = 0; !r && i < LARDER_LATENCY_OPS; i++) {
		json_t *op = json_object();
		uint64_t n = 0;

		for (unsigned b = 0; b < LARDER_LATENCY_BUCKETS; b++)
			n += l->buckets[i][b];
		status_add(op, "count", n);
		status_add(op, "mean_ns", n ? l->sum_ns[i] / n : 0);
		status_add(op, "p50_ns", ledger_quantile(l->buckets[i], 0.5));
		status_add(op, "p90_ns", ledger_quantile(l->buckets[i], 0.9));
		status_add(op, "p99_ns", ledger_quantile(l->buckets[i], 0.99));
		status_add(op, "p999_ns", ledger_quantile(l->buckets[i], 0.999));
		(void)json_object_set_new(o, names[i], op);
	}
	free(l);
	return r;
}

static int status_descriptor(const struct status_source *s, const struct space *space, json_t *o)
{
	struct larder_descriptor d = { .flags = 0 };
	int r = fetch_descriptor(s->fetch, space, &d);

	if (r)
		return r;
	status_add_text(o, "model", d.model, sizeof(d.model));
	status_add_text(o, "revision", d.revision, sizeof(d.revision));
	status_add_text(o, "weights_digest", d.weights_digest, sizeof(d.weights_digest));
	status_add_text(o, "adapter", d.adapter, sizeof(d.adapter));
	status_add_text(o, "position", d.position, sizeof(d.position));
	status_add_text(o, "dtype", d.dtype, sizeof(d.dtype));
	status_add_text(o, "layout", d.layout, sizeof(d.layout));
	status_add_text(o, "hash_scheme", d.hash_scheme, sizeof(d.hash_scheme));
	status_add(o, "hash_seed", d.hash_seed);
	status_add(o, "block_size_bytes", d.bytes_per_block);
	status_add(o, "tokens_per_block", d.tokens_per_block);
	status_add(o, "tp", d.tp);
	status_add(o, "pp", d.pp);
	(void)json_object_set_new(o, "short_last",
				  json_boolean(d.flags & LARDER_DESCRIPTOR_SHORT_LAST));
	return 0;
}

static int status_stats(const struct space *space, json_t *o)
{
	const char *name = strchr(space->listed, ':') + 1;

	status_add_text(o, "namespace", name, strlen(name));
	status_add(o, "id", space->id);
	status_add(o, "objects", space->objects);
	status_add(o, "value_bytes", space->bytes);
	status_add(o, "created_ms", space->created_ms);
	(void)json_object_set_new(o, "admission",
				  json_string(space->flags & LARDER_NS_SECOND_TOUCH ? "second-touch"
										    : "all"));
	return 0;
}

/* --- as text --------------------------------------------------------------------------------- */

static bool status_ends(const char *name, const char *with)
{
	size_t a = strlen(name), b = strlen(with);

	return a >= b && !strcmp(name + a - b, with);
}

static void status_bytes(uint64_t v, char *text, size_t size)
{
	static const char *const units[] = { "KiB", "MiB", "GiB", "TiB" };
	double scaled = (double)v / 1024;
	unsigned u = 0;

	for (; scaled >= 1024 && u < 3; u++)
		scaled /= 1024;
	(void)snprintf(text, size, v < 1024 ? "%" PRIu64 : "%" PRIu64 " (%.1f %s)", v, scaled,
		       units[u]);
}

static void status_duration(uint64_t ns, char *text, size_t size)
{
	if (ns < 10000)
		(void)snprintf(text, size, "%" PRIu64 " ns", ns);
	else if (ns < 10000000)
		(void)snprintf(text, size, "%.1f us", (double)ns / 1e3);
	else if (ns < 10000000000)
		(void)snprintf(text, size, "%.1f ms", (double)ns / 1e6);
	else
		(void)snprintf(text, size, "%.1f s", (double)ns / 1e9);
}

static void status_moment(uint64_t ms, char *text, size_t size)
{
	time_t seconds = (time_t)(ms / 1000);
	struct tm tm;

	if (!gmtime_r(&seconds, &tm) || !strftime(text, size, "%F %TZ", &tm))
		(void)snprintf(text, size, "%" PRIu64, ms);
}

static void status_number(const char *name, uint64_t v, char *text, size_t size)
{
	if (status_ends(name, "_bytes"))
		status_bytes(v, text, size);
	else if (status_ends(name, "created_ms"))
		status_moment(v, text, size);
	else if (status_ends(name, "_ms"))
		status_duration(v * NSEC_PER_MSEC, text, size);
	else if (status_ends(name, "_ns"))
		status_duration(v, text, size);
	else
		(void)snprintf(text, size, "%" PRIu64, v);
}

/* One line; @name without the unit that the value tells. */
static void status_line(FILE *f, const char *before, const char *name, const char *text)
{
	size_t len = strlen(name);
	int width = STATUS_COLUMN - (int)strlen(before);

	if (status_ends(name, "_ms") || status_ends(name, "_ns"))
		len -= 3;
	fprintf(f, "%s%-*.*s %s\n", before, width, (int)len, name, text);
}

static void status_print(FILE *f, const char *before, json_t *o)
{
	const char *name;
	json_t *v, *each;
	size_t i;

	json_object_foreach(o, name, v) {
		char text[256] = "";

		if (json_is_object(v)) {
			(void)snprintf(text, sizeof(text), "%s%s ", before, name);
			status_print(f, text, v);
			continue;
		}
		json_array_foreach(v, i, each)
			status_line(f, before, name, json_string_value(each));
		if (json_is_array(v))
			continue;
		if (json_is_integer(v))
			status_number(name, (uint64_t)json_integer_value(v), text, sizeof(text));
		else if (json_is_boolean(v))
			strcpy(text, json_is_true(v) ? "yes" : "no");
		else if (json_is_string(v))
			(void)snprintf(text, sizeof(text), "%s", json_string_value(v));
		status_line(f, before, name, text[0] ? text : "-");
	}
}

static int status_write(json_t *o, bool json, char **ret, size_t *ret_len)
{
	FILE *f = open_memstream(ret, ret_len);

	if (!f)
		return -errno;
	if (!json)
		status_print(f, "", o);
	else if (json_dumpf(o, f, JSON_INDENT(2)) == 0)
		(void)fputc('\n', f);
	if (ferror(f) || fclose(f)) {
		free(*ret);
		return -ENOMEM;
	}
	return 0;
}

int status_make(const struct status_source *s, enum tree_status which, const struct tenant *tenant,
		const struct space *space, char **ret, size_t *ret_len)
{
	bool json = TREE_STATUS_IS_JSON(which);
	json_t *o = json_object();
	int r = -EINVAL;

	switch (which & ~1u) {
	case TREE_STATUS_NODE:
		r = status_node(s, o);
		break;
	case TREE_STATUS_USAGE:
		r = status_usage(s, tenant, o);
		break;
	case TREE_STATUS_LIMITS:
		r = status_limits(s, tenant, json, o);
		break;
	case TREE_STATUS_LATENCY:
		r = status_latency(s, o);
		break;
	case TREE_STATUS_DESCRIPTOR:
		r = status_descriptor(s, space, o);
		break;
	case TREE_STATUS_STATS:
		r = status_stats(space, o);
		break;
	}
	if (!r)
		r = status_write(o, json, ret, ret_len);
	json_decref(o);
	return r;
}
