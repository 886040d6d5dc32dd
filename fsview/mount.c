/* SPDX-License-Identifier: Apache-2.0 */
#include "mount.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <spawn.h>

#include "process.h"

#define MOUNT_LOOK_S 5		/* a view that is alive answers in that time */
#define MOUNT_LAYERS 16		/* that are taken away at most */

extern char **environ;

/* Undoes the octal escapes of mountinfo. */
static void mount_unescape(char *text)
{
	char *to = text;

	for (; *text; text++) {
		int c;

		if (text[0] == '\\' && sscanf(text + 1, "%3o", (unsigned *)&c) == 1) {
			*to++ = (char)c;
			text += 3;
		} else {
			*to++ = *text;
		}
	}
	*to = '\0';
}

/* The type of what is mounted at @path, topmost; empty: nothing is. 0 or -errno. */
static int mount_type(const char *path, char *type, size_t size)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t room = 0;

	if (!f)
		return -errno;
	type[0] = '\0';
	while (getline(&line, &room, f) > 0) {
		char *dash = strstr(line, " - "), *at = NULL, *save = NULL, *word;

		if (!dash)
			continue;
		*dash = '\0';
		word = strtok_r(line, " ", &save);
		for (int i = 0; word && i < 5; i++) {
			at = word;
			word = strtok_r(NULL, " ", &save);
		}
		if (!at)
			continue;
		mount_unescape(at);
		word = strtok_r(dash + 3, " ", &save);
		if (word && !strcmp(at, path))
			(void)snprintf(type, size, "%s", word);
	}
	free(line);
	(void)fclose(f);	/* only read */
	return 0;
}

/*
 * Does who serves @path answer? By a child, because a view that is stopped never answers, and only
 * a signal that kills ends the wait. 0: it does; -ENOTCONN: it is dead; -EBUSY: it does not answer.
 */
static int mount_look(const char *path)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		struct statfs s;	/* which the kernel never answers by itself */

		(void)signal(SIGALRM, SIG_DFL);
		(void)alarm(MOUNT_LOOK_S);
		_exit(statfs(path, &s) < 0 && errno == ENOTCONN ? 1 : 0);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (!WIFEXITED(status))
		return -EBUSY;
	return WEXITSTATUS(status) ? -ENOTCONN : 0;
}

/* As root by the kernel's call, else by the helper that may do it for the mount's owner. */
static int mount_detach(const char *path)
{
	char *const argv[] = { "fusermount3", "-u", "-z", "--", (char *)path, NULL };
	int status, r;
	pid_t pid;

	if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) == 0)
		return 0;
	if (errno != EPERM)
		return -errno;
	r = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
	if (r)
		return -r;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -EPERM;
}

static int mount_clean(const char *path)
{
	char type[64];
	int r;

	for (int i = 0; i < MOUNT_LAYERS; i++) {
		r = mount_type(path, type, sizeof(type));
		if (r || strncmp(type, "fuse", 4)) {
			/* another file system may well be what it is to be mounted in */
			return r;
		}
		r = mount_look(path);
		if (r == 0 || r == -EBUSY) {
			process_say(LARDER_LOG_ERR, r ? "%s: a %s is mounted there that does not "
				    "answer: end its process" : "%s: a %s is mounted there already",
				    path, type);
			return -EBUSY;
		}
		if (r != -ENOTCONN)
			return r;
		process_say(LARDER_LOG_NOTICE, "%s: taking away what a view that died left", path);
		r = mount_detach(path);
		if (r)
			return r;
	}
	return -EBUSY;
}

/*
 * Of two that start at the same time one is to mount: a lock on the folder that is mounted on,
 * which the one that mounts keeps. Who had not seen that one's mount may have opened what lies in
 * it, and have got a lock there: so it looks once more.
 */
static int mount_lock(const char *path)
{
	char type[64];
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = fd < 0 ? -errno : 0;

	if (!r && flock(fd, LOCK_EX | LOCK_NB) < 0)
		r = errno == EWOULDBLOCK ? -EBUSY : -errno;
	if (!r)
		r = mount_type(path, type, sizeof(type));
	if (!r && !strncmp(type, "fuse", 4))
		r = -EBUSY;
	if (!r)
		return fd;
	if (r == -EBUSY)
		process_say(LARDER_LOG_ERR, "%s: another larderfs mounts there at this moment",
			    path);
	if (fd >= 0)
		(void)close(fd);	/* only opened */
	return r;
}

int mount_prepare(const char *path)
{
	int r = mount_clean(path);

	if (!r && mkdir(path, 0755) < 0 && errno != EEXIST)
		r = -errno;
	if (!r)
		r = mount_lock(path);
	if (r < 0 && r != -EBUSY)
		process_say(LARDER_LOG_ERR, "%s: can not be mounted on: %s", path, strerror(-r));
	return r;
}
