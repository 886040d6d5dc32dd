/* SPDX-License-Identifier: Apache-2.0 */
/* See torture.h: what the seed decides, and handles that may fail. */
#include "torture.h"

#include <stdlib.h>
#include <string.h>

uint64_t torture_mix(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t z = a * 0x9e3779b97f4a7c15ull + b * 0xd1342543de82ef95ull + c +
		     0x2545f4914f6cdd1dull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* Most are short; one of sixteen needs overflow records, up to the longest there is. */
size_t torture_name(const struct torture *t, unsigned client, unsigned key, char name[1024])
{
	uint64_t r = torture_mix(t->s.seed, client, key);
	size_t len = (size_t)snprintf(name, 1024, "%u/%u", client, key);
	size_t want = key % 16 == 7 ? 200 + r % 825 : len + r % 40;

	for (; len < want && len < 1024; len++)
		name[len] = (char)(r >> (len % 56));	/* any byte */
	return len;
}

unsigned torture_space(unsigned key)
{
	return key % TORTURE_SPACES;
}

/* As many small ones as large ones, by powers of two, and now and then the edge of a page. */
uint64_t torture_length(const struct torture *t, unsigned client, unsigned key, uint32_t version)
{
	uint64_t r = torture_mix(t->s.seed ^ version, client, key);
	uint64_t span = t->s.length_max - t->s.length_min + 1;
	unsigned bits = 64 - (unsigned)__builtin_clzll(span);
	uint64_t part = r % (1ull << (1 + (r >> 56) % bits));
	uint64_t edge = t->s.page * (1 + (r >> 32) % 4) - 1 + (r >> 40) % 3;

	if ((r >> 48) % 8 == 0 && edge >= t->s.length_min && edge <= t->s.length_max)
		return edge;
	return t->s.length_min + part % span;
}

uint64_t torture_pattern(const struct torture *t, unsigned client, unsigned key, uint32_t version)
{
	return torture_mix(torture_mix(t->s.seed, client, key), version, 77);
}

static struct larder_client *torture_handle_open(const struct node *n,
						 enum node_transport transport)
{
	struct larder_client_options o = LARDER_CLIENT_OPTIONS_INIT;
	struct larder_client *c = NULL;
	char url[400];

	if (transport == NODE_TCP)
		snprintf(url, sizeof(url), "tcp://127.0.0.1:%d", n->port);
	else
		snprintf(url, sizeof(url), "shm://%s", n->socket);
	o.url = url;
	o.tenant = "demo";
	o.secret = n->secret;
	o.secret_len = strlen(n->secret);
	o.bounce_bytes = 8u << 20;
	return larder_open(&o, &c) ? NULL : c;
}

bool torture_open(struct torture *t, struct torture_handle *h, enum node_transport transport,
		  size_t size, bool region)
{
	static const char *const names[TORTURE_SPACES] = { "torture", "torture@r2" };

	memset(h, 0, sizeof(*h));
	h->size = size;
	h->client = torture_handle_open(t->node, transport);
	if (!h->client)
		return false;
	for (unsigned i = 0; i < TORTURE_SPACES; i++)
		if (larder_ns_open(h->client, names[i], NULL, LARDER_NS_CREATE, 1000, &h->ns[i])) {
			torture_close(h);
			return false;
		}
	if (region && larder_region_alloc(h->client, size, 0, &h->region) == 0)
		h->memory = larder_region_addr(h->region);
	else
		h->memory = malloc(size);
	if (!h->memory)
		torture_close(h);
	return h->memory != NULL;
}

void torture_close(struct torture_handle *h)
{
	if (h->region)
		(void)larder_region_free(h->region);	/* at the latest larder_close does it */
	else
		free(h->memory);
	larder_close(h->client);
	memset(h, 0, sizeof(*h));
}
