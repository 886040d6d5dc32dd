/* SPDX-License-Identifier: Apache-2.0 */
/*
 * larder-exporter: the ledger over HTTP, for Prometheus. It asks the control socket at each scrape,
 * as any member of group larder may, and has no privilege of its own.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <systemd/sd-daemon.h>

#include <microhttpd.h>

#include "control_protocol.h"
#include "ctl/control.h"
#include "ctl/util.h"
#include "exporter/metrics.h"

#define EXPORTER_LISTEN "127.0.0.1:16181"
#define EXPORTER_CONNECTIONS 16u
#define EXPORTER_TIMEOUT_S 10u
#define EXPORTER_ASK_MS 2000u		/* a scrape gives up after ten seconds, unless told */

enum exporter_exit { EXPORTER_DONE, EXPORTER_FAILED, EXPORTER_USAGE };

struct exporter {
	struct ctl ctl;
	char last_fault[512];		/* told once, until another or none comes */
};

static struct exporter *exporter_now;	/* for ctl_fail; one thread answers */

/* What ctl/control.c finds wrong. A scrape comes every few seconds: the same line is said once. */
int ctl_fail(enum ctl_exit code, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!exporter_now || strcmp(text, exporter_now->last_fault) != 0)
		fprintf(stderr, "larder-exporter: %s\n", text);
	if (exporter_now)
		memcpy(exporter_now->last_fault, text, sizeof(text));
	return (int)code;
}

/* --- a scrape -------------------------------------------------------------------------------- */

static int exporter_read(struct exporter *e, struct ledger_reader *ret)
{
	json_t *result = NULL;
	int fd = -1;
	int r = control_ask(&e->ctl, "the node", LARDER_CONTROL_LEDGER, &result, &fd);

	if (r)
		return r;
	json_decref(result);
	r = fd < 0 ? -EPROTO : ledger_reader_open(fd, ret);
	if (fd >= 0)
		(void)close(fd);	/* the mapping stays */
	if (r)
		return ctl_fail(CTL_FAILED, "the node: its ledger is of another layout: %s",
				strerror(-r));
	if (e->last_fault[0])
		fprintf(stderr, "larder-exporter: the node answers again\n");
	e->last_fault[0] = '\0';
	return 0;
}

/* The page, or NULL: out of memory. */
static char *exporter_page(struct exporter *e, size_t *ret_size)
{
	struct ledger_reader l = LEDGER_READER_NULL;
	char *page = NULL;
	FILE *f = open_memstream(&page, ret_size);
	bool there;

	if (!f)
		return NULL;
	there = exporter_read(e, &l) == 0;
	metrics_print(f, there ? &l : NULL, util_now_ns());
	if (there)
		ledger_reader_close(&l);
	if (fclose(f) == EOF) {
		free(page);
		return NULL;
	}
	return page;
}

static enum MHD_Result exporter_reply(struct MHD_Connection *c, unsigned code, const char *type,
				      void *body, size_t size, enum MHD_ResponseMemoryMode mode)
{
	struct MHD_Response *r = MHD_create_response_from_buffer(size, body, mode);
	enum MHD_Result ok;

	if (!r) {
		if (mode == MHD_RESPMEM_MUST_FREE)
			free(body);
		return MHD_NO;
	}
	ok = MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (ok == MHD_YES && code == MHD_HTTP_METHOD_NOT_ALLOWED)
		ok = MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	if (ok == MHD_YES)
		ok = MHD_queue_response(c, code, r);
	MHD_destroy_response(r);
	return ok;
}

static enum MHD_Result exporter_say(struct MHD_Connection *c, unsigned code, const char *text)
{
	return exporter_reply(c, code, "text/plain; charset=utf-8", (void *)(uintptr_t)text,
			      strlen(text), MHD_RESPMEM_PERSISTENT);
}

