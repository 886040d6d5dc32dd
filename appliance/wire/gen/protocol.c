/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints docs/protocol.md from protocol.md.in (its one argument), ops.def, fields.def, the statuses
 * and the codec itself. Lines that begin with '@' are replaced by a table or an example, words in
 * braces by the constant's value.
 *
 * What keeps page and code together: layouts and numbers come from the compiler and examples from
 * the codec; a struct with a byte that fields.def does not describe, a struct that the page leaves
 * out, an unknown directive or constant end the program with status 1.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <larder/status.h>

#include "base/compiler.h"
#include "wire/mac.h"
#include "wire/wire.h"

/* --- what the tables are made of ------------------------------------------------------------- */

#define TYPE_OF(x)                                                                                 \
	_Generic((x),                                                                              \
		uint8_t: "u8",                                                                     \
		uint16_t: "u16",                                                                   \
		uint32_t: "u32",                                                                   \
		uint64_t: "u64",                                                                   \
		uint8_t *: "bytes",                                                                \
		char *: "text",                                                                    \
		struct wire_common: "`common`",                                                    \
		struct larder_descriptor: "`descriptor`",                                          \
		struct larder_stat: "`stat`, of an object")

struct field {
	const char *of;
	const char *name;
	const char *type;
	size_t offset;
	size_t size;
	const char *meaning;
};

static const struct field fields[] = {
#define STRUCT(s, sentence_)
#define FIELD(s, member, meaning_)                                                                 \
	{ #s, #member, TYPE_OF(((struct s *)0)->member), offsetof(struct s, member),               \
	  sizeof(((struct s *)0)->member), meaning_ },
#include "wire/gen/fields.def"
#undef STRUCT
#undef FIELD
};

struct described {
	const char *name;
	size_t size;
	const char *sentence;
	bool printed;
};

static struct described structs[] = {
#define STRUCT(s, sentence_) { #s, sizeof(struct s), sentence_, false },
#define FIELD(s, member, meaning_)
#include "wire/gen/fields.def"
#undef STRUCT
#undef FIELD
};

struct operation {
	uint8_t number;
	const char *request;
	const char *reply;
};

static const struct operation operations[] = {
#define OP(name, request_, reply_, flags, sentence) { LARDER_OP_##name, #request_, #reply_ },
#include "wire/ops.def"
#undef OP
};

struct flag {
	const char *name;
	uint32_t bit;
	const char *operations;
	const char *meaning;
};

static const struct flag flags[] = {
	{ "NOWAIT", LARDER_F_NOWAIT, "PUT", "BUSY at once where another writer is at work" },
	{ "WAIT", LARDER_F_WAIT, "GET, EXISTS",
	  "wait for a key that is being written or that somebody else is to fill: until it is"
	  " there, given up, or the deadline; with FILL only for the first missing key" },
	{ "VERIFY", LARDER_F_VERIFY, "GET",
	  "the node checks its own memory first and takes a bad object out of service" },
	{ "BY_HASH", LARDER_F_BY_HASH, "GET, STAT, DELETE",
	  "the key is the 16 bytes of XXH3-128(key), big-endian; BAD_REQUEST when ambiguous" },
	{ "FORCE", LARDER_F_FORCE, "DELETE, NS_FLUSH, NS_RETIRE", "over leases and hard pins" },
	{ "WHOLE", LARDER_F_WHOLE, "GET", "the whole value or TOO_SMALL" },
	{ "LEASE", LARDER_F_LEASE, "EXISTS", "lease what is found, by `lease_id` and `lease_ms`" },
	{ "FILL", LARDER_F_FILL, "EXISTS, GET",
	  "take the fill lease of the message's first missing key, if nobody has it: status FILL" },
	{ "HARD", LARDER_F_HARD, "PIN, UNPIN",
	  "the hard pin, never evicted, instead of the soft one, evicted last" },
	{ "NO_CHECKS", LARDER_F_NO_CHECKS, "GET", "the reader does not want checks" },
};

