/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Administration of another host is ssh's business: who may log in there, and as whom, is
 * settled by it, and the other larderctl speaks to its own control socket. ssh hands its words
 * to a shell there, so each is quoted; the host is kept from being taken as an option of ssh.
 */
#include "ctl/remote.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

char *remote_quote(const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789@%+=:,./_-";
	char *text, *out;

	if (*word && word[strspn(word, plain)] == '\0')
		return strdup(word);
	out = text = malloc(strlen(word) * 4 + 3);
	if (!text)
		return NULL;
	*out++ = '\'';
	for (; *word; word++) {
		if (*word == '\'') {
			memcpy(out, "'\\''", 4);
			out += 4;
		} else {
			*out++ = *word;
		}
	}
	*out++ = '\'';
	*out = '\0';
	return text;
}

void remote_command_free(char **command)
{
	for (char **p = command; p && *p; p++)
		free(*p);
	free(command);
}

char **remote_command(const struct ctl *ctl, bool terminal, int argc, char **argv)
{
	char deadline[UTIL_TEXT];
	const char *words[16];
	size_t n = 0, fixed;
	char **command;

	words[n++] = "ssh";
	if (terminal)
		words[n++] = "-t";
	words[n++] = "--";
	words[n++] = ctl->host;
	fixed = n;
	words[n++] = "larderctl";
	if (ctl->json)
		words[n++] = "--json";
	if (ctl->control_given) {
		words[n++] = "--control";
		words[n++] = ctl->control;
	}
	if (ctl->deadline_ms) {
		(void)snprintf(deadline, sizeof(deadline), "%u", ctl->deadline_ms);
		words[n++] = "--deadline";
		words[n++] = deadline;
	}
	if (ctl->tenant_given) {
		words[n++] = "--tenant";
		words[n++] = ctl->tenant;
	}
	if (ctl->ns_given) {
		words[n++] = "--ns";
		words[n++] = ctl->ns;
	}
	command = calloc(n + (size_t)argc + 1, sizeof(*command));
	if (!command)
		return NULL;
	for (size_t i = 0; i < n + (size_t)argc; i++) {
		const char *word = i < n ? words[i] : argv[i - n];

		command[i] = i < fixed ? strdup(word) : remote_quote(word);
		if (!command[i]) {
			remote_command_free(command);
			return NULL;
		}
	}
	return command;
}

/* ssh's own trouble is 255: the host can not be reached. All else is the far end's answer. */
static int remote_run(char *const command[])
{
	struct sigaction ignore = { .sa_handler = SIG_IGN }, before;
	pid_t pid;
	int status, r = posix_spawnp(&pid, command[0], NULL, NULL, command, environ);

	if (r)
		return ctl_fail(CTL_FAILED, "ssh: %s", strerror(r));
	/* an interrupt is ssh's to handle: its status is awaited all the same */
	(void)sigaction(SIGINT, &ignore, &before);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	(void)sigaction(SIGINT, &before, NULL);
	if (!WIFEXITED(status))
		return ctl_fail(CTL_FAILED, "ssh: ended by signal %d", WTERMSIG(status));
	return WEXITSTATUS(status) == 255 ? CTL_UNREACHABLE : WEXITSTATUS(status);
}

int remote_exec(const struct ctl *ctl, int argc, char **argv)
{
	bool terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	char **command;
	int r;

	if (!*ctl->host || *ctl->host == '-')
		return ctl_usage(NULL, "-H %s: not a host", ctl->host);
	command = remote_command(ctl, terminal, argc, argv);
	if (!command)
		return ctl_fail(CTL_FAILED, "out of memory");
	r = remote_run(command);
	remote_command_free(command);
	return r;
}