static enum MHD_Result exporter_answer(void *user, struct MHD_Connection *c, const char *url,
				       const char *method, const char *version, const char *upload,
				       size_t *upload_size, void **request)
{
	static int seen;
	size_t size = 0;
	char *page;

	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return exporter_say(c, MHD_HTTP_METHOD_NOT_ALLOWED, "GET only\n");
	if (!*request) {	/* the first call is about the header */
		*request = &seen;
		return MHD_YES;
	}
	if (strcmp(url, "/") == 0)
		return exporter_say(c, MHD_HTTP_OK, "larder-exporter: see /metrics\n");
	if (strcmp(url, "/metrics") != 0)
		return exporter_say(c, MHD_HTTP_NOT_FOUND, "there is /metrics\n");
	page = exporter_page(user, &size);
	if (!page)
		return exporter_say(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n");
	return exporter_reply(c, MHD_HTTP_OK, METRICS_TYPE, page, size, MHD_RESPMEM_MUST_FREE);
}

/* --- start and stop -------------------------------------------------------------------------- */

/* "HOST:PORT" or "[V6]:PORT". 0 or -1, after a line. */
static int exporter_resolve(const char *text, struct sockaddr_storage *ret, int *ret_family)
{
	struct addrinfo hints = { .ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM }, *found;
	const char *colon = strrchr(text, ':');
	char host[256];
	size_t len = colon ? (size_t)(colon - text) : 0;
	int r;

	if (!len || len >= sizeof(host) || !colon[1]) {
		fprintf(stderr, "larder-exporter: --listen %s: wanted HOST:PORT\n", text);
		return -1;
	}
	if (text[0] == '[' && text[len - 1] == ']') {
		text++;
		len -= 2;
	}
	memcpy(host, text, len);
	host[len] = '\0';
	r = getaddrinfo(host, colon + 1, &hints, &found);
	if (r) {
		fprintf(stderr, "larder-exporter: --listen %s: %s\n", text, gai_strerror(r));
		return -1;
	}
	memcpy(ret, found->ai_addr, found->ai_addrlen);
	*ret_family = found->ai_family;
	freeaddrinfo(found);
	return 0;
}

static struct MHD_Daemon *exporter_start(struct exporter *e, const char *listen)
{
	unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO;
	struct sockaddr_storage address = { 0 };
	const union MHD_DaemonInfo *info;
	struct MHD_Daemon *d;
	int family;

	if (exporter_resolve(listen, &address, &family) < 0)
		return NULL;
	if (family == AF_INET6)
		flags |= MHD_USE_IPv6;
	d = MHD_start_daemon(flags, 0, NULL, NULL, exporter_answer, e, MHD_OPTION_SOCK_ADDR,
			     (struct sockaddr *)&address, MHD_OPTION_CONNECTION_LIMIT,
			     EXPORTER_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
			     EXPORTER_TIMEOUT_S, MHD_OPTION_END);
	if (!d) {
		fprintf(stderr, "larder-exporter: --listen %s: can not listen: %s\n", listen,
			strerror(errno));
		return NULL;
	}
	info = MHD_get_daemon_info(d, MHD_DAEMON_INFO_BIND_PORT);
	fprintf(stderr, "larder-exporter: http://%.*s:%u/metrics\n",
		(int)(strrchr(listen, ':') - listen), listen, info ? (unsigned)info->port : 0);
	return d;
}

static void exporter_help(FILE *f)
{
	fputs("larder-exporter " LARDER_VERSION ": the node's figures for Prometheus\n\n"
	      "  larder-exporter [OPTIONS]\n\n"
	      "  -l, --listen HOST:PORT   where (default " EXPORTER_LISTEN ")\n"
	      "  -s, --control SOCKET     the node's control socket (default " LARDER_CONTROL_PATH
	      ")\n"
	      "      --once               print it once to standard output, and end\n"
	      "  -h, --help               this text\n"
	      "      --version\n\n"
	      "Exit codes: 0 done, 1 it could not be (a line says why), 2 wrong arguments\n", f);
}

static int exporter_once(struct exporter *e)
{
	size_t size;
	char *page = exporter_page(e, &size);
	bool bad = !page || fwrite(page, 1, size, stdout) != size || fflush(stdout) == EOF;

	free(page);
	return bad || e->last_fault[0] ? EXPORTER_FAILED : EXPORTER_DONE;
}

static int exporter_run(struct exporter *e, const char *listen)
{
	struct MHD_Daemon *d;
	sigset_t end;
	int got;

	(void)sigemptyset(&end);
	(void)sigaddset(&end, SIGTERM);
	(void)sigaddset(&end, SIGINT);
	(void)signal(SIGPIPE, SIG_IGN);
	/* every thread made from here on inherits this mask */
	if (pthread_sigmask(SIG_BLOCK, &end, NULL))
		return EXPORTER_FAILED;
	d = exporter_start(e, listen);
	if (!d)
		return EXPORTER_FAILED;
	(void)sd_notify(0, "READY=1");
	while (sigwait(&end, &got))
		;
	MHD_stop_daemon(d);
	return EXPORTER_DONE;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "listen", required_argument, NULL, 'l' },
		{ "control", required_argument, NULL, 's' }, { "once", no_argument, NULL, 'o' },
		{ "help", no_argument, NULL, 'h' }, { "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	struct exporter e = { .ctl = { .control = LARDER_CONTROL_PATH,
				       .deadline_ms = EXPORTER_ASK_MS } };
	const char *listen = EXPORTER_LISTEN;
	bool once = false;
	int c;

	while ((c = getopt_long(argc, argv, "l:s:h", options, NULL)) != -1) {
		switch (c) {
		case 'l':
			listen = optarg;
			break;
		case 's':
			e.ctl.control = optarg;
			break;
		case 'o':
			once = true;
			break;
		case 'V':
			puts("larder-exporter " LARDER_VERSION);
			return EXPORTER_DONE;
		case 'h':
			exporter_help(stdout);
			return EXPORTER_DONE;
		default:
			return EXPORTER_USAGE;
		}
	}
	if (optind != argc) {
		fputs("larder-exporter: no arguments are taken, see --help\n", stderr);
		return EXPORTER_USAGE;
	}
	exporter_now = &e;
	return once ? exporter_once(&e) : exporter_run(&e, listen);
}
