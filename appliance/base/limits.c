/* SPDX-License-Identifier: Apache-2.0 */
/* The table of limits as something to ask. */
#include <string.h>

#include <larder/limits.h>

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
