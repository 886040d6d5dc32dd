/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RESP, the Redis protocol, as far as its framing goes: a reader of commands that is fed whatever
 * bytes there are, a writer of replies (versions 2 and 3), patterns of SCAN, and which namespace an
 * LMCache key belongs to. Which commands there are and what they do is the node's (node/resp*.c).
 *
 * A command is an array of arguments: "*2\r\n$3\r\nGET\r\n$5\r\nkey-1\r\n". Nothing tells its
 * length beforehand, so the reader goes through it in steps, each as far as the bytes reach:
 *
 *	COMMAND (ARGUMENT BYTES... END)... DONE
 *
 * The bytes of an argument need not pass through the reader: who takes them elsewhere, straight
 * into pages, says how many with resp_reader_passed.
 *
 * Thread rules: pure functions, any thread. Nothing is allocated, no length is believed before it
 * was checked, nothing is read past what was given.
 */
#ifndef LARDER_WIRE_RESP_H
#define LARDER_WIRE_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RESP_ARGUMENTS_MAX (1024u * 1024u)	/* in one command, as Redis has it */
#define RESP_ARGUMENT_BYTES_MAX (512ull << 20)	/* likewise */
#define RESP_NAMESPACE_MAX 128u

enum resp_step {
	RESP_MORE,	/* the bytes end here: come back with more */
	RESP_COMMAND,	/* a command of r->arguments arguments begins */
	RESP_ARGUMENT,	/* number r->argument of them begins; it has r->length bytes */
	RESP_BYTES,	/* *used bytes from where the step began are its next ones */
	RESP_END,	/* it is over */
	RESP_DONE,	/* the command is over */
	RESP_BROKEN,	/* this is no RESP: r->fault says why; nothing that follows has a meaning */
};

enum resp_reader_state {
	RESP_AT_COMMAND, RESP_AT_LENGTH, RESP_AT_BYTES, RESP_AT_LINE_END, RESP_AT_DONE,
	RESP_AT_FAULT,
};

/* Zeroed: at the start of a command. */
struct resp_reader {
	uint8_t state;		/* enum resp_reader_state */
	uint32_t arguments;
	uint32_t argument;
	uint64_t length;
	uint64_t left;		/* bytes of the argument that are still to come */
	const char *fault;
};

/* Takes one step over @data. *@used = the bytes that it consumed, 0 with MORE. */
enum resp_step resp_reader_step(struct resp_reader *r, const uint8_t *data, size_t len,
				size_t *used);
/* @n bytes of the present argument were taken from the stream by somebody else. */
void resp_reader_passed(struct resp_reader *r, uint64_t n);
/* Is it inside a command? */
static inline bool resp_reader_is_inside(const struct resp_reader *r)
{
	return r->state != RESP_AT_COMMAND;
}
/* The whole number in @text ("-12"), nothing before or behind it. False: it is none. */
bool resp_number(const void *text, size_t len, int64_t *ret);

struct resp_writer {
	char *at;
	size_t room;
	size_t len;
	bool is_full;		/* something did not fit: nothing more is written */
	bool three;		/* speaks version 3 */
};

void resp_begin(struct resp_writer *w, void *to, size_t room, bool three);
void resp_write_simple(struct resp_writer *w, const char *text);
/* "-CODE text"; what would break the line becomes a blank. */
void resp_write_error(struct resp_writer *w, const char *code, const char *text);
void resp_write_integer(struct resp_writer *w, int64_t n);
void resp_write_bulk(struct resp_writer *w, const void *data, size_t len);
void resp_write_text(struct resp_writer *w, const char *text);	/* a bulk, too */
/* What comes before @len bytes that are sent from elsewhere; "\r\n" follows them. */
void resp_write_bulk_head(struct resp_writer *w, uint64_t len);
void resp_write_null(struct resp_writer *w);
void resp_write_array(struct resp_writer *w, uint64_t n);
void resp_write_map(struct resp_writer *w, uint64_t pairs);	/* version 2: a flat array */

/*
 * Does @text match the pattern? As Redis' MATCH: * ? [abc] [^a-z] and \ before any of them. The
 * time is bounded by the product of both lengths, whatever the pattern.
 */
bool resp_match(const void *pattern, size_t pattern_len, const void *text, size_t text_len);
/* How many bytes at the start of a pattern are no pattern. */
size_t resp_match_prefix(const void *pattern, size_t pattern_len);

/*
 * The namespace of a key of LMCache's: its model, after its key prefix where it has one, with ':'
 * and '%' as %3A and %25. Two forms are known:
 *
 *	model@world_size@worker_id@chunk_hash@dtype[@tags]
 *	[key_prefix@]model@kv_rank@object_group@chunk_hash[@cache_salt]	(kv_rank: 8 digits)
 *
 * Bytes written to @ret; 0: the key is of neither form, or the name is too long.
 */
size_t resp_key_namespace(const void *key, size_t key_len, char ret[RESP_NAMESPACE_MAX]);

#endif
