/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The RESP codec's own structs and the calls between its files; nobody else includes this.
 *
 *	resp.c		what arrives: the inbox, one command at a time, where its bytes go
 *	resp_reply.c	answers, refusals, and who is told of them
 *	resp_table.c	which commands there are; those that need no engine
 *	resp_auth.c	AUTH, HELLO
 *	resp_value.c	SET, GET, MGET, GETRANGE
 *	resp_keys.c	EXISTS, DEL, STRLEN, TTL
 *	resp_scan.c	SCAN, DBSIZE and the namespaces of keys
 *
 * A connection works at one command at a time and so answers in order without any bookkeeping: the
 * next command is looked at when the reply of the one before stands in the session's queue (or,
 * for a refusal, when its bytes have passed). Replies that wait there keep their values referenced;
 * their number is that of the session's requests, and while none is free nothing is read.
 */
#ifndef LARDER_NODE_RESP_H
#define LARDER_NODE_RESP_H

#include "node/session.h"
#include "wire/resp.h"

#define RESP_INBOX (16u * 1024u)	/* what is read ahead of a command's end, and so copied */
#define RESP_ARGS_BYTES 4096u		/* of all arguments of a command but its value */
#define RESP_ARGS_MAX 16u		/* likewise */
#define RESP_STRANGER_ARGS 16u		/* and before AUTH */
#define RESP_AUTH_TRIES 3u
#define RESP_FAULT 160u
/* One for all of RESP: whoever sends DEL lets go of what EXISTS held, whose ever it was. */
#define RESP_LEASE_ID 0x52455350ull
#define RESP_NS_OTHER "resp"		/* of keys that are not LMCache's */

struct resp_session;

enum resp_command_flags {
	RESP_STRANGER = 1u << 0,	/* allowed before AUTH */
	RESP_PER_KEY = 1u << 1,		/* run after each of its keys, not once at its end */
	RESP_VALUE = 1u << 2,		/* its third argument is a value: into pages */
	RESP_WRITES = 1u << 3,
};

/* What a refusal becomes with resp.on_refusal=drop. */
enum resp_dropped { RESP_TOLD, RESP_AS_OK, RESP_AS_ZERO, RESP_AS_NULL };

struct resp_command {
	const char *name;	/* lower case */
	int8_t arity;		/* as Redis counts it: with the name; -n = at least n */
	uint8_t flags;
	uint8_t dropped;	/* enum resp_dropped */
	/* where its keys are, for COMMAND: first, last (-1 = to the end), step */
	int8_t keys[3];
	/* At its end; PER_KEY: after each key, which is the only argument kept beside the name. */
	void (*run)(struct session *s, struct resp_session *p);
};

struct resp_scan {
	struct resp_writer w;
	const char *pattern;
	uint32_t pattern_len;
	uint64_t cursor;
	uint32_t count;
	uint32_t found;
	uint32_t calls;
	uint32_t ns;
	uint64_t slot;		/* in it: the engine's cursor */
};

struct resp_session {
	struct resp_reader reader;
	uint32_t at, end;	/* what of the inbox is not used yet */
	bool posted;		/* the transport has the inbox */
	bool working;		/* resp_go is on the stack */
	bool waits;		/* a request is at work: the next step comes after it */
	bool greeting;		/* the buffer for answers before AUTH is at the transport */
	bool quitting;		/* closes when all that was answered is out */
	bool three;		/* version 3 */
	uint8_t tries;		/* AUTHs that failed */
	uint64_t passing;	/* bytes of an argument that the session moves */
	char client_name[64];

	/* the command under way */
	const struct resp_command *command;	/* NULL: not known yet, or none that there is */
	bool answered;		/* its reply is queued: the rest of it is passed over */
	bool too_long;		/* an argument did not fit */
	bool head_due;		/* MGET: the array's head has not been sent */
	char fault_code[16];	/* not empty: what is wrong with it, for its end */
	char fault[RESP_FAULT];
	uint32_t n_args;
	uint32_t args_len;
	struct {
		uint16_t at;
		uint16_t len;
	} arg[RESP_ARGS_MAX];
	uint8_t args[RESP_ARGS_BYTES];
	struct request *request;	/* between its arguments: SET, EXISTS, DEL */
	int64_t count;			/* EXISTS, DEL */
	uint64_t from, to;		/* GETRANGE: as asked for */
	struct resp_scan scan;

