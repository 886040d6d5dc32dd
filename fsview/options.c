/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS_DEADLINE_MS 3000u
#define OPTIONS_DEADLINE_MAX_MS 600000ul

static void options_usage(FILE *f)
{
	fputs("larderfs " LARDER_VERSION ": a node's namespaces as files, to be read\n\n"
	      "  larderfs [OPTION]... [MOUNTPOINT]      (default " OPTIONS_MOUNT_POINT ")\n\n"
	      "  -u, --url URL          the node (default " OPTIONS_URL ")\n"
	      "  -s, --control PATH     its control socket (default " OPTIONS_CONTROL ")\n"
	      "  -c, --content WHO      who may read values: never, owner, all (default owner)\n"
	      "  -m, --meta WHO         who may list keys and attributes: owner, all (default "
	      "owner)\n"
	      "  -g, --group TENANT=GROUP  the tenant's owner, beside root; may be repeated\n"
	      "  -d, --deadline MS      after which a request is answered with an error "
	      "(default 3000)\n"
	      "  -o OPTION[,OPTION]...  options of the mount, as mount(8) and fuse(8) have them\n"
	      "  -h, --help             this text\n"
	      "      --version\n\n"
	      "Stays in the foreground; SIGTERM, SIGINT and fusermount3 -u end it.\n"
	      "Exit codes: 0 ended as asked, 1 failed, 2 wrong arguments, 3 the mount point can "
	      "not be used.\n", f);
}

static const struct option options_long[] = {
	{ "url", required_argument, NULL, 'u' },
	{ "control", required_argument, NULL, 's' },
	{ "content", required_argument, NULL, 'c' },
	{ "meta", required_argument, NULL, 'm' },
	{ "group", required_argument, NULL, 'g' },
	{ "deadline", required_argument, NULL, 'd' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

static int options_wrong(const char *option, const char *value, const char *wanted)
{
	fprintf(stderr, "larderfs: %s %s: wanted %s\n", option, value, wanted);
	return LARDERFS_USAGE;
}

static int options_who(const char *option, const char *value, bool never, enum view_who *ret)
{
	if (never && !strcmp(value, "never"))
		*ret = VIEW_NEVER;
	else if (!strcmp(value, "owner"))
		*ret = VIEW_OWNER;
	else if (!strcmp(value, "all"))
		*ret = VIEW_ALL;
	else
		return options_wrong(option, value, never ? "never, owner or all" : "owner or all");
	return -1;
}

static int options_deadline(const char *value, uint32_t *ret)
{
	char *end;
	unsigned long ms;

	errno = 0;
	ms = strtoul(value, &end, 10);
	if (errno || *end || end == value || !ms || ms > OPTIONS_DEADLINE_MAX_MS)
		return options_wrong("--deadline", value, "milliseconds, 1 to 600000");
	*ret = (uint32_t)ms;
	return -1;
}

/* TENANT=GROUP, a name or a number. */
static int options_group(char *value, struct options *o)
{
	char *group = strchr(value, '='), *end;
	struct view_group *g;
	struct group *known;
	unsigned long gid;

	if (!group || !group[1])
		return options_wrong("--group", value, "TENANT=GROUP");
	*group++ = '\0';
	if (!tree_tenant_valid(value))
		return options_wrong("--group", value, "a tenant, [a-z0-9-]{1,32}, before the '='");
	gid = strtoul(group, &end, 10);
	if (*end) {
		known = getgrnam(group);
		if (!known)
			return options_wrong("--group", group, "a group of this machine");
		gid = known->gr_gid;
	}
	g = malloc(sizeof(*g));
	if (!g) {
		fprintf(stderr, "larderfs: no memory\n");
		return LARDERFS_FAILED;
	}
	*g = (struct view_group){ .tenant = value, .gid = (gid_t)gid, .next = o->groups };
	o->groups = g;
	return -1;
}

/* What the mount is by promise can not be undone, nor its name be another: tools go by it. */
static int options_mount(const char *value, struct options *o)
{
	static const char *const fixed[] = { "rw", "suid", "dev", "exec", "fsname", "subtype" };

	for (const char *at = value; *at;) {
		size_t len = strcspn(at, ","), name = strcspn(at, ",=");

		for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
			if (strlen(fixed[i]) != name || strncmp(at, fixed[i], name))
				continue;
			fprintf(stderr, "larderfs: -o %s: not %s, the view is mounted "
				"ro,nosuid,nodev,noexec,fsname=larder,subtype=larder\n", value,
				fixed[i]);
			return LARDERFS_USAGE;
		}
		at += len + (at[len] == ',');
	}
	o->fuse = value;
	return -1;
}

static int options_one(int option, struct options *o)
{
	switch (option) {
	case 'u':
		o->url = optarg;
		return -1;
	case 's':
		o->control = optarg;
		return -1;
	case 'c':
		return options_who("--content", optarg, true, &o->content);
	case 'm':
		return options_who("--meta", optarg, false, &o->meta);
	case 'g':
		return options_group(optarg, o);
	case 'd':
		return options_deadline(optarg, &o->deadline_ms);
	case 'o':
		return options_mount(optarg, o);
	case 'h':
		options_usage(stdout);
		return LARDERFS_OK;
	case 'V':
		puts("larderfs " LARDER_VERSION);
		return LARDERFS_OK;
	default:
		return LARDERFS_USAGE;
	}
}

int options_parse(int argc, char **argv, struct options *ret)
{
	int option, r;

	*ret = (struct options){ .mount_point = OPTIONS_MOUNT_POINT, .url = OPTIONS_URL,
				 .control = OPTIONS_CONTROL, .content = VIEW_OWNER,
				 .meta = VIEW_OWNER, .deadline_ms = OPTIONS_DEADLINE_MS };
	while ((option = getopt_long(argc, argv, "u:s:c:m:g:d:o:h", options_long, NULL)) != -1) {
		r = options_one(option, ret);
		if (r >= 0)
			return r;
	}
	if (optind < argc)
		ret->mount_point = argv[optind++];
	if (optind < argc) {
		fprintf(stderr, "larderfs: %s: one mount point is enough\n", argv[optind]);
		return LARDERFS_USAGE;
	}
	return -1;
}

void options_done(struct options *o)
{
	while (o->groups) {
		struct view_group *g = o->groups;

		o->groups = g->next;
		free(g);
	}
}
