/* SPDX-License-Identifier: Apache-2.0 */
/* The table of limits as something to ask. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <larder/limits.h>

/* JSON's integers end there, and no figure of a node gets there. */
#define LIMIT_VALUE_MAX ((uint64_t)INT64_MAX)

static const struct limit_entry {
	const char *name, *text;
	enum larder_limit_unit unit;
} limit_table[LARDER_LIMITS] = {
#define LIMIT_ENTRY(name, number, unit, status, text)                                              \
	[number] = { #name, text, LARDER_UNIT_##unit },
	LARDER_LIMIT_TABLE(LIMIT_ENTRY)
#undef LIMIT_ENTRY
};

const char *larder_limit_name(unsigned limit)
{
	return limit < LARDER_LIMITS ? limit_table[limit].name : "?";
}

int larder_limit_find(const char *name)
{
	for (unsigned i = 0; i < LARDER_LIMITS; i++)
		if (strcmp(limit_table[i].name, name) == 0)
			return (int)i;
	return -1;
}

enum larder_limit_unit larder_limit_unit(unsigned limit)
{
	return limit < LARDER_LIMITS ? limit_table[limit].unit : LARDER_UNIT_COUNT;
}

const char *larder_limit_text(unsigned limit)
{
	return limit < LARDER_LIMITS ? limit_table[limit].text : "?";
}

bool larder_limit_valid(unsigned limit, uint64_t value)
{
	switch (limit) {
	case LARDER_LIMIT_weight:
		return value <= LARDER_WEIGHT_MAX;
	case LARDER_LIMIT_over_cap:
		return value <= LARDER_OVER_CAP_REJECT;
	default:
		return limit < LARDER_LIMITS;
	}
}

static const char *const limit_over_cap[] = { "evict-own", "reject" };
static const char limit_suffixes[] = "KMGT";

static bool limit_is_bytes(unsigned limit)
{
	enum larder_limit_unit unit = larder_limit_unit(limit);

	return unit == LARDER_UNIT_BYTES || unit == LARDER_UNIT_RATE_BYTES;
}

const char *larder_limit_allowed(unsigned limit)
{
	if (limit == LARDER_LIMIT_weight)
		return "a number, 1 to 10000";	/* LARDER_WEIGHT_MAX */
	if (limit == LARDER_LIMIT_over_cap)
		return "evict-own or reject";
	return limit_is_bytes(limit) ? "a number of bytes, with K, M, G or T, or none"
				     : "a number, or none";
}

static int limit_parse_number(const char *text, bool bytes, uint64_t *ret)
{
	uint64_t v = 0;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	for (; *text >= '0' && *text <= '9'; text++)
		if (__builtin_mul_overflow(v, (uint64_t)10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*text - '0'), &v))
			return -EINVAL;
	if (bytes && *text) {
		const char *s = strchr(limit_suffixes,
				       *text >= 'a' ? *text - 'a' + 'A' : *text);

		if (!s || __builtin_mul_overflow(v, 1ull << 10 * (s - limit_suffixes + 1), &v))
			return -EINVAL;
		text++;
	}
	if (*text || v > LIMIT_VALUE_MAX)
		return -EINVAL;
	*ret = v;
	return 0;
}

int larder_limit_parse(unsigned limit, const char *text, uint64_t *ret)
{
	uint64_t v;

	if (limit == LARDER_LIMIT_over_cap) {
		for (unsigned i = 0; i < 2; i++)
			if (strcmp(text, limit_over_cap[i]) == 0) {
				*ret = i;
				return 0;
			}
		return -EINVAL;
	}
	if (limit != LARDER_LIMIT_weight && strcmp(text, "none") == 0) {
		*ret = 0;
		return 0;
	}
	if (limit_parse_number(text, limit_is_bytes(limit), &v) ||
	    !larder_limit_valid(limit, v))
		return -EINVAL;
	*ret = v;
	return 0;
}

const char *larder_limit_format(unsigned limit, uint64_t value, char text[LARDER_LIMIT_TEXT])
{
	unsigned i = 0;

	if (limit == LARDER_LIMIT_over_cap && value < 2)
		return strcpy(text, limit_over_cap[value]);
	if (limit != LARDER_LIMIT_weight && value == 0)
		return strcpy(text, "none");
	while (limit_is_bytes(limit) && i < sizeof(limit_suffixes) - 1 && value % 1024 == 0) {
		value /= 1024;
		i++;
	}
	(void)snprintf(text, LARDER_LIMIT_TEXT, "%" PRIu64 "%.*s", value, i ? 1 : 0,
		       i ? &limit_suffixes[i - 1] : "");
	return text;
}
