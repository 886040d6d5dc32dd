/* SPDX-License-Identifier: Apache-2.0 */
/*
 * top: what each tenant did between two readings of the ledger.
 *
 * The ledger is asked for anew each time: a daemon that was restarted has another one, which is
 * seen by its start time, and then one picture has no rates. On a terminal the picture is drawn
 * over itself; with --json there is one document, of one interval.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "control_protocol.h"
#include "ctl/control.h"
#include "ctl/ledger_read.h"
#include "ctl/output.h"
#include "ctl/stats.h"

struct top_tenant {
	char name[40];
	struct larder_usage usage;
	struct larder_gauges gauges;
};

struct top_reading {
	uint64_t at_ns;
	struct larder_node_section node;
	struct larder_latency latency;
	struct top_tenant tenants[LARDER_LEDGER_TENANTS];
};

/* One tenant's line: per second over the interval. */
struct top_line {
	double gets, puts, lookups, bytes_out, bytes_in, refused, evicted;
	double hit_rate;	/* of GETs; negative: there were none */
};

static volatile sig_atomic_t top_stop;

static void top_signal(int signal)
{
	top_stop = 1;
}

static int top_read(struct ctl *ctl, struct top_reading *ret)
{
	__attribute__((cleanup(ledger_reader_close))) struct ledger_reader l = LEDGER_READER_NULL;
	_cleanup_close_ int fd = -1;
	json_t *result;
	int r = control_ask(ctl, "top", LARDER_CONTROL_LEDGER, &result, &fd);

	if (r)
		return r;
	json_decref(result);
	if (fd < 0)
		return ctl_fail(CTL_FAILED, "top: the daemon gave no ledger");
	r = ledger_reader_open(fd, &l);
	if (r)
		return ctl_fail(CTL_FAILED, "top: the ledger is of another layout: %s",
				strerror(-r));
	ret->at_ns = util_now_ns();
	ledger_reader_node(&l, &ret->node);
	ledger_reader_latency(&l, &ret->latency);
	for (uint32_t i = 0; i < LARDER_LEDGER_TENANTS; i++) {
		ledger_reader_name(&l, i, ret->tenants[i].name);
		ledger_reader_usage(&l, i, &ret->tenants[i].usage);
		ledger_reader_gauges(&l, i, &ret->tenants[i].gauges);
	}
	return CTL_DONE;
}

/* The daemon, which looks all the time, knows what wants attention: it is asked. */
static int top_read_warnings(struct ctl *ctl, json_t **ret)
{
	const char *name;
	json_t *stats, *tenant, *warning;
	int r = control_ask(ctl, "top", LARDER_CONTROL_STATS, &stats, NULL);

	if (r)
		return r;
	*ret = json_object();
	json_object_foreach(json_object_get(stats, "tenants"), name, tenant) {
		warning = json_object_get(tenant, "warning");
		if (json_is_string(warning))
			json_set(*ret, name, json_incref(warning));
	}
	json_decref(stats);
	return CTL_DONE;
}

static uint64_t top_refused(const struct larder_usage *u)
{
	return u->status[LARDER_NO_SPACE] + u->status[LARDER_QUOTA] + u->status[LARDER_THROTTLED] +
	       u->status[LARDER_DRAINING];
}

static struct top_line top_compare(const struct larder_usage *a, const struct larder_usage *b,
				   double seconds)
{
	uint64_t gets = b->ops[LARDER_OP_GET] - a->ops[LARDER_OP_GET];
	uint64_t puts = b->ops[LARDER_OP_PUT] - a->ops[LARDER_OP_PUT] +
			b->ops[LARDER_OP_PUT_COMMIT] - a->ops[LARDER_OP_PUT_COMMIT];
	uint64_t out = b->bytes[LARDER_CAUSE_CLIENT_READ] - a->bytes[LARDER_CAUSE_CLIENT_READ] +
		       b->bytes[LARDER_CAUSE_VIEW] - a->bytes[LARDER_CAUSE_VIEW];
	uint64_t in = b->bytes[LARDER_CAUSE_CLIENT_WRITE] - a->bytes[LARDER_CAUSE_CLIENT_WRITE];

	return (struct top_line){
		.gets = (double)gets / seconds,
		.puts = (double)puts / seconds,
		.lookups = (double)(b->exists_keys - a->exists_keys) / seconds,
		.bytes_out = (double)out / seconds,
		.bytes_in = (double)in / seconds,
		.refused = (double)(top_refused(b) - top_refused(a)) / seconds,
		.evicted = (double)(b->evicted_objects - a->evicted_objects) / seconds,
		.hit_rate = gets ? (double)(b->get_hits - a->get_hits) / (double)gets : -1,
	};
}

