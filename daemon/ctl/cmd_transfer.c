/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put and get: whole values between the node and a file, through memory.
 *
 * The size of a value isn't known before a GET. The buffer begins at GET_FIRST, which most tools'
 * values fit; TOO_SMALL tells the size before the first byte, and the second try has room for it.
 * A file is written after the bytes were verified, so that a failed GET leaves no file behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "ctl/output.h"
#include "ctl/session.h"

#define GET_FIRST (1024u * 1024u)
#define GET_TRIES 4
#define VALUE_MAX (256ull * 1024 * 1024)

struct get_request {
	struct session_key key;
	bool range;
	uint64_t offset;
	uint64_t length;	/* 0: to the end */
	const char *output;
	uint32_t flags;
};

static int put_read(const char *path, void **ret, size_t *ret_len)
{
	_cleanup_close_ int opened = -1;
	int fd = STDIN_FILENO, r;

	if (strcmp(path, "-")) {
		opened = open(path, O_RDONLY | O_CLOEXEC);
		if (opened < 0)
			return ctl_fail(CTL_FAILED, "%s: %s", path, strerror(errno));
		fd = opened;
	}
	r = util_read_all(fd, VALUE_MAX, ret, ret_len);
	if (r == -EFBIG)
		return ctl_fail(CTL_REFUSED, "%s: more than %llu bytes (TOO_LARGE)", path,
				VALUE_MAX);
	if (r < 0)
		return ctl_fail(CTL_FAILED, "%s: %s", path, strerror(-r));
	if (!*ret_len)
		return ctl_fail(CTL_REFUSED, "%s: empty: a value has at least one byte", path);
	return CTL_DONE;
}

/* The line for a person and, where JSON was asked for, the document. The exit code. */
static int transfer_failed(const struct ctl *ctl, const char *what, const struct session_key *key,
			   int r)
{
	json_t *doc;

	if (ctl->json && r > 0) {
		doc = json_object();
		json_set_text(doc, "key", key->text);
		json_set_text(doc, "status", larder_status_name(r));
		(void)output_json(doc);		/* the failure itself is what is told */
	}
	return ctl_result(r, "%s %s", what, key->text);
}

static int put_run(struct ctl *ctl, const struct session_key *key, const void *value, size_t len,
		   uint32_t ttl_ms, uint32_t flags)
{
	struct iovec iov = { (void *)(uintptr_t)value, len };
	struct larder_item item = {
		.key = key->bytes, .key_len = key->len, .iov = &iov, .iovcnt = 1,
	};
	struct larder_batch batch = {
		.opcode = LARDER_OP_PUT, .flags = flags, .deadline_ms = ctl->deadline_ms,
		.ttl_ms = ttl_ms, .items = &item, .n_items = 1,
	};
	struct session s;
	json_t *doc;
	int r = session_open(ctl, "put", SESSION_NS_DEFAULT, true, &s);

	if (r)
		return r;
	batch.ns = s.ns;
	r = session_run(&s, key->text, &batch);
	session_close(&s);
	/* a batch folds EXISTS_SAME into 0: the item knows which it was */
	if (!r)
		r = item.status;
	if (r != LARDER_OK && r != LARDER_EXISTS_SAME)
		return transfer_failed(ctl, "put", key, r);
	if (!ctl->json)
		return CTL_DONE;
	doc = json_object();
	json_set_text(doc, "key", key->text);
	json_set_u64(doc, "size_bytes", len);
	json_set_text(doc, "status", larder_status_name(r));
	return output_json(doc);
}

int cmd_put(struct ctl *ctl, int argc, char **argv)
{
	static const struct option own[] = {
		{ "ttl", required_argument, NULL, 256 },
		{ "nowait", no_argument, NULL, 257 },
		{ 0 },
	};
	_cleanup_free_ void *value = NULL;
	struct session_key key;
	uint64_t ttl_ns = 0;
	uint32_t flags = 0;
	size_t len = 0;
	int c, r;

	while ((c = ctl_getopt(ctl, argc, argv, "", own)) != -1) {
		if (c == '?')
			return CTL_USAGE;
		if (c == 256 && ctl_take_duration("--ttl", optarg, &ttl_ns))
			return CTL_USAGE;
		if (c == 257)
			flags |= LARDER_F_NOWAIT;
	}
	if (ctl->help)
		return ctl_help(ctl_command_find("put"));
	if (argc - optind < 1 || argc - optind > 2)
		return ctl_usage("put", "wanted KEY [FILE|-]");
	if (ttl_ns && (ttl_ns < NSEC_PER_MSEC || ttl_ns / NSEC_PER_MSEC > UINT32_MAX))
		return ctl_usage("put", "--ttl: 1 ms to 49 days");
	r = session_key_parse("put", argv[optind], true, &key);
	if (!r)
		r = put_read(argc - optind == 2 ? argv[optind + 1] : "-", &value, &len);
	return r ? r : put_run(ctl, &key, value, len, (uint32_t)(ttl_ns / NSEC_PER_MSEC), flags);
}

