/* SPDX-License-Identifier: Apache-2.0 */
/* hiredis against the RESP port: smoke PORT SECRET. 0: as it must be. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES (1u << 20)

static int failed;

static void expect(redisReply *r, int type, const char *text, long long number, const char *what)
{
	if (!r || r->type != type || (text && (!r->str || strcmp(r->str, text) != 0)) ||
	    (type == REDIS_REPLY_INTEGER && r->integer != number)) {
		fprintf(stderr, "%s: type %d, \"%s\"\n", what, r ? r->type : -1,
			r && r->str ? r->str : "");
		failed = 1;
	}
	freeReplyObject(r);
}

static void value_goes_and_comes(redisContext *c)
{
	char *value = malloc(BYTES);
	redisReply *r;

	if (!value)
		exit(2);
	for (unsigned i = 0; i < BYTES; i++)
		value[i] = (char)(i * 2654435761u >> 24);
	expect(redisCommand(c, "SET hi %b", value, (size_t)BYTES), REDIS_REPLY_STATUS, "OK", 0,
	       "SET");
	r = redisCommand(c, "GET hi");
	if (!r || r->type != REDIS_REPLY_STRING || r->len != BYTES ||
	    memcmp(r->str, value, BYTES) != 0) {
		fprintf(stderr, "GET: not what was put\n");
		failed = 1;
	}
	freeReplyObject(r);
	free(value);
}

int main(int argc, char **argv)
{
	redisContext *c;
	redisReply *r = NULL;

	if (argc != 3)
		return 2;
	c = redisConnect("127.0.0.1", atoi(argv[1]));
	if (!c || c->err)
		return 2;
	expect(redisCommand(c, "GET hi"), REDIS_REPLY_ERROR, NULL, 0, "GET before AUTH");
	expect(redisCommand(c, "AUTH demo %s", argv[2]), REDIS_REPLY_STATUS, "OK", 0, "AUTH");
	value_goes_and_comes(c);
	expect(redisCommand(c, "EXISTS hi"), REDIS_REPLY_INTEGER, NULL, 1, "EXISTS");
	expect(redisCommand(c, "GET none"), REDIS_REPLY_NIL, NULL, 0, "GET none");
	for (int i = 0; i < 100; i++)
		redisAppendCommand(c, "ECHO %d", i);
	for (int i = 0; i < 100; i++) {
		char text[16];

		snprintf(text, sizeof(text), "%d", i);
		if (redisGetReply(c, (void **)&r) != REDIS_OK)
			return 1;
		expect(r, REDIS_REPLY_STRING, text, 0, "ECHO");
	}
	expect(redisCommand(c, "DEL hi"), REDIS_REPLY_INTEGER, NULL, 1, "DEL");
	redisFree(c);
	return failed;
}