static void top_row(struct table *t, const struct top_tenant *now, const struct top_line *l)
{
	char resident[UTIL_TEXT], out[UTIL_TEXT], in[UTIL_TEXT];

	table_row(t);
	table_cell(t, 0, "%s", now->name);
	table_cell(t, 1, "%" PRIu64, now->gauges.objects);
	table_cell(t, 2, "%s", util_format_bytes(now->gauges.resident_bytes, resident));
	table_cell(t, 3, "%" PRIu64, now->gauges.connections);
	table_cell(t, 4, "%.0f", l->gets);
	if (l->hit_rate < 0)
		table_cell(t, 5, "-");
	else
		table_cell(t, 5, "%.1f %%", l->hit_rate * 100);
	table_cell(t, 6, "%.0f", l->puts);
	table_cell(t, 7, "%.0f", l->lookups);
	table_cell(t, 8, "%s", util_format_bytes((uint64_t)l->bytes_out, out));
	table_cell(t, 9, "%s", util_format_bytes((uint64_t)l->bytes_in, in));
	table_cell(t, 10, "%.0f", l->evicted);
	table_cell(t, 11, "%.0f", l->refused);
}

static void top_head(const struct top_reading *a, const struct top_reading *b)
{
	static const char *const names[] = { "get", "put", "exists" };
	const struct larder_node_section *n = &b->node;
	char text[UTIL_TEXT], p50[UTIL_TEXT], p99[UTIL_TEXT];
	uint64_t used = n->pages - MIN(n->pages_free, n->pages);

	printf("%s used of %" PRIu64 " pages of %s (%.1f %%), %" PRIu64 " objects, %" PRIu64
	       " connections%s\n",
	       util_format_bytes(used * n->page_size_bytes, p50), n->pages,
	       util_format_bytes(n->page_size_bytes, text),
	       n->pages ? 100.0 * (double)used / (double)n->pages : 0.0, n->objects,
	       n->connections, n->draining ? ", draining" : "");
	for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
		printf("%s%s p50 %s p99 %s", i ? "   " : "", names[i],
		       util_format_ns(ledger_quantile(a->latency.buckets[i], b->latency.buckets[i],
						      0.5), p50),
		       util_format_ns(ledger_quantile(a->latency.buckets[i], b->latency.buckets[i],
						      0.99), p99));
	puts("   (in the node)\n");
}

static int top_draw(const struct top_reading *a, const struct top_reading *b, double seconds,
		    json_t *warnings)
{
	static const struct table_column columns[] = {
		{ "TENANT", false }, { "OBJECTS", true }, { "RESIDENT", true }, { "CONN", true },
		{ "GET/s", true }, { "HIT", true }, { "PUT/s", true }, { "LOOKUP/s", true },
		{ "OUT/s", true }, { "IN/s", true }, { "EVICT/s", true }, { "REFUSED/s", true },
	};
	struct table *t = table_new(columns, ARRAY_SIZE(columns));
	const char *name;
	json_t *warning;
	int r;

	if (isatty(STDOUT_FILENO))
		fputs("\033[H\033[2J", stdout);
	top_head(a, b);
	for (uint32_t i = 0; i < LARDER_LEDGER_TENANTS; i++) {
		struct top_line l = top_compare(&a->tenants[i].usage, &b->tenants[i].usage,
						seconds);

		if (b->tenants[i].name[0])
			top_row(t, &b->tenants[i], &l);
	}
	r = table_print(t);
	json_object_foreach(warnings, name, warning)
		printf("\nwarning: tenant %s: %s: %s\n", name, json_string_value(warning),
		       stats_warning_text(json_string_value(warning)));
	return r ? r : output_end();
}

static json_t *top_latency_json(const struct top_reading *a, const struct top_reading *b)
{
	static const char *const names[] = { "get", "put", "exists", "other" };
	json_t *all = json_object();

	for (unsigned i = 0; i < LARDER_LATENCY_OPS; i++) {
		const uint64_t *x = a->latency.buckets[i], *y = b->latency.buckets[i];
		json_t *o = json_object();

		json_set_u64(o, "p50_ns", ledger_quantile(x, y, 0.5));
		json_set_u64(o, "p99_ns", ledger_quantile(x, y, 0.99));
		json_set(all, names[i], o);
	}
	return all;
}

