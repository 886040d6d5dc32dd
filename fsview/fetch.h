/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the view asks of the node: each request has a deadline and ends in 0 or a -errno that a file
 * system may give: -ENOENT, -ESTALE (another object, or none, where one was), -EACCES, -EIO for
 * everything that is the node's fault. When the node stops answering that is one log line, and one
 * when it answers again.
 *
 * Any thread.
 */
#ifndef FSVIEW_FETCH_H
#define FSVIEW_FETCH_H

#include <larder/client.h>

#include "spaces.h"
#include "tree.h"

struct fetch;

struct fetch_options {
	const char *url;
	uint32_t deadline_ms;
	const struct process_clock *clock;
	/* called in each listing, for tenants that have no namespace */
	void (*more)(void *user);
	void *user;
};

int fetch_open(const struct fetch_options *o, struct spaces *spaces, struct fetch **ret);
void fetch_close(struct fetch *f);

/*
 * The calling thread begins with a request: all its calls until the next one share one deadline.
 * fetch_end: when that is; fetch_is_late: more than half of the time is over.
 */
void fetch_begin(struct fetch *f);
uint64_t fetch_end(struct fetch *f);
bool fetch_is_late(struct fetch *f);

/* Lists the namespaces anew if the last listing is older than @age_ms. */
int fetch_spaces(struct fetch *f, uint32_t age_ms);

/* By key, or by hash; the key that has the hash goes to @key then. */
int fetch_stat(struct fetch *f, const struct space *space, struct tree_key *key,
	       struct larder_stat *ret);
/* What lies in the slot of @node, if it is still that object: else -ESTALE. */
int fetch_node(struct fetch *f, const struct space *space, const struct tree_node *node,
	       struct tree_key *key, struct larder_stat *ret);
/* One page of objects from *@cursor on, 0 at the end. @fn as in larder_list. */
int fetch_list(struct fetch *f, const struct space *space, uint64_t *cursor, uint32_t max,
	       bool (*fn)(void *user, const void *key, size_t key_len,
			  const struct larder_stat *st),
	       void *user);
int fetch_descriptor(struct fetch *f, const struct space *space, struct larder_descriptor *ret);
/* @len bytes from @offset of the object with @inode, all of them or -errno. */
int fetch_range(struct fetch *f, const struct space *space, const struct tree_key *key,
		uint64_t inode, uint64_t offset, void *buffer, size_t len);
/* Memory that the node writes into without a copy. */
int fetch_memory(struct fetch *f, size_t size, struct larder_region **ret);

struct fetch_info {
	char url[256];
	bool connected;
	uint32_t page_size;
};
void fetch_get_info(struct fetch *f, struct fetch_info *ret);

#endif