struct constant {
	const char *name;
	unsigned long value;
	const char *limit;	/* sentence in the table of limits, or NULL */
};

#define CONSTANT(name, limit_) { #name, name, limit_ }
static const struct constant constants[] = {
	CONSTANT(WIRE_VERSION, NULL),
	CONSTANT(WIRE_HEADER_SIZE, NULL),
	CONSTANT(WIRE_MAC_SIZE, NULL),
	CONSTANT(WIRE_MESSAGE_MAX, "header and body, unless the welcome says otherwise"),
	CONSTANT(WIRE_PRE_AUTH_MAX, "body, before the handshake is over"),
	CONSTANT(LARDER_CHECK_BLOCK, "bytes of a value that share a check"),
	CONSTANT(LARDER_KEY_MAX, "bytes of a key, and of a prefix"),
	CONSTANT(LARDER_KEY_HASH_SIZE, "bytes of a key's hash"),
	CONSTANT(WIRE_KEYS_MAX, "keys in one message"),
	CONSTANT(WIRE_STAT_KEYS_MAX, "keys in one STAT, so that its answer fits a message"),
	CONSTANT(WIRE_SEGS_MAX, "segments in one request"),
	CONSTANT(LARDER_NS_NAME_MAX, "bytes of a namespace's name"),
	CONSTANT(WIRE_NS_NAME_MAX, "bytes of a namespace's name with a tenant and a `:` in front"),
	CONSTANT(LARDER_TENANT_NAME_MAX, "bytes of a tenant's name"),
	CONSTANT(WIRE_OPAQUE_MAX, "bytes of a region's description"),
	{ "MAC_LABEL_CLIENT_LEN", sizeof(MAC_LABEL_CLIENT) - 1, NULL },
	{ "MAC_LABEL_NODE_LEN", sizeof(MAC_LABEL_NODE) - 1, NULL },
};

static void _printf_(1, 2) __attribute__((noreturn)) die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)fputs("protocol: ", stderr);
	(void)vfprintf(stderr, fmt, ap);
	(void)fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

/* --- text ------------------------------------------------------------------------------------ */

/* "wire_put" and "larder_stat" are "put" and "stat" on the page. */
static const char *short_name(const char *name)
{
	return strchr(name, '_') + 1;
}

static void print_constant(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(constants); i++) {
		if (strlen(constants[i].name) == len && !memcmp(constants[i].name, name, len)) {
			printf("%lu", constants[i].value);
			return;
		}
	}
	die("no constant {%.*s}", (int)len, name);
}

static void print_text(const char *text)
{
	for (const char *p = text; *p; p++) {
		const char *end = *p == '{' ? strchr(p, '}') : NULL;

		if (!end) {
			putchar(*p);
			continue;
		}
		print_constant(p + 1, (size_t)(end - p - 1));
		p = end;
	}
}

/* --- directives ------------------------------------------------------------------------------ */

static struct described *find_struct(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(structs); i++) {
		if (strcmp(structs[i].name, name) == 0)
			return &structs[i];
	}
	die("struct %s is not in fields.def", name);
}

static void print_type(const struct field *f)
{
	if (strcmp(f->type, "bytes") == 0 || strcmp(f->type, "text") == 0)
		printf("%s[%zu]", f->type, f->size);
	else
		printf("%s", f->type);
}

static void print_struct(const char *name)
{
	struct described *s = find_struct(name);
	size_t end = 0;

	printf("**`%s`**, %zu bytes%s%s\n\n", short_name(name), s->size, *s->sentence ? ". " : ".",
	       s->sentence);
	printf("| offset | type | field | meaning |\n|---|---|---|---|\n");
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const struct field *f = &fields[i];

		if (strcmp(f->of, name))
			continue;
		if (f->offset != end)
			die("struct %s: bytes %zu to %zu are not described", name, end, f->offset);
		end = f->offset + f->size;
		printf("| %zu | ", f->offset);
		print_type(f);
		printf(" | `%s` | ", f->name);
		print_text(f->meaning);
		printf(" |\n");
	}
	if (end != s->size)
		die("struct %s: bytes %zu to %zu are not described", name, end, s->size);
	s->printed = true;
}

