/* SPDX-License-Identifier: Apache-2.0 */
/* Peers of the RESP port over loop: bytes out, bytes expected. */
#ifndef LARDER_TESTS_NODE_RESP_SPEAK_H
#define LARDER_TESTS_NODE_RESP_SPEAK_H

#include "rig.h"
#include "speak.h"

#define RESP_AUTH "*3\r\n$4\r\nAUTH\r\n$4\r\ndemo\r\n$13\r\n" RIG_SECRET "\r\n"

/* Where RESP is spoken, beside where the rig's native peers are. */
struct resp_rig {
	struct rig *rig;
	char address[64];
};

static inline struct resp_rig resp_rig_open(struct rig *r)
{
	static uint32_t count;
	struct resp_rig ret = { .rig = r };
	char url[96];

	rig_open(r);
	snprintf(ret.address, sizeof(ret.address), "resp-%u", ++count);
	snprintf(url, sizeof(url), "resp+loop://%s", ret.address);
	assert_int_equal(larder_node_listen(r->node, url), 0);
	return ret;
}

static inline struct peer *resp_connect(const struct resp_rig *rr)
{
	char native[TRANSPORT_ADDR_TEXT];
	struct peer *p;

	memcpy(native, rr->rig->address, sizeof(native));
	snprintf(rr->rig->address, sizeof(rr->rig->address), "%s", rr->address);
	p = peer_connect(rr->rig);
	memcpy(rr->rig->address, native, sizeof(native));
	return p;
}

/* What comes must be @expected, byte for byte. */
static inline void resp_expect_bytes(struct peer *p, const void *expected, size_t len)
{
	char *got = calloc(1, len + 1);

	assert_non_null(got);
	if (!peer_read(p, got, (uint32_t)len))
		fail_msg("the connection ended instead of \"%.60s\"", (const char *)expected);
	if (memcmp(got, expected, len) != 0)
		fail_msg("got \"%.100s\", not \"%.100s\"", got, (const char *)expected);
	free(got);
}

static inline void resp_expect(struct peer *p, const char *expected)
{
	resp_expect_bytes(p, expected, strlen(expected));
}

/* Only how a line begins; all of it is read. */
static inline void resp_expect_line(struct peer *p, const char *start)
{
	char line[512];
	size_t n = 0;

	do {
		if (n == sizeof(line) - 1 || !peer_read(p, line + n, 1))
			fail_msg("no line instead of \"%s\" (%s)", start,
				 p->rig->last_line);
		n++;
	} while (n < 2 || line[n - 1] != '\n');
	line[n] = '\0';
	if (strncmp(line, start, strlen(start)) != 0)
		fail_msg("got \"%s\", not \"%s\"", line, start);
}

static inline void resp_raw(struct peer *p, const char *text)
{
	peer_write(p, text, strlen(text));
}

static inline void resp_say(struct peer *p, const char *text, const char *expected)
{
	peer_write(p, text, strlen(text));
	resp_expect(p, expected);
}

/* "get key" as a command, its words parted by blanks. */
static inline void resp_send(struct peer *p, const char *words)
{
	char text[4096], rest[2048], *save = NULL;
	size_t at = 0, n = 0;

	snprintf(rest, sizeof(rest), "%s", words);
	for (char *w = strtok_r(rest, " ", &save); w; w = strtok_r(NULL, " ", &save))
		n++;
	at = (size_t)sprintf(text, "*%zu\r\n", n);
	snprintf(rest, sizeof(rest), "%s", words);
	for (char *w = strtok_r(rest, " ", &save); w; w = strtok_r(NULL, " ", &save))
		at += (size_t)sprintf(text + at, "$%zu\r\n%s\r\n", strlen(w), w);
	peer_write(p, text, at);
}

static inline void resp_do(struct peer *p, const char *words, const char *expected)
{
	resp_send(p, words);
	resp_expect(p, expected);
}

static inline void resp_do_line(struct peer *p, const char *words, const char *start)
{
	resp_send(p, words);
	resp_expect_line(p, start);
}

static inline struct peer *resp_open(const struct resp_rig *rr)
{
	struct peer *p = resp_connect(rr);

	resp_say(p, RESP_AUTH, "+OK\r\n");
	return p;
}

/* SET of @len bytes, in pieces of at most @piece. The answer is the caller's to expect. */
static inline void resp_set_bytes(struct peer *p, const char *key, const uint8_t *value,
				  size_t len, size_t piece)
{
	char head[1200];
	int n = snprintf(head, sizeof(head), "*3\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$%zu\r\n",
			 strlen(key), key, len);

	peer_write(p, head, (size_t)n);
	for (size_t at = 0; at < len; at += piece)
		peer_write(p, value + at, MIN(piece, len - at));
	peer_write(p, "\r\n", 2);
}

static inline void resp_get_bytes(struct peer *p, const char *key, const uint8_t *value,
				  size_t len)
{
	char words[1200], head[32];

	snprintf(words, sizeof(words), "GET %s", key);
	resp_send(p, words);
	snprintf(head, sizeof(head), "$%zu\r\n", len);
	resp_expect(p, head);
	for (size_t at = 0; at < len; at += 100000)
		resp_expect_bytes(p, value + at, MIN(len - at, (size_t)100000));
	resp_expect(p, "\r\n");
}

#endif
