/* SPDX-License-Identifier: Apache-2.0 */
/* ping: the way to the node and back through the data port, authenticated as a tenant. */
#include <inttypes.h>
#include <stdio.h>

#include "ctl/latency.h"
#include "ctl/output.h"
#include "ctl/session.h"

#define PING_MAX 1000000u
#define PING_DEADLINE_MS 10000u	/* who asks for a sign of life does not want to wait for long */

static int ping_tell(struct ctl *ctl, const struct session *s, const struct latency *l)
{
	char min[UTIL_TEXT], median[UTIL_TEXT], max[UTIL_TEXT];
	struct larder_client_info info;
	json_t *doc;

	larder_get_info(s->client, &info);
	if (!ctl->json) {
		printf("%s: %" PRIu64 " answers, min %s, median %s, max %s\n", info.url, l->count,
		       util_format_ns(l->min_ns, min),
		       util_format_ns(latency_quantile(l, 0.5), median),
		       util_format_ns(l->max_ns, max));
		return output_end();
	}
	doc = json_object();
	json_set_text(doc, "url", info.url);
	json_set_u64(doc, "count", l->count);
	json_set_u64(doc, "min_ns", l->min_ns);
	json_set_u64(doc, "median_ns", latency_quantile(l, 0.5));
	json_set_u64(doc, "max_ns", l->max_ns);
	json_set_u64(doc, "page_size_bytes", info.page_size_bytes);
	json_set_u64(doc, "max_value_bytes", info.max_value_bytes);
	json_set_u64(doc, "credits", info.credits);
	json_set_u64(doc, "lease_max_ms", info.lease_max_ms);
	return output_json(doc);
}

int cmd_ping(struct ctl *ctl, int argc, char **argv)
{
	static const struct option own[] = { { "count", required_argument, NULL, 'c' }, { 0 } };
	_cleanup_free_ struct latency *l = NULL;
	struct session s;
	uint64_t n = 1;
	int c, r;

	while ((c = ctl_getopt(ctl, argc, argv, "c:", own)) != -1)
		if (c == '?' || ctl_take_number("--count", optarg, 1, PING_MAX, &n))
			return CTL_USAGE;
	if (ctl->help)
		return ctl_help(ctl_command_find("ping"));
	if (optind < argc)
		return ctl_usage("ping", "takes no argument");
	if (!ctl->deadline_ms)
		ctl->deadline_ms = PING_DEADLINE_MS;
	l = calloc(1, sizeof(*l));
	if (!l)
		return ctl_fail(CTL_FAILED, "ping: out of memory");
	r = session_connect(ctl, "ping", &s);
	if (r)
		return r;
	/* one that doesn't count pays for connecting */
	r = larder_ping(s.client, ctl->deadline_ms);
	for (uint64_t i = 0; !r && i < n; i++) {
		uint64_t start = util_now_ns();

		r = larder_ping(s.client, ctl->deadline_ms);
		latency_add(l, util_now_ns() - start);
	}
	r = r ? ctl_result(r, "ping %s", ctl->url) : ping_tell(ctl, &s, l);
	session_close(&s);
	return r;
}