static void print_operations(void)
{
	printf("| number | name | request | reply | payload | early | control | viewer | "
	       "what it does |\n|---|---|---|---|---|---|---|---|---|\n");
	for (size_t i = 0; i < ARRAY_SIZE(operations); i++) {
		const struct operation *o = &operations[i];
		const struct wire_op_info *info = wire_op_info(o->number);

		if (!info)
			die("operation %#x has no entry", o->number);
		printf("| 0x%02x | %s | `%s`%s | `%s` | %s | %s | %s | %s | %s |\n", o->number,
		       info->name, short_name(find_struct(o->request)->name),
		       info->flags & WIRE_OP_KEYS ? ", keys" : "",
		       short_name(find_struct(o->reply)->name),
		       info->flags & WIRE_OP_PAYLOAD ? "request" :
		       info->flags & WIRE_OP_REPLY_PAYLOAD ? "reply" : "",
		       info->flags & WIRE_OP_PRE_AUTH ? "yes" : "",
		       info->flags & WIRE_OP_CONTROL ? "yes" : "",
		       info->flags & WIRE_OP_VIEWER ? "yes" : "", info->sentence);
	}
}

static void print_statuses(void)
{
	printf("| number | name | errno | meaning |\n|---|---|---|---|\n");
#define STATUS(name, number, err, code, text)                                                      \
	printf("| %d | %s | %s | %s |\n", number, #name, strcmp(#err, "0") ? #err : "", text);
	LARDER_STATUS_TABLE(STATUS)
#undef STATUS
}

static void print_flags(void)
{
	uint32_t all = 0;

	printf("| number | name | operations | meaning |\n|---|---|---|---|\n");
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		printf("| %u | %s | %s | %s |\n", flags[i].bit, flags[i].name, flags[i].operations,
		       flags[i].meaning);
		all |= flags[i].bit;
	}
	if (all != (uint32_t)WIRE_CLIENT_FLAGS)
		die("flags %#x are not described", all ^ (uint32_t)WIRE_CLIENT_FLAGS);
}

static void print_limits(void)
{
	printf("| at most | what |\n|---|---|\n");
	for (size_t i = 0; i < ARRAY_SIZE(constants); i++) {
		if (constants[i].limit)
			printf("| %lu | %s |\n", constants[i].value, constants[i].limit);
	}
}

/* --- examples -------------------------------------------------------------------------------- */

static void print_bytes(const uint8_t *bytes, size_t len)
{
	printf("```\n");
	for (size_t i = 0; i < len; i++)
		printf("%02x%s", bytes[i], i + 1 == len || i % 16 == 15 ? "\n" : " ");
	printf("```\n");
}

static int example_message(uint8_t *out, uint8_t op, uint16_t header_flags, uint64_t id,
			   const void *body, uint32_t len)
{
	struct wire_writer w;
	int n;

	wire_begin(&w, out, WIRE_MESSAGE_MAX);
	wire_append(&w, body, len);
	n = wire_finish(&w, op, header_flags, LARDER_OK, id, 0);
	if (n < 0)
		die("example: %s", strerror(-n));
	return n;
}

static void example_mac(const char *label, const struct iovec *parts, int n, uint8_t *mac)
{
	static const char secret[] = "larder-example";

	if (mac_compute(secret, strlen(secret), label, parts, n, mac))
		die("example: HMAC failed");
}

