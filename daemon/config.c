/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the configuration. ini_file.c walks the file; this file knows the table, converts values,
 * checks their range and remembers each one's origin. The first mistake stops the reading: its
 * line names the file, the line, the setting and what it may be.
 */
#include "config.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <larder/limits.h>
#include <larder/node.h>

#include "ini_file.h"

const struct config_option config_options[CONFIG_OPTIONS] = {
#define OPTION(section, key, type, def, min, max, live, text)                                      \
	{ #section, #key, CONFIG_##type, def, min, max, live, text },
#include "options.def"
#undef OPTION
};

static const char *const config_type_names[] = {
	[CONFIG_STRING] = "text",
	[CONFIG_SIZE] = "a size in bytes, suffixes K, M, G, T",
	[CONFIG_COUNT] = "a number",
	[CONFIG_MSEC] = "milliseconds",
	[CONFIG_BOOL] = "yes or no",
};

static int config_fail(struct config *c, int error, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int config_fail(struct config *c, int error, const char *fmt, ...)
{
	va_list ap;

	if (c->error[0])
		return error;	/* the first one is the one to mend */
	va_start(ap, fmt);
	(void)vsnprintf(c->error, sizeof(c->error), fmt, ap);
	va_end(ap);
	return error;
}

/* "64K" -> 65536. Plain decimal digits and at most one suffix. */
static int config_parse_number(const char *text, bool size, uint64_t *ret)
{
	char *end;
	uint64_t n;
	unsigned shift = 0;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno)
		return -ERANGE;
	if (size && *end) {
		const char *suffixes = "KMGT";
		const char *s = strchr(suffixes, toupper((unsigned char)*end));

		if (!s)
			return -EINVAL;
		shift = 10 * (unsigned)(s - suffixes + 1);
		end++;
	}
	if (*end)
		return -EINVAL;
	if (shift && n > UINT64_MAX >> shift)
		return -ERANGE;
	*ret = n << shift;
	return 0;
}

static int config_parse_bool(const char *text, uint64_t *ret)
{
	static const char *const yes[] = { "yes", "true", "on", "1" };
	static const char *const no[] = { "no", "false", "off", "0" };

	for (unsigned i = 0; i < 4; i++) {
		if (strcasecmp(text, yes[i]) == 0) {
			*ret = 1;
			return 0;
		}
		if (strcasecmp(text, no[i]) == 0) {
			*ret = 0;
			return 0;
		}
	}
	return -EINVAL;
}

static int config_assign(struct config *c, enum config_id id, const char *text, const char *origin)
{
	const struct config_option *o = &config_options[id];
	struct config_value *v = &c->value[id];
	uint64_t n = 0;
	int r = 0;

	if (o->type == CONFIG_BOOL)
		r = config_parse_bool(text, &n);
	else if (o->type != CONFIG_STRING)
		r = config_parse_number(text, o->type == CONFIG_SIZE, &n);
	if (r == -EINVAL)
		return config_fail(c, -EINVAL, "%s: %s.%s: \"%s\" is not %s", origin, o->section,
				   o->key, text, config_type_names[o->type]);
	if (r || (o->type != CONFIG_STRING && (n < o->min || n > o->max)))
		return config_fail(c, -EINVAL, "%s: %s.%s: %s is outside %" PRIu64 " to %" PRIu64,
				   origin, o->section, o->key, text, o->min, o->max);

	char *copy = strdup(text);
	char *where = strdup(origin);

	if (!copy || !where) {
		free(copy);
		free(where);
		return config_fail(c, -ENOMEM, "%s: out of memory", origin);
	}
	free(v->text);
	free(v->origin);
	v->text = copy;
	v->origin = where;
	v->number = n;
	return 0;
}

static int config_find(const char *section, const char *key)
{
	for (int i = 0; i < CONFIG_OPTIONS; i++)
		if (strcmp(config_options[i].section, section) == 0 &&
		    strcmp(config_options[i].key, key) == 0)
			return i;
	return -ENOENT;
}

int config_init(struct config *c)
{
	memset(c, 0, sizeof(*c));
	for (int i = 0; i < CONFIG_OPTIONS; i++) {
		int r = config_assign(c, (enum config_id)i, config_options[i].def, "default");

		if (r) {
			config_done(c);
			return r;
		}
	}
	return 0;
}

void config_done(struct config *c)
{
	for (int i = 0; i < CONFIG_OPTIONS; i++) {
		free(c->value[i].text);
		free(c->value[i].origin);
		c->value[i].text = c->value[i].origin = NULL;
	}
}

static int config_line(void *user, const struct ini_line *l)
{
	struct config *c = user;
	char origin[4200];
	int id;

	(void)snprintf(origin, sizeof(origin), "%s:%u", l->path, l->number);
	if (l->cut)
		return config_fail(c, -EINVAL, "%s: the line is too long", origin);
	id = config_find(l->section, l->key);
	if (id < 0)
		return config_fail(c, -EINVAL, "%s: no such setting: %s.%s (see larderd.conf(5))",
				   origin, l->section, l->key);
	return config_assign(c, (enum config_id)id, l->value, origin);
}

static int config_load_file(struct config *c, const char *path, bool required)
{
	char error[sizeof(c->error)] = "";
	int r;

	if (!required && access(path, F_OK) < 0 && errno == ENOENT)
		return 0;
	r = ini_file_read(path, config_line, c, error, sizeof(error));
	return r ? config_fail(c, r, "%s", error) : 0;
}

static int config_is_conf(const struct dirent *d)
{
	size_t n = strlen(d->d_name);

	return d->d_name[0] != '.' && n > 5 && strcmp(d->d_name + n - 5, ".conf") == 0;
}

int config_load(struct config *c, const char *path, bool required)
{
	char dir[4096];
	char file[4096 + 257];
	struct dirent **names = NULL;
	int r, n;

	r = config_load_file(c, path, required);
	if (r)
		return r;
	if (snprintf(dir, sizeof(dir), "%s.d", path) >= (int)sizeof(dir))
		return config_fail(c, -ENAMETOOLONG, "%s: the path is too long", path);
	n = scandir(dir, &names, config_is_conf, alphasort);
	if (n < 0) {
		if (errno == ENOENT)
			return 0;
		r = -errno;
		return config_fail(c, r, "%s: can not read the drop-ins: %s", dir, strerror(-r));
	}
	for (int i = 0; i < n; i++) {
		(void)snprintf(file, sizeof(file), "%s/%s", dir, names[i]->d_name);
		if (!r)
			r = config_load_file(c, file, true);
		free(names[i]);
	}
	free(names);
	return r;
}

int config_set(struct config *c, const char *assignment, const char *origin)
{
	char name[128];
	const char *eq = strchr(assignment, '=');
	char *dot;
	int id;

	if (!eq || (size_t)(eq - assignment) >= sizeof(name))
		return config_fail(c, -EINVAL, "%s %s: wanted section.key=value", origin,
				   assignment);
	memcpy(name, assignment, (size_t)(eq - assignment));
	name[eq - assignment] = 0;
	dot = strchr(name, '.');
	if (!dot)
		return config_fail(c, -EINVAL, "%s %s: wanted section.key=value", origin,
				   assignment);
	*dot = 0;
	id = config_find(name, dot + 1);
	if (id < 0)
		return config_fail(c, -EINVAL, "%s: no such setting: %s.%s (see larderd.conf(5))",
				   origin, name, dot + 1);
	return config_assign(c, (enum config_id)id, eq + 1, origin);
}

int config_log_level(const char *name)
{
	static const char *const names[] = { "err", "warning", "notice", "info", "debug" };

	for (int i = 0; i < 5; i++)
		if (strcmp(names[i], name) == 0)
			return i + 3;
	return -EINVAL;
}

static bool config_power_of_two(uint64_t n)
{
	return n && (n & (n - 1)) == 0;
}

int config_validate(struct config *c)
{
	const char *policy = config_string(c, CONFIG_engine_policy), *policies;
	uint64_t page = config_number(c, CONFIG_memory_page_size);
	uint64_t pages = config_number(c, CONFIG_memory_pages);
	uint64_t size = pages ? pages * page : config_number(c, CONFIG_memory_size);
	uint64_t reserve = config_number(c, CONFIG_engine_reserve);

	if (!config_power_of_two(page))
		return config_fail(c, -EINVAL, "%s: memory.page_size: %s is no power of two",
				   c->value[CONFIG_memory_page_size].origin,
				   config_string(c, CONFIG_memory_page_size));
	if (!config_power_of_two(config_number(c, CONFIG_engine_shards)))
		return config_fail(c, -EINVAL, "%s: engine.shards: %s is no power of two",
				   c->value[CONFIG_engine_shards].origin,
				   config_string(c, CONFIG_engine_shards));
	if (!larder_node_policy_known(policy, &policies))
		return config_fail(c, -EINVAL, "%s: engine.policy: \"%s\" is none of %s",
				   c->value[CONFIG_engine_policy].origin, policy, policies);
	if (config_log_level(config_string(c, CONFIG_log_level)) < 0)
		return config_fail(
			c, -EINVAL,
			"%s: log.level: \"%s\" is none of err, warning, notice, info, debug",
			c->value[CONFIG_log_level].origin, config_string(c, CONFIG_log_level));
	if (strcmp(config_string(c, CONFIG_resp_on_refusal), "error") != 0 &&
	    strcmp(config_string(c, CONFIG_resp_on_refusal), "drop") != 0)
		return config_fail(c, -EINVAL,
				   "%s: resp.on_refusal: \"%s\" is neither error nor drop",
				   c->value[CONFIG_resp_on_refusal].origin,
				   config_string(c, CONFIG_resp_on_refusal));
	if (size < page)
		return config_fail(c, -EINVAL, "%s: memory.size: %s is less than one page of %s",
				   c->value[CONFIG_memory_size].origin,
				   config_string(c, CONFIG_memory_size),
				   config_string(c, CONFIG_memory_page_size));
	if (reserve > size / 8)
		c->value[CONFIG_engine_reserve].number = size / 8;
	return 0;
}

void config_dump(const struct config *c, FILE *f)
{
	const char *section = "";
	int n;

	for (int i = 0; i < CONFIG_OPTIONS; i++) {
		const struct config_option *o = &config_options[i];

		if (strcmp(section, o->section) != 0)
			fprintf(f, "%s[%s]\n", i ? "\n" : "", o->section);
		section = o->section;
		n = fprintf(f, "%s = %s", o->key, c->value[i].text);
		fprintf(f, "%*s ; %s\n", n < 44 ? 44 - n : 0, "", c->value[i].origin);
	}
}

static void config_man_text(FILE *f, const char *text)
{
	for (const char *p = text; *p; p++)
		fprintf(f, *p == '\\' ? "\\e" : *p == '-' ? "\\-" : "%c", *p);
}

void config_man_limits(FILE *f)
{
	for (unsigned i = 0; i < LARDER_LIMITS; i++) {
		fprintf(f, ".TP\n.BR %s =\n", larder_limit_name(i));
		config_man_text(f, larder_limit_text(i));
		fprintf(f, ".\n.br\nValue: %s.\n", larder_limit_allowed(i));
	}
}

void config_man(FILE *f)
{
	const char *section = "";

	for (int i = 0; i < CONFIG_OPTIONS; i++) {
		const struct config_option *o = &config_options[i];

		if (strcmp(section, o->section) != 0)
			fprintf(f, ".SS [%s]\n", o->section);
		section = o->section;
		fprintf(f, ".TP\n.BR %s =\n", o->key);
		config_man_text(f, o->text);
		fprintf(f, "\n.br\nValue: %s", config_type_names[o->type]);
		if (o->type == CONFIG_COUNT || o->type == CONFIG_MSEC || o->type == CONFIG_SIZE)
			fprintf(f, ", %" PRIu64 " to %" PRIu64, o->min, o->max);
		fprintf(f, ". Default: %s. %s\n", o->def[0] ? o->def : "empty",
			o->live ? "Changes by reload." : "Changes at the next start.");
	}
}
