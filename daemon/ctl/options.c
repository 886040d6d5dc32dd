/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options: the global ones may stand before the command or among its own, so each command's table
 * is merged with the global one for getopt_long. Faults are told here in our own words (getopt's
 * would name the program by the command).
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <larder/client.h>

#include "control_protocol.h"
#include "ctl/ctl.h"

#define OPTIONS_MAX 64

enum {
	OPTION_URL = 1000, OPTION_TENANT, OPTION_SECRET_FILE, OPTION_NS, OPTION_JSON,
	OPTION_DEADLINE, OPTION_CONTROL,
};

static const struct option options_global[] = {
	{ "url", required_argument, NULL, OPTION_URL },
	{ "tenant", required_argument, NULL, OPTION_TENANT },
	{ "secret-file", required_argument, NULL, OPTION_SECRET_FILE },
	{ "ns", required_argument, NULL, OPTION_NS },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "deadline", required_argument, NULL, OPTION_DEADLINE },
	{ "control", required_argument, NULL, OPTION_CONTROL },
	{ "verbose", no_argument, NULL, 'v' },
	{ "help", no_argument, NULL, 'h' },
};

static const char *options_environment(const char *name, const char *otherwise)
{
	const char *v = getenv(name);

	return v && *v ? v : otherwise;
}

void ctl_init(struct ctl *ctl)
{
	*ctl = (struct ctl){
		.url = options_environment("LARDER_URL", "larder://localhost"),
		.tenant = options_environment("LARDER_TENANT", NULL),
		.secret_file = options_environment("LARDER_SECRET_FILE", NULL),
		.ns = options_environment("LARDER_NS", NULL),
		.control = options_environment("LARDER_CONTROL", LARDER_CONTROL_PATH),
	};
}

/* 1 = it was a global option and is done with, 0 = not one of them, -1 = told. */
static int options_take_global(struct ctl *ctl, int c)
{
	uint64_t v;

	switch (c) {
	case OPTION_URL:
		ctl->url = optarg;
		return 1;
	case OPTION_TENANT:
		ctl->tenant = optarg;
		ctl->tenant_given = true;
		return 1;
	case OPTION_SECRET_FILE:
		ctl->secret_file = optarg;
		return 1;
	case OPTION_NS:
		ctl->ns = optarg;
		ctl->ns_given = true;
		return 1;
	case OPTION_JSON:
		ctl->json = true;
		return 1;
	case OPTION_CONTROL:
		ctl->control = optarg;
		ctl->control_given = true;
		return 1;
	case OPTION_DEADLINE:
		if (ctl_take_number("--deadline", optarg, 1, UINT32_MAX, &v))
			return -1;
		ctl->deadline_ms = (uint32_t)v;
		return 1;
	case 'v':
		ctl->verbose = true;
		return 1;
	case 'h':
		ctl->help = true;
		return 1;
	default:
		return 0;
	}
}

static int options_next(struct ctl *ctl, int argc, char **argv, const char *shorts,
			const struct option *longs, const char *command)
{
	for (;;) {
		int c, taken;

		opterr = 0;
		c = getopt_long(argc, argv, shorts, longs, NULL);
		if (c == -1)
			return -1;
		if (c == '?' || c == ':') {
			const char *why = c == ':' ? "needs a value" : "is unknown";

			if (optopt && optopt < 256)
				(void)ctl_usage(command, "option -%c %s", optopt, why);
			else
				(void)ctl_usage(command, "option %s %s", argv[optind - 1], why);
			return '?';
		}
		taken = options_take_global(ctl, c);
		if (taken < 0)
			return '?';
		if (!taken)
			return c;
	}
}

int ctl_getopt(struct ctl *ctl, int argc, char **argv, const char *own_short,
	       const struct option *own)
{
	struct option merged[OPTIONS_MAX] = { 0 };
	char shorts[OPTIONS_MAX];
	size_t n = 0;

	for (; own && own->name && n < OPTIONS_MAX - ARRAY_SIZE(options_global) - 1; own++)
		merged[n++] = *own;
	memcpy(merged + n, options_global, sizeof(options_global));
	(void)snprintf(shorts, sizeof(shorts), ":hv%s", own_short ? own_short : "");
	return options_next(ctl, argc, argv, shorts, merged, argv[0]);
}

int ctl_take_host(struct ctl *ctl, int *argc, char **argv)
{
	int kept = 0;

	for (int i = 0; i < *argc; i++) {
		if (!strcmp(argv[i], "--")) {
			while (i < *argc)
				argv[kept++] = argv[i++];
			break;
		}
		if (!strcmp(argv[i], "-H") || !strcmp(argv[i], "--host")) {
			if (i + 1 == *argc)
				return ctl_usage(argv[0], "option %s needs a value", argv[i]);
			ctl->host = argv[++i];
		} else if (!strncmp(argv[i], "-H", 2)) {
			ctl->host = argv[i] + 2;
		} else if (!strncmp(argv[i], "--host=", 7)) {
			ctl->host = argv[i] + 7;
		} else {
			argv[kept++] = argv[i];
		}
	}
	argv[kept] = NULL;
	*argc = kept;
	return CTL_DONE;
}

int ctl_getopt_global(struct ctl *ctl, int argc, char **argv)
{
	struct option merged[ARRAY_SIZE(options_global) + 3] = {
		{ "version", no_argument, NULL, 'V' },
		{ "host", required_argument, NULL, 'H' },
	};

	memcpy(merged + 2, options_global, sizeof(options_global));
	return options_next(ctl, argc, argv, "+:H:hvV", merged, NULL);
}

static int options_range(const char *name, const char *text, int r, uint64_t min, uint64_t max)
{
	if (r == -ERANGE)
		return ctl_usage(NULL, "%s %s: out of range (%llu to %llu)", name, text,
				 (unsigned long long)min, (unsigned long long)max);
	return ctl_usage(NULL, "%s %s: not a number", name, text);
}

int ctl_take_number(const char *name, const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
	int r = util_parse_number(text, min, max, ret);

	return r < 0 ? options_range(name, text, r, min, max) : 0;
}

int ctl_take_size(const char *name, const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
	uint64_t v;
	int r = util_parse_size(text, &v);

	if (!r && (v < min || v > max))
		r = -ERANGE;
	if (r < 0)
		return options_range(name, text, r, min, max);
	*ret = v;
	return 0;
}

int ctl_take_real(const char *name, const char *text, double *ret)
{
	if (util_parse_real(text, ret) < 0)
		return ctl_usage(NULL, "%s %s: not a number", name, text);
	return 0;
}

int ctl_take_duration(const char *name, const char *text, uint64_t *ret_ns)
{
	if (util_parse_duration_ns(text, ret_ns) < 0)
		return ctl_usage(NULL, "%s %s: not a time (as 500ms, 10s, 2m)", name, text);
	return 0;
}

int ctl_take_word(const char *name, const char *text, const char *const *words, int *ret)
{
	char all[256] = "";
	size_t len = 0;

	for (int i = 0; words[i]; i++) {
		if (!strcmp(text, words[i])) {
			*ret = i;
			return 0;
		}
		len += (size_t)snprintf(all + len, sizeof(all) - len, "%s%s", i ? ", " : "",
					words[i]);
		if (len >= sizeof(all))
			break;
	}
	return ctl_usage(NULL, "%s %s: wanted one of %s", name, text, all);
}
