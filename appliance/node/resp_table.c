/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands that there are, and those among them that ask no engine. Each other one has its
 * function in a file of its kind.
 *
 * To add a command: a line in the table, a function that answers exactly once.
 */
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "node/resp.h"

static void answer_simple(struct session *s, const char *text)
{
	struct resp_writer w;

	resp_answer_begin(s, &w);
	resp_write_simple(&w, text);
	resp_answer_end(s, &w, LARDER_OK);
}

static void resp_ping(struct session *s, struct resp_session *p)
{
	struct resp_writer w;
	size_t len;
	const void *text;

	if (p->n_args == 1) {
		answer_simple(s, "PONG");
		return;
	}
	if (p->n_args > 2) {
		resp_answer_error(s, "ERR", "wrong number of arguments for 'ping' command");
		return;
	}
	text = resp_arg(p, 1, &len);
	resp_answer_begin(s, &w);
	resp_write_bulk(&w, text, len);
	resp_answer_end(s, &w, LARDER_OK);
}

static void resp_select(struct session *s, struct resp_session *p)
{
	int64_t n;

	if (!resp_arg_number(p, 1, &n))
		resp_answer_error(s, "ERR", "value is not an integer or out of range");
	else if (n != 0)
		resp_answer_error(s, "ERR", "DB index is out of range: there is database 0");
	else
		answer_simple(s, "OK");
}

static void resp_quit(struct session *s, struct resp_session *p)
{
	answer_simple(s, "OK");
	p->quitting = true;
}

static void client_getname(struct session *s, struct resp_session *p)
{
	struct resp_writer w;

	resp_answer_begin(s, &w);
	if (p->client_name[0])
		resp_write_text(&w, p->client_name);
	else
		resp_write_null(&w);
	resp_answer_end(s, &w, LARDER_OK);
}

static void client_setname(struct session *s, struct resp_session *p)
{
	size_t len;
	const char *name = resp_arg(p, 2, &len);

	if (len >= sizeof(p->client_name) || memchr(name, ' ', len) || memchr(name, '\n', len)) {
		resp_answer_error(s, "ERR", "a client's name has at most %zu bytes and no blanks",
				  sizeof(p->client_name) - 1);
		return;
	}
	memcpy(p->client_name, name, len);
	p->client_name[len] = '\0';
	answer_simple(s, "OK");
}

static void resp_client(struct session *s, struct resp_session *p)
{
	struct resp_writer w;

	if (resp_arg_is(p, 1, "SETINFO") && p->n_args == 4) {
		answer_simple(s, "OK");
	} else if (resp_arg_is(p, 1, "SETNAME") && p->n_args == 3) {
		client_setname(s, p);
	} else if (resp_arg_is(p, 1, "GETNAME") && p->n_args == 2) {
		client_getname(s, p);
	} else if (resp_arg_is(p, 1, "ID") && p->n_args == 2) {
		resp_answer_begin(s, &w);
		resp_write_integer(&w, (int64_t)s->holder);
		resp_answer_end(s, &w, LARDER_OK);
	} else {
		resp_answer_error(s, "ERR", "CLIENT here knows SETINFO, SETNAME, GETNAME and ID");
	}
}

static void command_describe(struct resp_writer *w, const struct resp_command *c)
{
	resp_write_array(w, 6);
	resp_write_text(w, c->name);
	resp_write_integer(w, c->arity);
	resp_write_array(w, 1);
	resp_write_simple(w, c->flags & RESP_WRITES ? "write" : "readonly");
	for (size_t i = 0; i < ARRAY_SIZE(c->keys); i++)
		resp_write_integer(w, c->keys[i]);
}

static void resp_command(struct session *s, struct resp_session *p)
{
	struct resp_writer w;

	resp_answer_begin(s, &w);
	if (p->n_args == 1) {
		resp_write_array(&w, resp_n_commands);
		for (uint32_t i = 0; i < resp_n_commands; i++)
			command_describe(&w, &resp_commands[i]);
	} else if (resp_arg_is(p, 1, "COUNT")) {
		resp_write_integer(&w, resp_n_commands);
	} else if (resp_arg_is(p, 1, "DOCS")) {
		resp_write_map(&w, 0);
	} else if (resp_arg_is(p, 1, "INFO")) {
		resp_write_array(&w, p->n_args - 2);
		for (uint32_t i = 2; i < p->n_args; i++) {
			size_t len;
			const void *name = resp_arg(p, i, &len);
			const struct resp_command *c = resp_command_find(name, len);

			if (c)
				command_describe(&w, c);
			else
				resp_write_null(&w);
		}
	} else {
		resp_write_error(&w, "ERR", "COMMAND here knows COUNT, DOCS and INFO");
	}
	resp_answer_end(s, &w, LARDER_OK);
}