static int top_json(const struct top_reading *a, const struct top_reading *b, double seconds,
		    json_t *warnings)
{
	json_t *doc = json_object(), *list = json_array(), *o;

	for (uint32_t i = 0; i < LARDER_LEDGER_TENANTS; i++) {
		const struct top_tenant *now = &b->tenants[i];
		struct top_line l = top_compare(&a->tenants[i].usage, &now->usage, seconds);

		if (!now->name[0])
			continue;
		o = json_object();
		json_set_text(o, "tenant", now->name);
		json_set_u64(o, "objects", now->gauges.objects);
		json_set_u64(o, "resident_bytes", now->gauges.resident_bytes);
		json_set_u64(o, "connections", now->gauges.connections);
		json_set(o, "gets_per_s", json_real(l.gets));
		json_set(o, "get_hit_rate", l.hit_rate < 0 ? json_null() : json_real(l.hit_rate));
		json_set(o, "puts_per_s", json_real(l.puts));
		json_set(o, "lookups_per_s", json_real(l.lookups));
		json_set(o, "bytes_out_per_s", json_real(l.bytes_out));
		json_set(o, "bytes_in_per_s", json_real(l.bytes_in));
		json_set(o, "evicted_per_s", json_real(l.evicted));
		json_set(o, "refused_per_s", json_real(l.refused));
		if (json_object_get(warnings, now->name))
			json_set(o, "warning",
				 json_incref(json_object_get(warnings, now->name)));
		if (json_array_append_new(list, o))
			json_set(doc, "tenants", NULL);
	}
	json_set(doc, "interval_s", json_real(seconds));
	json_set_u64(doc, "pages", b->node.pages);
	json_set_u64(doc, "pages_free", b->node.pages_free);
	json_set_u64(doc, "page_size_bytes", b->node.page_size_bytes);
	json_set_u64(doc, "objects", b->node.objects);
	json_set_u64(doc, "connections", b->node.connections);
	json_set(doc, "draining", json_boolean(b->node.draining));
	json_set(doc, "latency", top_latency_json(a, b));
	json_set(doc, "tenants", list);
	return output_json(doc);
}

/* Ends early, without an error, when a signal came. */
static void top_sleep(uint64_t ns)
{
	struct timespec ts = { (time_t)(ns / NSEC_PER_SEC), (long)(ns % NSEC_PER_SEC) };

	(void)nanosleep(&ts, NULL);	/* top_stop says whether it was cut short */
}

static int top_run(struct ctl *ctl, uint64_t delay_ns, uint64_t pictures,
		   struct top_reading readings[2])
{
	struct top_reading *a = &readings[0], *b = &readings[1];
	int r = top_read(ctl, a);

	for (uint64_t i = 0; !r && !top_stop && i < pictures; i++) {
		struct top_reading *was = a;
		json_t *warnings = NULL;
		double seconds;

		top_sleep(delay_ns);
		if (top_stop)
			break;
		r = top_read(ctl, b);
		if (!r)
			r = top_read_warnings(ctl, &warnings);
		if (r)
			break;
		/* another daemon counts from zero: a picture without rates */
		if (a->node.start_time_ms != b->node.start_time_ms)
			memcpy(a, b, sizeof(*a));
		seconds = (double)MAX(b->at_ns - was->at_ns, (uint64_t)1) / 1e9;
		if (a->at_ns == b->at_ns)
			seconds = (double)delay_ns / 1e9;
		r = ctl->json ? top_json(a, b, seconds, warnings)
			      : top_draw(a, b, seconds, warnings);
		json_decref(warnings);
		a = b;
		b = was;
	}
	return r;
}

int cmd_top(struct ctl *ctl, int argc, char **argv)
{
	static const struct option own[] = {
		{ "delay", required_argument, NULL, 'd' },
		{ "count", required_argument, NULL, 'n' },
		{ 0 },
	};
	struct sigaction act = { .sa_handler = top_signal };
	_cleanup_free_ struct top_reading *readings = NULL;
	uint64_t delay_ns = NSEC_PER_SEC, pictures = 0;
	int c;

	while ((c = ctl_getopt(ctl, argc, argv, "d:n:", own)) != -1) {
		if (c == '?' || (c == 'd' && ctl_take_duration("--delay", optarg, &delay_ns)) ||
		    (c == 'n' && ctl_take_number("--count", optarg, 1, UINT32_MAX, &pictures)))
			return CTL_USAGE;
	}
	if (ctl->help)
		return ctl_help(ctl_command_find("top"));
	if (optind < argc)
		return ctl_usage("top", "takes no argument");
	if (delay_ns < 10 * NSEC_PER_MSEC)
		return ctl_usage("top", "--delay: at least 10ms");
	if (ctl->json && pictures > 1)
		return ctl_usage("top", "--json is one document: one picture");
	/* unless told, a terminal is for watching, anything else gets one picture */
	if (!pictures)
		pictures = ctl->json || !isatty(STDOUT_FILENO) ? 1 : UINT64_MAX;
	readings = calloc(2, sizeof(*readings));
	if (!readings)
		return ctl_fail(CTL_FAILED, "top: %s", strerror(ENOMEM));
	if (sigaction(SIGINT, &act, NULL) < 0 || sigaction(SIGTERM, &act, NULL) < 0)
		return ctl_fail(CTL_FAILED, "top: %s", strerror(errno));
	return top_run(ctl, delay_ns, pictures, readings);
}
