/* SPDX-License-Identifier: Apache-2.0 */
/* Commands about tenants, their limits and their connections. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "ledger_map.h"
#include "say.h"

static const char *command_tenant(const json_t *request)
{
	return json_string_value(json_object_get(request, "tenant"));
}

/* The list, or NULL once something of it could not be made: half a list would be a lie. */
static bool tenants_add(void *user, const struct larder_node_tenant *t)
{
	json_t **all = user;
	json_t *one = json_pack("{s:s, s:b, s:I, s:I, s:I}", "name", t->name, "configured",
				!t->removed, "objects", (json_int_t)t->objects, "value_bytes",
				(json_int_t)t->value_bytes, "resident_bytes",
				(json_int_t)t->resident_bytes);

	if (json_array_append_new(*all, one) < 0) {
		json_decref(*all);
		*all = NULL;
	}
	return *all != NULL;
}

json_t *command_tenants(struct daemon *d, const json_t *request, int *ret_fd)
{
	json_t *all = json_array();

	if (all)
		larder_node_tenants(d->node, tenants_add, &all);
	return control_result(json_pack("{s:o}", "tenants", all));
}

/* What fits into a reply of LARDER_CONTROL_REPLY_MAX however long the names are. */
#define CONNECTIONS_MAX 4000u

json_t *command_connections(struct daemon *d, const json_t *request, int *ret_fd)
{
	uint32_t size = (uint32_t)config_number(&d->config, CONFIG_node_max_connections), n;
	struct larder_node_connection *at = calloc(size, sizeof(*at));
	json_t *all = json_array();

	if (!at || !all) {
		free(at);
		json_decref(all);
		return NULL;
	}
	n = larder_node_connections(d->node, at, size);
	for (uint32_t i = 0; all && i < n && i < CONNECTIONS_MAX; i++) {
		json_t *one = json_pack("{s:I, s:s, s:s, s:s, s:i, s:I}", "id",
					(json_int_t)at[i].id, "tenant", at[i].tenant, "transport",
					at[i].transport, "peer", at[i].peer, "reactor",
					(int)at[i].reactor, "age_ms", (json_int_t)at[i].age_ms);

		if (json_array_append_new(all, one) < 0) {
			json_decref(all);
			all = NULL;
		}
	}
	free(at);
	return control_result(json_pack("{s:o, s:I}", "connections", all, "more",
					(json_int_t)(n > CONNECTIONS_MAX ?
						     n - CONNECTIONS_MAX : 0)));
}

json_t *command_purge(struct daemon *d, const json_t *request, int *ret_fd)
{
	const char *tenant = command_tenant(request);
	uint64_t objects = 0, bytes = 0;
	int r;

	if (!tenant)
		return control_refusal("BAD_REQUEST", "purge: wanted \"tenant\"");
	r = larder_node_purge(d->node, tenant, &objects, &bytes);
	if (r == -ENOENT)
		return control_refusal("NOT_FOUND", "no such tenant: %s", tenant);
	if (r == -EBUSY)
		return control_refusal("BUSY", "tenant %s is configured: take its file away and "
				       "reload first", tenant);
	if (r < 0)
		return control_refusal("INTERNAL", "tenant %s can not be purged: %s", tenant,
				       strerror(-r));
	if (r == 0) {
		tenants_forget(d->tenants, tenant);
		say(&d->log, LARDER_LOG_NOTICE, "tenant %s is purged: %llu objects, %llu bytes",
		    tenant, (unsigned long long)objects, (unsigned long long)bytes);
	}
	return control_result(json_pack("{s:b, s:I, s:I}", "done", r == 0, "objects",
					(json_int_t)objects, "bytes", (json_int_t)bytes));
}

static void quota_add(json_t *o, const char *name, const struct limit_set *set, unsigned limit)
{
	if (set->given & 1u << limit)
		/* a failure leaves it out; the reply as a whole is checked */
		(void)json_object_set_new(o, name, json_integer((json_int_t)set->value[limit]));
}

