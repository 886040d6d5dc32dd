/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration of larderd: one ini file, its drop-ins in order of name, then --set; each value
 * remembers where it came from. See options.def for the table.
 */
#ifndef LARDER_DAEMON_CONFIG_H
#define LARDER_DAEMON_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum config_type { CONFIG_STRING, CONFIG_SIZE, CONFIG_COUNT, CONFIG_MSEC, CONFIG_BOOL };

enum config_id {
#define OPTION(section, key, type, def, min, max, live, text) CONFIG_##section##_##key,
#include "options.def"
#undef OPTION
	CONFIG_OPTIONS
};

struct config_option {
	const char *section;
	const char *key;
	enum config_type type;
	const char *def;
	uint64_t min;
	uint64_t max;
	bool live;
	const char *text;
};
extern const struct config_option config_options[CONFIG_OPTIONS];

struct config_value {
	char *text;		/* as given */
	char *origin;		/* "default", "/etc/larder/larderd.conf:12", "--set" */
	uint64_t number;
};

struct config {
	struct config_value value[CONFIG_OPTIONS];
	char error[512];	/* of the first failure: one line */
};

/* All values at their defaults. 0 or -ENOMEM. */
int config_init(struct config *c);
void config_done(struct config *c);
/* Reads @path and the *.conf of "@path.d". @required: absent is a failure. 0 or -errno. */
int config_load(struct config *c, const char *path, bool required);
/* "section.key=value". 0 or -EINVAL. */
int config_set(struct config *c, const char *assignment, const char *origin);
/* What one option alone can't tell: powers of two, choices, the reserve against the whole. */
int config_validate(struct config *c);
void config_dump(const struct config *c, FILE *f);
/* The part of larderd.conf(5) that lists the options, as man(7) source. */
void config_man(FILE *f);
/* The same of the limits of tenants. */
void config_man_limits(FILE *f);

static inline const char *config_string(const struct config *c, enum config_id id)
{
	return c->value[id].text;
}

static inline uint64_t config_number(const struct config *c, enum config_id id)
{
	return c->value[id].number;
}

int config_log_level(const char *name);	/* syslog's number or -EINVAL */

#endif
