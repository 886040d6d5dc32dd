/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms and JSON of the tools. */
#include <stdlib.h>
#include <string.h>

#include "tool.h"

#define PRINT_STARS 40u

static unsigned print_used(const uint32_t *slots, unsigned n, unsigned *first)
{
	unsigned last = 0;

	*first = n;
	for (unsigned i = 0; i < n; i++) {
		if (!slots[i])
			continue;
		if (*first == n)
			*first = i;
		last = i + 1;
	}
	return last;
}

void tool_print_log2(const uint32_t *slots, unsigned n, const char *unit)
{
	unsigned first, last = print_used(slots, n, &first);
	uint32_t most = 1;

	for (unsigned i = first; i < last; i++)
		most = slots[i] > most ? slots[i] : most;
	printf("%*s%-22s : count    distribution\n", 5, "", unit);
	for (unsigned i = first; i < last; i++) {
		unsigned stars = (unsigned)((uint64_t)slots[i] * PRINT_STARS / most);
		char bar[PRINT_STARS + 1];

		memset(bar, '*', stars);
		bar[stars] = '\0';
		printf("%12llu -> %-11llu : %-8u |%-*s|\n", i ? 1ull << i : 0ull,
		       (2ull << i) - 1, slots[i], (int)PRINT_STARS, bar);
	}
}

json_t *tool_json_log2(const uint32_t *slots, unsigned n)
{
	json_t *all = json_array();

	for (unsigned i = 0; i < n; i++)
		if (slots[i])
			(void)json_array_append_new(all, json_pack("[I, I]",
				(json_int_t)(i ? 1ll << i : 0), (json_int_t)slots[i]));
	return all;
}

void tool_print_json(json_t *doc)
{
	if (!doc || json_dumpf(doc, stdout, JSON_COMPACT) < 0) {
		fputs("no memory for a JSON document\n", stderr);
		exit(5);
	}
	putchar('\n');
	fflush(stdout);
	json_decref(doc);
}