static void print_handshake(const char *part)
{
	static uint8_t messages[3][WIRE_MESSAGE_MAX];
	struct wire_hello hello = {
		.version_min = WIRE_VERSION, .version_max = WIRE_VERSION, .tenant_len = 4,
		.check_block = LARDER_CHECK_BLOCK, .tenant = "demo",
	};
	struct wire_challenge challenge = { .version = WIRE_VERSION };
	struct iovec parts[3] = {
		{ .iov_base = messages[0] },
		{ .iov_base = messages[1] },
		{ .iov_base = messages[2] },
	};
	struct wire_auth auth;
	uint8_t mac[WIRE_MAC_SIZE];

	for (uint8_t i = 0; i < WIRE_NONCE_SIZE; i++) {
		hello.nonce[i] = i;
		challenge.nonce[i] = (uint8_t)(i + WIRE_NONCE_SIZE);
	}
	parts[0].iov_len = (size_t)example_message(messages[0], LARDER_OP_HELLO, 0, 1, &hello,
						   sizeof(hello));
	parts[1].iov_len = (size_t)example_message(messages[1], LARDER_OP_HELLO, WIRE_REPLY, 1,
						   &challenge, sizeof(challenge));
	example_mac(MAC_LABEL_CLIENT, parts, 2, auth.mac);
	parts[2].iov_len = (size_t)example_message(messages[2], LARDER_OP_AUTH, 0, 2, &auth,
						   sizeof(auth));
	example_mac(MAC_LABEL_NODE, parts, 3, mac);
	if (strcmp(part, "hello") == 0)
		print_bytes(messages[0], parts[0].iov_len);
	else if (strcmp(part, "challenge") == 0)
		print_bytes(messages[1], parts[1].iov_len);
	else if (strcmp(part, "auth") == 0)
		print_bytes(messages[2], parts[2].iov_len);
	else if (strcmp(part, "node-mac") == 0)
		print_bytes(mac, sizeof(mac));
	else
		die("no example %s", part);
}

static void print_example(const char *what)
{
	static uint8_t message[WIRE_MESSAGE_MAX];
	struct wire_ping ping = { .token = 42 };
	bool pong = strcmp(what, "pong") == 0;

	if (!pong && strcmp(what, "ping")) {
		print_handshake(what);
		return;
	}
	print_bytes(message, (size_t)example_message(message, LARDER_OP_PING, pong ? WIRE_REPLY : 0,
						     1, &ping, sizeof(ping)));
}

/* --- the page -------------------------------------------------------------------------------- */

static void print_directive(const char *line)
{
	if (strncmp(line, "struct ", 7) == 0)
		print_struct(line + 7);
	else if (strncmp(line, "example ", 8) == 0)
		print_example(line + 8);
	else if (strcmp(line, "operations") == 0)
		print_operations();
	else if (strcmp(line, "statuses") == 0)
		print_statuses();
	else if (strcmp(line, "flags") == 0)
		print_flags();
	else if (strcmp(line, "limits") == 0)
		print_limits();
	else
		die("no directive @%s", line);
}

int main(int argc, char **argv)
{
	_cleanup_free_ char *line = NULL;
	size_t room = 0;
	ssize_t len;
	FILE *in;

	if (argc != 2)
		die("usage: protocol appliance/wire/gen/protocol.md.in >docs/protocol.md");
	in = fopen(argv[1], "re");
	if (!in)
		die("%s: %s", argv[1], strerror(errno));
	while ((len = getline(&line, &room, in)) > 0) {
		if (line[len - 1] == '\n')
			line[len - 1] = '\0';
		if (line[0] == '@') {
			print_directive(line + 1);
			continue;
		}
		print_text(line);
		putchar('\n');
	}
	if (ferror(in) || fclose(in))
		die("%s: can not be read", argv[1]);
	for (size_t i = 0; i < ARRAY_SIZE(structs); i++) {
		if (!structs[i].printed)
			die("the page leaves struct %s out", structs[i].name);
	}
	if (fflush(stdout) || ferror(stdout))
		die("can not write");
	return 0;
}
