/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a RESP client may send: the reader must take the same steps however the bytes are split, use
 * no more than there is, and end at what is no RESP. The same bytes are then a pattern with a text,
 * and a key of LMCache's.
 */
#include "fuzz.h"

#include "wire/resp.h"

struct trail {
	uint64_t sum;		/* of all steps, in order */
	uint64_t bytes;		/* of arguments */
	enum resp_step last;
};

static void note(struct trail *t, uint64_t what)
{
	t->sum = (t->sum ^ what) * 0x9e3779b97f4a7c15ull;
}

/* Pieces of @piece bytes, each in memory of its own size. */
static struct trail walk(const uint8_t *data, size_t size, size_t piece)
{
	struct resp_reader r = { 0 };
	struct trail t = { 0 };
	size_t at = 0, end = 0;

	for (;;) {
		uint8_t *copy = fuzz_copy(data + at, end - at);
		size_t used = SIZE_MAX;
		uint64_t left = r.left;

		t.last = resp_reader_step(&r, copy, end - at, &used);
		free(copy);
		PROPERTY(used <= end - at);
		at += used;
		if (t.last == RESP_BROKEN) {
			PROPERTY(r.fault);
			return t;
		}
		if (t.last == RESP_MORE) {
			PROPERTY(used == 0);
			if (end == size)
				return t;
			end = size - end < piece ? size : end + piece;
			continue;
		}
		if (t.last == RESP_BYTES && resp_reader_is_inside(&r)) {
			PROPERTY(used > 0 && used <= left && r.left == left - used);
			for (size_t i = 0; i < used; i++)
				note(&t, data[at - used + i]);
			t.bytes += used;
		} else if (t.last != RESP_BYTES) {
			note(&t, 1000u + t.last);
		}
		if (t.last == RESP_COMMAND)
			PROPERTY(r.arguments >= 1 && r.arguments <= RESP_ARGUMENTS_MAX);
		if (t.last == RESP_ARGUMENT)
			PROPERTY(r.length <= RESP_ARGUMENT_BYTES_MAX && r.argument < r.arguments);
	}
}

static void check_reader(const uint8_t *data, size_t size)
{
	struct trail whole = walk(data, size, size ? size : 1);

	for (size_t piece = 1; piece < 8 && piece < size; piece += 3) {
		struct trail t = walk(data, size, piece);

		PROPERTY(t.last == whole.last);
		PROPERTY(t.sum == whole.sum && t.bytes == whole.bytes);
	}
}

static void check_keys(const uint8_t *data, size_t size)
{
	char ns[RESP_NAMESPACE_MAX];
	uint8_t *copy = fuzz_copy(data, size);
	size_t n = resp_key_namespace(copy, size, ns);

	PROPERTY(n <= sizeof(ns) && !memchr(ns, ':', n));
	free(copy);
}

static void check_match(const uint8_t *data, size_t size)
{
	size_t cut = size ? data[0] % size : 0;
	uint8_t *pattern = fuzz_copy(data, cut), *text = fuzz_copy(data + cut, size - cut);
	size_t prefix = resp_match_prefix(pattern, cut);
	bool match = resp_match(pattern, cut, text, size - cut);

	PROPERTY(prefix <= cut);
	PROPERTY(!match || (size - cut >= prefix && memcmp(pattern, text, prefix) == 0));
	PROPERTY(resp_match("*", 1, text, size - cut));
	free(pattern);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_reader(data, size);
	if (size >= 1 && size <= 1024)
		check_keys(data, size);
	if (size <= 4096)
		check_match(data, size);
	return 0;
}
