/* SPDX-License-Identifier: Apache-2.0 */
/* A connection with a namespace, as the data commands want it; and keys as words. */
#ifndef LARDERCTL_SESSION_H
#define LARDERCTL_SESSION_H

#include <larder/client.h>
#include <larder/key.h>

#include "ctl/ctl.h"

#define SESSION_NS_DEFAULT "default"
#define SESSION_SECRET_MAX 1024u
#define SESSION_NS_SIZE (LARDER_TENANT_NAME_MAX + 1u + LARDER_NS_NAME_MAX + 1u)
#define SESSION_NS_TEXT_SIZE (3u * SESSION_NS_SIZE)

struct session {
	struct larder_client *client;
	const char *ns_name;	/* as it was spelled */
	uint32_t ns;
};
#define SESSION_NULL ((struct session){ 0 })

/* The secret of @path without one newline at its end. 0 or -errno (-EINVAL: empty or too long). */
int session_read_secret(const char *path, void *secret, size_t *ret_len);

/*
 * Fills @options from the global ones; @secret (room for SESSION_SECRET_MAX) must live until the
 * handle is open. The exit code; a fault was told.
 */
int session_options(const struct ctl *ctl, struct larder_client_options *options, void *secret);
/* A handle without a namespace. The exit code; a fault was told. */
int session_connect(const struct ctl *ctl, const char *what, struct session *ret);
/*
 * A handle and the namespace of --ns (@otherwise when none was named), made when @create. @what
 * opens the line that tells a fault.
 */
int session_open(const struct ctl *ctl, const char *what, const char *otherwise, bool create,
		 struct session *ret);
void session_close(struct session *s);

/*
 * Namespaces are spelled as keys are; in "tenant:name" the ':' divides, one inside of a name is
 * %3A. @name has room for SESSION_NS_SIZE; a name with a NUL is no C string and is refused, too.
 * The exit code; a fault was told.
 */
int session_ns_parse(const char *what, const char *text, char *name);
/* The spelling of a name that the node gave; always one that parses. */
void session_ns_format(const char *name, char text[SESSION_NS_TEXT_SIZE]);

/* A key as it was spelled, parsed. */
struct session_key {
	const char *text;
	size_t len;
	uint32_t flags;		/* LARDER_F_BY_HASH for a "~h" name */
	unsigned char bytes[LARDER_KEY_MAX];
};
/* CTL_USAGE (told): @text is no canonical spelling, or a name by hash where @whole is wanted. */
int session_key_parse(const char *what, const char *text, bool whole, struct session_key *ret);
/* larder_run with something to look at when it takes long; @what is for that. */
int session_run(const struct session *s, const char *what, struct larder_batch *batch);
/* One item with @key; @flags of the batch besides. Runs it; 0, a status or -errno. */
int session_run_one(const struct session *s, const struct ctl *ctl, uint8_t opcode, uint32_t flags,
		    const struct session_key *key, struct larder_item *item);

#endif