/* "OFF:LEN", or "OFF:" for what is left from there. */
static int get_parse_range(const char *text, struct get_request *req)
{
	char offset[UTIL_TEXT];
	const char *colon = strchr(text, ':');

	if (!colon || (size_t)(colon - text) >= sizeof(offset))
		return ctl_usage("get", "--range %s: wanted OFF:LEN", text);
	memcpy(offset, text, (size_t)(colon - text));
	offset[colon - text] = '\0';
	if (util_parse_size(offset, &req->offset) < 0 ||
	    (colon[1] && (util_parse_size(colon + 1, &req->length) < 0 || !req->length ||
			  req->length > VALUE_MAX)))
		return ctl_usage("get", "--range %s: wanted OFF:LEN", text);
	req->range = true;
	return CTL_DONE;
}

/* A range's length when it goes to the end: the value's size is asked first. */
static int get_measure(struct ctl *ctl, const struct session *s, struct get_request *req)
{
	struct larder_item item = { 0 };
	int r = session_run_one(s, ctl, LARDER_OP_STAT, 0, &req->key, &item);

	if (r)
		return transfer_failed(ctl, "get", &req->key, r);
	if (req->offset >= item.stat.size_bytes)
		return ctl_fail(CTL_REFUSED, "get %s: it has %" PRIu64 " bytes (BAD_REQUEST)",
				req->key.text, item.stat.size_bytes);
	req->length = item.stat.size_bytes - req->offset;
	return CTL_DONE;
}

static int get_fetch(struct ctl *ctl, const struct session *s, struct get_request *req,
		     void **ret_value, size_t *ret_len)
{
	uint32_t flags = req->flags | (req->range ? 0 : LARDER_F_WHOLE);
	uint64_t room = req->range ? req->length : GET_FIRST;
	int r = 0;

	for (int i = 0; i < GET_TRIES; i++) {
		_cleanup_free_ void *buffer = malloc(room);
		struct iovec iov = { buffer, room };
		struct larder_item item = {
			.iov = &iov, .iovcnt = 1, .offset = req->offset, .length = req->length,
		};

		if (!buffer)
			return ctl_fail(CTL_FAILED, "get %s: %s", req->key.text, strerror(ENOMEM));
		r = session_run_one(s, ctl, LARDER_OP_GET, flags, &req->key, &item);
		if (!r) {
			*ret_value = TAKE_PTR(buffer);
			*ret_len = item.done_bytes;
			return CTL_DONE;
		}
		/* the object may be replaced by a larger one between two tries */
		if (r != LARDER_TOO_SMALL || req->range || item.stat.size_bytes <= room)
			break;
		room = item.stat.size_bytes;
	}
	return transfer_failed(ctl, "get", &req->key, r);
}

static int get_save(const char *path, const void *value, size_t len)
{
	_cleanup_close_ int fd = -1;
	int r;

	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0)
		return ctl_fail(CTL_FAILED, "%s: %s", path, strerror(errno));
	r = util_write_all(fd, value, len);
	if (!r && close(TAKE_FD(fd)) < 0)
		r = -errno;
	return r ? ctl_fail(CTL_FAILED, "%s: %s", path, strerror(-r)) : CTL_DONE;
}

static int get_tell(struct ctl *ctl, const struct get_request *req, const void *value, size_t len)
{
	bool to_stdout = !req->output || !strcmp(req->output, "-");
	json_t *doc;
	int r;

	if (!to_stdout) {
		r = get_save(req->output, value, len);
		if (r)
			return r;
	}
	if (!ctl->json) {
		r = to_stdout ? util_write_all(STDOUT_FILENO, value, len) : 0;
		return r ? ctl_fail(CTL_FAILED, "standard output: %s", strerror(-r)) : CTL_DONE;
	}
	doc = json_object();
	json_set_text(doc, "key", req->key.text);
	json_set_u64(doc, "offset", req->offset);
	json_set_u64(doc, "size_bytes", len);
	if (to_stdout) {
		_cleanup_free_ char *text = output_base64(value, len);

		json_set(doc, "value_base64", text ? json_string(text) : NULL);
	} else {
		json_set_text(doc, "file", req->output);
	}
	return output_json(doc);
}

int cmd_get(struct ctl *ctl, int argc, char **argv)
{
	static const struct option own[] = {
		{ "output", required_argument, NULL, 'o' },
		{ "range", required_argument, NULL, 256 },
		{ "wait", no_argument, NULL, 257 },
		{ "verify", no_argument, NULL, 258 },
		{ 0 },
	};
	struct get_request req = { 0 };
	_cleanup_free_ void *value = NULL;
	struct session s;
	size_t len = 0;
	int c, r;

	while ((c = ctl_getopt(ctl, argc, argv, "o:", own)) != -1) {
		if (c == '?' || (c == 256 && get_parse_range(optarg, &req)))
			return CTL_USAGE;
		if (c == 'o')
			req.output = optarg;
		if (c == 257)
			req.flags |= LARDER_F_WAIT;
		if (c == 258)
			req.flags |= LARDER_F_VERIFY;
	}
	if (ctl->help)
		return ctl_help(ctl_command_find("get"));
	if (argc - optind != 1)
		return ctl_usage("get", "wanted one KEY");
	r = session_key_parse("get", argv[optind], false, &req.key);
	if (r)
		return r;
	r = session_open(ctl, "get", SESSION_NS_DEFAULT, false, &s);
	if (r)
		return r;
	if (req.range && !req.length)
		r = get_measure(ctl, &s, &req);
	if (!r)
		r = get_fetch(ctl, &s, &req, &value, &len);
	session_close(&s);
	return r ? r : get_tell(ctl, &req, value, len);
}
