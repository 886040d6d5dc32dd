/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the seeds of the corpus: one well-formed message of every kind and a few keys. Run by
 * `make fuzz-corpus` after a change of the wire; what fuzzing found is kept beside them by hand.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "../unit/wire/samples_reply.h"

static const struct {
	const char *name;
	const char *data;
	size_t len;
} key_seeds[] = {
#define SEED(name, data) { name, data, sizeof(data) - 1 }
	SEED("plain", "block_0001@tp-0+x=y.z"),
	SEED("escapes", "a/b c%d~e"),
	SEED("leading-dot", ".hidden"),
	SEED("leading-tilde", "~x61"),
	SEED("binary", "\0\1\2\377"),
	SEED("utf-8", "sch\303\266n"),
	SEED("text-escape", "a%2Fb"),
	SEED("text-escape-lower", "a%2fb"),
	SEED("text-escape-plain", "%61"),
	SEED("text-escape-cut", "a%2"),
	SEED("text-escape-binary", "%00"),
	SEED("text-hex", "~x00ff"),
	SEED("text-hex-upper", "~x00FF"),
	SEED("text-hex-odd", "~x0"),
	SEED("text-hex-printable", "~x6162"),
	SEED("text-hex-empty", "~x"),
	SEED("text-hash", "~h00112233445566778899aabbccddeeff"),
	SEED("text-hash-short", "~h00112233445566778899aabbccddee"),
	SEED("empty", ""),
};

static void store(const char *root, const char *folder, const char *name, const void *data,
		  size_t len)
{
	char path[4096];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", root, folder);
	if (mkdir(path, 0777) && errno != EEXIST) {
		perror(path);
		exit(1);
	}
	(void)snprintf(path, sizeof(path), "%s/%s/%s", root, folder, name);
	f = fopen(path, "wbe");
	if (!f || fwrite(data, 1, len, f) != len || fclose(f)) {
		perror(path);
		exit(1);
	}
}

static void store_messages(const char *root, const char *folder, const struct sample *samples,
			   size_t n)
{
	static uint8_t buffer[WIRE_MESSAGE_MAX];

	for (size_t i = 0; i < n; i++) {
		struct wire_writer w;
		int len;

		wire_begin(&w, buffer, sizeof(buffer));
		len = samples[i].build(&w);
		if (len < 0) {
			(void)fprintf(stderr, "%s: does not fit\n", samples[i].name);
			exit(1);
		}
		store(root, folder, samples[i].name, buffer, (size_t)len);
	}
}

static const struct {
	const char *name;
	const char *data;
} resp_seeds[] = {
	{ "set", "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n" },
	{ "set-options", "*6\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n$2\r\nEX\r\n"
			 "$2\r\n10\r\n$2\r\nNX\r\n" },
	{ "pipeline", "*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*0\r\n*-1\r\n"
		      "*1\r\n$4\r\nQUIT\r\n" },
	{ "auth", "*3\r\n$4\r\nAUTH\r\n$4\r\ndemo\r\n$6\r\nsecret\r\n" },
	{ "http", "GET / HTTP/1.1\r\nHost: x\r\n\r\n" },
	{ "inline", "PING\r\n" },
	{ "half", "*2\r\n$3\r\nGET\r\n$1000\r\nabc" },
	{ "too-many", "*1048577\r\n" },
	{ "too-long", "*1\r\n$536870913\r\n" },
	{ "wrong-length", "*1\r\n$2\r\nPING\r\n" },
	{ "key-single", "llama@8@3@00ffab@bfloat16@tags" },
	{ "key-multi", "prefix@meta/llama@0000000a@f@00ffab@salt" },
	{ "pattern", "a*[b-d]?\\*xabcbc*x" },
};

int main(int argc, char **argv)
{
	static char key[LARDER_KEY_MAX + 1];

	if (argc != 2) {
		(void)fprintf(stderr, "usage: make_corpus tests/fuzz/corpus\n");
		return 2;
	}
	store_messages(argv[1], "fuzz_wire_request", sample_requests, ARRAY_SIZE(sample_requests));
	store_messages(argv[1], "fuzz_wire_reply", sample_replies, ARRAY_SIZE(sample_replies));
	for (size_t i = 0; i < ARRAY_SIZE(key_seeds); i++)
		store(argv[1], "fuzz_key", key_seeds[i].name, key_seeds[i].data, key_seeds[i].len);
	for (size_t i = 0; i < ARRAY_SIZE(resp_seeds); i++)
		store(argv[1], "fuzz_resp", resp_seeds[i].name, resp_seeds[i].data,
		      strlen(resp_seeds[i].data));
	memset(key, 'k', sizeof(key));
	store(argv[1], "fuzz_key", "name-255", key, LARDER_KEY_NAME_MAX);
	store(argv[1], "fuzz_key", "name-256", key, LARDER_KEY_NAME_MAX + 1);
	store(argv[1], "fuzz_key", "longest", key, LARDER_KEY_MAX);
	store(argv[1], "fuzz_key", "too-long", key, LARDER_KEY_MAX + 1);
	memset(key, 0xff, sizeof(key));
	store(argv[1], "fuzz_key", "longest-binary", key, LARDER_KEY_MAX);
	return 0;
}
