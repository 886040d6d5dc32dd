/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger, read as any other process would read it, against what the clients saw. */
#include <sys/mman.h>
#include <unistd.h>

#include "sim.h"

void ledger_look(struct world *w, uint32_t tenant, struct larder_usage *usage,
		 struct larder_gauges *gauges)
{
	const struct larder_ledger_header *h;
	const struct larder_ledger_name *names;
	const struct larder_usage *u;
	char name[24];
	uint64_t size;
	int fd = larder_node_ledger_fd(w->node);
	void *p;

	if (fd < 0)
		sim_fail(w, "ledger_fd: %s", strerror(-fd));
	size = (uint64_t)lseek(fd, 0, SEEK_END);
	p = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	(void)close(fd);		/* the mapping keeps it */
	if (p == MAP_FAILED)
		sim_fail(w, "the ledger can not be mapped: %s", strerror(errno));
	h = p;
	names = (const void *)((char *)p + h->section[LARDER_SECTION_NAMES].offset);
	u = (const void *)((char *)p + h->section[LARDER_SECTION_USAGE].offset);
	(void)snprintf(name, sizeof(name), "tenant-%u", tenant);
	memset(usage, 0, sizeof(*usage));
	for (uint32_t t = 0; t < LARDER_LEDGER_TENANTS; t++) {
		if (strcmp(names[t].tenant, name))
			continue;
		*gauges = ((const struct larder_gauges *)
			   ((char *)p + h->section[LARDER_SECTION_GAUGES].offset))[t];
		for (uint32_t i = 0; i < h->writers; i++)
			for (size_t f = 0; f < sizeof(*usage) / 8; f++)
				((uint64_t *)usage)[f] +=
					((const uint64_t *)&u[i * LARDER_LEDGER_TENANTS + t])[f];
		(void)munmap(p, size);
		return;
	}
	sim_fail(w, "the ledger does not know %s", name);
}

/* --- what the clients saw -------------------------------------------------------------------- */

void tally_item(struct op *op, uint32_t i)
{
	const struct larder_item *li = &op->items[i];
	const struct item *it = &op->item[i];
	struct tally *t = &op->w->tally[it->key->tenant];
	bool there = li->presence == LARDER_PRESENT || li->presence == LARDER_LEASED;

	if (op->opcode == LARDER_OP_PUT || op->opcode == LARDER_OP_GET) {
		t->ops[op->opcode]++;
		t->status[li->status]++;
	}
	if (op->opcode == LARDER_OP_PUT && li->status == LARDER_OK) {
		t->put_new++;
		t->written_bytes += it->key->value[it->v].length;
	}
	if (op->opcode == LARDER_OP_GET && li->status != LARDER_NOT_FOUND)
		t->get_hits++;
	if (op->opcode == LARDER_OP_EXISTS) {
		t->exists_keys++;
		t->exists_present += there;
	}
}

void tally_op(struct op *op)
{
	struct tally *t = &op->w->tally[op->item[0].key->tenant];
	bool found = false;

	if (op->opcode == LARDER_OP_PUT || op->opcode == LARDER_OP_GET)
		return;
	t->ops[op->opcode]++;
	for (uint32_t i = 0; i < op->n; i++)
		found |= op->items[i].status != LARDER_NOT_FOUND;
	t->status[found || op->opcode == LARDER_OP_EXISTS ? LARDER_OK : LARDER_NOT_FOUND]++;
	if (op->opcode == LARDER_OP_EXISTS)
		t->leading_run_keys += op->batch.leading_run;
}

static void ledger_equal(struct world *w, uint32_t tenant, const char *what, uint64_t have,
			 uint64_t want)
{
	if (have != want)
		sim_fail(w, "ledger of tenant %u: %s is %" PRIu64 ", the clients saw %" PRIu64,
			 tenant, what, have, want);
}

void ledger_compare(struct world *w, uint32_t tenant, const struct larder_usage *before,
		    const struct larder_usage *after, const struct tally *t)
{
	static const uint8_t opcodes[] = { LARDER_OP_PUT, LARDER_OP_GET, LARDER_OP_EXISTS,
					   LARDER_OP_LEASE, LARDER_OP_RELEASE, LARDER_OP_STAT,
					   LARDER_OP_DELETE };
	static const uint8_t statuses[] = { LARDER_EXISTS_SAME, LARDER_NOT_FOUND, LARDER_CONFLICT,
					    LARDER_TOO_SMALL, LARDER_NO_SPACE };

#define LEDGER_DIFF(field) (after->field - before->field)
	for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++)
		ledger_equal(w, tenant, "operations", LEDGER_DIFF(ops[opcodes[i]]),
			     t->ops[opcodes[i]]);
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++)
		ledger_equal(w, tenant, larder_status_name(statuses[i]),
			     LEDGER_DIFF(status[statuses[i]]), t->status[statuses[i]]);
	ledger_equal(w, tenant, "get_hits", LEDGER_DIFF(get_hits), t->get_hits);
	ledger_equal(w, tenant, "get_hit_bytes", LEDGER_DIFF(get_hit_bytes), t->get_hit_bytes);
	ledger_equal(w, tenant, "bytes read", LEDGER_DIFF(bytes[LARDER_CAUSE_CLIENT_READ]),
		     t->read_bytes);
	ledger_equal(w, tenant, "bytes written", LEDGER_DIFF(bytes[LARDER_CAUSE_CLIENT_WRITE]),
		     t->written_bytes);
	ledger_equal(w, tenant, "exists_keys", LEDGER_DIFF(exists_keys), t->exists_keys);
	ledger_equal(w, tenant, "exists_present", LEDGER_DIFF(exists_present), t->exists_present);
	ledger_equal(w, tenant, "leading_run_keys", LEDGER_DIFF(leading_run_keys),
		     t->leading_run_keys);
	ledger_equal(w, tenant, "put_new", LEDGER_DIFF(put_new), t->put_new);
#undef LEDGER_DIFF
}