static void resp_info(struct session *s, struct resp_session *p)
{
	struct larder_node *n = session_node(s);
	struct tenant *t = s->tenant;
	struct resp_writer w;
	char text[1024];

	(void)snprintf(text, sizeof(text),
		       "# Server\r\nredis_version:7.2.0\r\nredis_mode:standalone\r\n"
		       "server_name:larder\r\nlarder_version:%s\r\nuptime_in_seconds:%llu\r\n"
		       "# Clients\r\nconnected_clients:%llu\r\n"
		       "# Memory\r\nmaxmemory_policy:%s\r\n"
		       "# Persistence\r\nloading:0\r\n"
		       "# Stats\r\nlarder_resp_dropped:%llu\r\nlarder_draining:%d\r\n"
		       "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n"
		       "# Cluster\r\ncluster_enabled:0\r\n",
		       LARDER_VERSION,
		       (unsigned long long)((s->reactor->now_ns - n->start_ns) / NSEC_PER_SEC),
		       (unsigned long long)__atomic_load_n(&t->quota.used[LARDER_LIMIT_connections],
							   __ATOMIC_RELAXED),
		       n->config.policy,
		       (unsigned long long)__atomic_load_n(&t->resp_dropped, __ATOMIC_RELAXED),
		       node_draining(n));
	resp_answer_begin(s, &w);
	resp_write_text(&w, text);
	resp_answer_end(s, &w, LARDER_OK);
}

const struct resp_command resp_commands[] = {
	{ "auth", -2, RESP_STRANGER, RESP_TOLD, { 0, 0, 0 }, resp_auth },
	{ "client", -2, 0, RESP_TOLD, { 0, 0, 0 }, resp_client },
	{ "command", -1, 0, RESP_TOLD, { 0, 0, 0 }, resp_command },
	{ "dbsize", 1, 0, RESP_TOLD, { 0, 0, 0 }, resp_dbsize },
	{ "del", -2, RESP_PER_KEY | RESP_WRITES, RESP_AS_ZERO, { 1, -1, 1 }, resp_del },
	{ "echo", 2, 0, RESP_TOLD, { 0, 0, 0 }, resp_ping },
	{ "exists", -2, RESP_PER_KEY, RESP_AS_ZERO, { 1, -1, 1 }, resp_exists },
	{ "get", 2, 0, RESP_AS_NULL, { 1, 1, 1 }, resp_get },
	{ "getrange", 4, 0, RESP_TOLD, { 1, 1, 1 }, resp_getrange },
	{ "hello", -1, RESP_STRANGER, RESP_TOLD, { 0, 0, 0 }, resp_hello },
	{ "info", -1, 0, RESP_TOLD, { 0, 0, 0 }, resp_info },
	{ "mget", -2, RESP_PER_KEY, RESP_AS_NULL, { 1, -1, 1 }, resp_mget },
	{ "ping", -1, 0, RESP_TOLD, { 0, 0, 0 }, resp_ping },
	{ "quit", -1, RESP_STRANGER, RESP_TOLD, { 0, 0, 0 }, resp_quit },
	{ "scan", -2, 0, RESP_TOLD, { 0, 0, 0 }, resp_scan },
	{ "select", 2, 0, RESP_TOLD, { 0, 0, 0 }, resp_select },
	{ "set", -3, RESP_VALUE | RESP_WRITES, RESP_AS_OK, { 1, 1, 1 }, resp_set },
	{ "strlen", 2, 0, RESP_TOLD, { 1, 1, 1 }, resp_strlen },
	{ "ttl", 2, 0, RESP_TOLD, { 1, 1, 1 }, resp_ttl },
};
const uint32_t resp_n_commands = ARRAY_SIZE(resp_commands);

const struct resp_command *resp_command_find(const void *name, size_t len)
{
	for (uint32_t i = 0; i < resp_n_commands; i++)
		if (len == strlen(resp_commands[i].name) &&
		    strncasecmp(name, resp_commands[i].name, len) == 0)
			return &resp_commands[i];
	return NULL;
}