/* Where its limits are written with bpftool, if they are. 0 or -ENOMEM. */
static int quota_add_map(const struct daemon *d, const char *tenant, json_t *all)
{
	int slot = ledger_map_slot(larder_node_ledger(d->node), tenant);
	char pin[4200];

	if (!d->bpf_maps.there || slot < 0)
		return 0;
	(void)snprintf(pin, sizeof(pin), "%s/%s_%u", config_string(&d->config, CONFIG_ledger_bpf),
		       larder_ledger_section_name(LARDER_SECTION_LIMITS), LARDER_LEDGER_LAYOUT);
	return json_object_set_new(all, "_map", json_pack("{s:s, s:i}", "pin", pin, "slot", slot)) ?
		       -ENOMEM : 0;
}

json_t *command_quota(struct daemon *d, const json_t *request, int *ret_fd)
{
	const char *tenant = command_tenant(request);
	struct tenants_limits limits;
	json_t *all;

	if (!tenant)
		return control_refusal("BAD_REQUEST", "quota: wanted \"tenant\"");
	if (tenants_get_limits(d->tenants, tenant, &limits))
		return control_refusal("NOT_FOUND", "no such tenant: %s", tenant);
	all = json_object();
	for (unsigned i = 0; i < LARDER_LIMITS; i++) {
		json_t *o = json_pack("{s:I}", "effective",
				      (json_int_t)limits.effective.value[i]);

		quota_add(o, "file", &limits.file, i);
		quota_add(o, "saved", &limits.saved, i);
		quota_add(o, "runtime", &limits.runtime, i);
		(void)json_object_set_new(all, larder_limit_name(i), o);
	}
	if (all && quota_add_map(d, tenant, all) < 0) {
		json_decref(all);
		all = NULL;
	}
	return control_result(all);
}

/* "limits" of a request: NULL, or the refusal. */
static json_t *quota_parse(const json_t *request, struct limit_set *set, uint32_t *drop)
{
	json_t *limits = json_object_get(request, "limits"), *value;
	const char *name;

	if (!json_is_object(limits) || json_object_size(limits) == 0)
		return control_refusal("BAD_REQUEST", "quota_set: wanted \"tenant\", and "
				       "\"limits\": a number or null for each limit's name");
	json_object_foreach(limits, name, value) {
		int limit = larder_limit_find(name);

		if (limit < 0)
			return control_refusal("BAD_REQUEST", "no such limit: %s", name);
		if (json_is_null(value)) {
			*drop |= 1u << limit;
			continue;
		}
		set->value[limit] = (uint64_t)json_integer_value(value);
		set->given |= 1u << limit;
		if (!json_is_integer(value) || json_integer_value(value) < 0 ||
		    !larder_limit_valid((unsigned)limit, set->value[limit]))
			return control_refusal("BAD_REQUEST", "%s can not be that: wanted %s", name,
					       larder_limit_allowed((unsigned)limit));
	}
	return NULL;
}

json_t *command_quota_set(struct daemon *d, const json_t *request, int *ret_fd)
{
	const char *tenant = command_tenant(request);
	bool runtime = json_is_true(json_object_get(request, "runtime"));
	struct limit_set set = { .given = 0 };
	char error[1536] = "";
	uint32_t drop = 0;
	json_t *refusal;
	int r;

	if (!tenant)
		return control_refusal("BAD_REQUEST", "quota_set: wanted \"tenant\"");
	refusal = quota_parse(request, &set, &drop);
	if (refusal)
		return refusal;
	r = tenants_set_limits(d->tenants, tenant, &set, drop, runtime, error, sizeof(error));
	if (r == 0)
		return control_result(json_object());
	return control_refusal(r == -ENOENT ? "NOT_FOUND" :
			       r == -EINVAL || r == -ENOSPC ? "BAD_REQUEST" : "IO", "%s", error);
}