	/* the namespace that was used last */
	bool ns_known;
	uint32_t ns;
	uint64_t ns_digest;
	uint8_t ns_len;
	char ns_name[RESP_NAMESPACE_MAX];

	uint8_t inbox[RESP_INBOX];
};

static inline struct resp_session *resp_of(const struct session *s)
{
	return s->codec_own;
}

static inline const struct larder_resp_config *resp_config(const struct session *s)
{
	return &session_node(s)->config.resp;
}

static inline const void *resp_arg(const struct resp_session *p, uint32_t i, size_t *len)
{
	*len = p->arg[i].len;
	return p->args + p->arg[i].at;
}
/* Is argument @i the word @word (upper case)? */
bool resp_arg_is(const struct resp_session *p, uint32_t i, const char *word);
bool resp_arg_number(const struct resp_session *p, uint32_t i, int64_t *ret);

/* resp.c */
/* Takes steps while there is something to take them over. */
void resp_go(struct session *s);
/* A request for the present command, STARTED, its op filled with what every op has. */
struct request *resp_request(struct session *s, uint8_t opcode);
/* Something is wrong with the present command: it is answered with this at its end. */
void resp_fault(struct resp_session *p, const char *code, const char *fmt, ...) _printf_(3, 4);

/* resp_table.c */
const struct resp_command *resp_command_find(const void *name, size_t len);
extern const struct resp_command resp_commands[];
extern const uint32_t resp_n_commands;

/* resp_reply.c */
/* The answer to a command that asks no engine: also before AUTH. */
void resp_answer_begin(struct session *s, struct resp_writer *w);
void resp_answer_end(struct session *s, struct resp_writer *w, int status);
void resp_answer_error(struct session *s, const char *code, const char *fmt, ...)
	_printf_(3, 4);
/* The answer of @r. */
void resp_reply_begin(struct request *r, struct resp_writer *w);
void resp_reply_end(struct request *r, struct resp_writer *w, int status);
void resp_reply_integer(struct request *r, int64_t n, int status);
void resp_reply_null(struct request *r, int status);
void resp_reply_error(struct request *r, const char *code, const char *text);
/* [offset, offset + length) of r->op.object, which stays referenced until it is out. */
void resp_reply_value(struct request *r, uint64_t offset, uint64_t length);
void resp_refuse(struct request *r, int status, uint64_t detail, const char *text);

/* resp_auth.c */
void resp_auth(struct session *s, struct resp_session *p);
void resp_hello(struct session *s, struct resp_session *p);

/* resp_value.c */
/* The value of SET begins: p->reader.length bytes. */
void resp_set_value(struct session *s, struct resp_session *p);
void resp_set(struct session *s, struct resp_session *p);
void resp_get(struct session *s, struct resp_session *p);
void resp_mget(struct session *s, struct resp_session *p);
void resp_getrange(struct session *s, struct resp_session *p);

/* resp_keys.c */
void resp_exists(struct session *s, struct resp_session *p);
void resp_del(struct session *s, struct resp_session *p);
void resp_strlen(struct session *s, struct resp_session *p);
void resp_ttl(struct session *s, struct resp_session *p);
/* The last key of EXISTS or DEL was seen. */
void resp_keys_end(struct session *s, struct resp_session *p);

/* resp_scan.c */
/*
 * Puts the key in argument @i and its namespace into r->op. LARDER_OK; NOT_FOUND: there is no such
 * namespace, and @create is false; or why it can not be created. BAD_REQUEST: no such key can be.
 */
int resp_take_key(struct request *r, uint32_t i, bool create);
void resp_scan(struct session *s, struct resp_session *p);
void resp_dbsize(struct session *s, struct resp_session *p);

#endif
