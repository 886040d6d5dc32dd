/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the global options to an open namespace. The secret is read from a file, never from the
 * command line or the environment, which others can see; it is wiped as soon as the library has its
 * copy.
 */
#include "ctl/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "ctl/progress.h"

int session_read_secret(const char *path, void *secret, size_t *ret_len)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	unsigned char buffer[SESSION_SECRET_MAX + 2];
	size_t len = 0;
	int r = 0;

	if (fd < 0)
		return -errno;
	while (len < sizeof(buffer)) {
		ssize_t n = read(fd, buffer + len, sizeof(buffer) - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			r = -errno;
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	if (!r && len && buffer[len - 1] == '\n')
		len--;
	if (!r && (!len || len > SESSION_SECRET_MAX))
		r = -EINVAL;
	if (!r) {
		memcpy(secret, buffer, len);
		*ret_len = len;
	}
	explicit_bzero(buffer, sizeof(buffer));
	return r;
}

static void session_log(void *user, int level, const char *text)
{
	fprintf(stderr, "larder: %s\n", text);
}

static const struct larder_log session_verbose = {
	.line = session_log, .level = LARDER_LOG_DEBUG,
};

int session_options(const struct ctl *ctl, struct larder_client_options *options, void *secret)
{
	size_t len;
	int r;

	*options = (struct larder_client_options)LARDER_CLIENT_OPTIONS_INIT;
	options->url = ctl->url;
	options->tenant = ctl->tenant;
	options->deadline_ms = ctl->deadline_ms;
	options->log = ctl->verbose ? &session_verbose : NULL;
	if (!ctl->tenant)
		return ctl_usage(NULL, "no tenant: give --tenant or set LARDER_TENANT");
	if (!ctl->secret_file)
		return ctl_usage(NULL, "no secret: give --secret-file or set LARDER_SECRET_FILE");
	r = session_read_secret(ctl->secret_file, secret, &len);
	if (r == -EINVAL)
		return ctl_fail(CTL_USAGE, "%s: a secret has 1 to %u bytes", ctl->secret_file,
				SESSION_SECRET_MAX);
	if (r < 0)
		return ctl_fail(CTL_USAGE, "%s: %s", ctl->secret_file, strerror(-r));
	options->secret = secret;
	options->secret_len = len;
	return CTL_DONE;
}

int session_connect(const struct ctl *ctl, const char *what, struct session *ret)
{
	unsigned char secret[SESSION_SECRET_MAX];
	struct larder_client_options options;
	struct session s = SESSION_NULL;
	int r = session_options(ctl, &options, secret);

	if (r)
		return r;
	r = larder_open(&options, &s.client);
	explicit_bzero(secret, sizeof(secret));
	if (r == -EINVAL)
		return ctl_fail(CTL_USAGE, "%s: %s", what, larder_last_error());
	if (r)
		return ctl_result(r, "%s: %s", what, ctl->url);
	*ret = s;
	return CTL_DONE;
}

int session_open(const struct ctl *ctl, const char *what, const char *otherwise, bool create,
		 struct session *ret)
{
	const char *text = ctl->ns ? ctl->ns : otherwise;
	struct session s = SESSION_NULL;
	char name[SESSION_NS_SIZE];
	int r = session_ns_parse(what, text, name);

	if (!r)
		r = session_connect(ctl, what, &s);
	if (r)
		return r;
	s.ns_name = text;
	r = larder_ns_open(s.client, name, NULL, create ? LARDER_NS_CREATE : 0,
			   ctl->deadline_ms, &s.ns);
	if (r) {
		/* "no such object" would be misread here */
		if (r == LARDER_NOT_FOUND)
			r = ctl_fail(CTL_NOT_FOUND, "%s: no such namespace: %s (NOT_FOUND)", what,
				     s.ns_name);
		else
			r = ctl_result(r, "%s: namespace %s", what, s.ns_name);
		larder_close(s.client);
		return r;
	}
	*ret = s;
	return CTL_DONE;
}

int session_ns_parse(const char *what, const char *text, char *name)
{
	const char *colon = strchr(text, ':'), *spelled = colon ? colon + 1 : text;
	size_t tenant = (size_t)(spelled - text);
	unsigned char bytes[LARDER_KEY_MAX];
	bool is_hash = false;
	int n = larder_key_parse(spelled, bytes, sizeof(bytes), &is_hash);

	if (n < 0 || is_hash)
		return ctl_usage(what, "%s: not a namespace in its canonical spelling", text);
	if (n > (int)LARDER_NS_NAME_MAX || memchr(bytes, 0, (size_t)n))
		return ctl_usage(what, "%s: a namespace's name has 1 to %u bytes and no NUL", text,
				 LARDER_NS_NAME_MAX);
	if (colon && (tenant < 2 || tenant > LARDER_TENANT_NAME_MAX + 1u))
		return ctl_usage(what, "%s: before the ':' stands a tenant", text);
	memcpy(name, text, tenant);
	memcpy(name + tenant, bytes, (size_t)n);
	name[tenant + (size_t)n] = '\0';
	return CTL_DONE;
}

void session_ns_format(const char *name, char text[SESSION_NS_TEXT_SIZE])
{
	/* in full: a short name by hash could not be typed again */
	if (larder_key_format(name, strlen(name), text, SESSION_NS_TEXT_SIZE) < 0)
		strcpy(text, "?");	/* a name of no byte, which no node gives */
}

void session_close(struct session *s)
{
	larder_close(TAKE_PTR(s->client));
}

int session_key_parse(const char *what, const char *text, bool whole, struct session_key *ret)
{
	bool is_hash = false;
	int n = larder_key_parse(text, ret->bytes, sizeof(ret->bytes), &is_hash);

	if (n < 0)
		return ctl_usage(what, "%s: not a key in its canonical spelling", text);
	if (is_hash && whole)
		return ctl_usage(what, "%s: a name by hash can not be used here", text);
	ret->text = text;
	ret->len = (size_t)n;
	ret->flags = is_hash ? LARDER_F_BY_HASH : 0;
	return CTL_DONE;
}

int session_run(const struct session *s, const char *what, struct larder_batch *batch)
{
	struct progress_watch watch;
	int r;

	progress_watch_begin(&watch, what);
	r = larder_run(s->client, batch);
	progress_watch_end(&watch);
	return r;
}

int session_run_one(const struct session *s, const struct ctl *ctl, uint8_t opcode, uint32_t flags,
		    const struct session_key *key, struct larder_item *item)
{
	struct larder_batch batch = {
		.opcode = opcode,
		.ns = s->ns,
		.flags = flags | key->flags,
		.deadline_ms = ctl->deadline_ms,
		.items = item,
		.n_items = 1,
	};

	item->key = key->bytes;
	item->key_len = key->len;
	return session_run(s, key->text, &batch);
}
