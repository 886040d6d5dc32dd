/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What larderd calls besides, and how it is told which call of its control thread is to fail:
 * LARDER_FAULT="N WAY FILE" arms before main begins; FILE gets the report.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <jansson.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-event.h>

#include "inject.h"

#define SITE __builtin_return_address(0)

#define WRAP(type, name, params, args, failed)                                                     \
	type __real_##name params;                                                                 \
	type __wrap_##name params;                                                                 \
	type __wrap_##name params                                                                  \
	{                                                                                          \
		int error = inject_next(FAULT_##name, SITE);                                       \
                                                                                                   \
		if (!error)                                                                        \
			return __real_##name args;                                                 \
		errno = error;                                                                     \
		return failed;                                                                     \
	}

WRAP(FILE *, fdopen, (int fd, const char *mode), (fd, mode), NULL)
WRAP(int, fsync, (int fd), (fd), -1)
WRAP(int, rename, (const char *from, const char *to), (from, to), -1)
/* what getline is at -O2 */
WRAP(ssize_t, __getdelim, (char **line, size_t *size, int end, FILE *f), (line, size, end, f), -1)
WRAP(struct group *, getgrnam, (const char *name), (name), NULL)
WRAP(struct passwd *, getpwnam, (const char *name), (name), NULL)
WRAP(json_t *, json_array, (void), (), NULL)
WRAP(json_t *, json_object, (void), (), NULL)
WRAP(json_t *, json_integer, (json_int_t n), (n), NULL)
WRAP(json_t *, json_string, (const char *s), (s), NULL)
WRAP(char *, json_dumps, (const json_t *j, size_t flags), (j, flags), NULL)
WRAP(int, sd_bus_new, (sd_bus **ret), (ret), -error)
WRAP(int, sd_listen_fds_with_names, (int unset, char ***names), (unset, names), -error)
WRAP(int, sd_event_new, (sd_event **ret), (ret), -error)
WRAP(int, sd_event_add_io, (sd_event *e, sd_event_source **s, int fd, uint32_t events,
			    sd_event_io_handler_t fn, void *user), (e, s, fd, events, fn, user),
     -error)
WRAP(int, sd_event_add_signal, (sd_event *e, sd_event_source **s, int sig,
				sd_event_signal_handler_t fn, void *user), (e, s, sig, fn, user),
     -error)
WRAP(int, sd_event_add_time_relative, (sd_event *e, sd_event_source **s, clockid_t clock,
				       uint64_t usec, uint64_t accuracy,
				       sd_event_time_handler_t fn, void *user),
     (e, s, clock, usec, accuracy, fn, user), -error)

json_t *__real_json_loadb(const char *from, size_t n, size_t flags, json_error_t *ret);
json_t *__wrap_json_loadb(const char *from, size_t n, size_t flags, json_error_t *ret);
json_t *__wrap_json_loadb(const char *from, size_t n, size_t flags, json_error_t *ret)
{
	if (!inject_next(FAULT_json_loadb, SITE))
		return __real_json_loadb(from, n, flags, ret);
	if (ret) {
		memset(ret, 0, sizeof(*ret));
		(void)snprintf(ret->text, sizeof(ret->text), "out of memory");
	}
	return NULL;
}

json_t *__wrap_json_pack(const char *format, ...);
json_t *__wrap_json_pack(const char *format, ...)
{
	bool fails = inject_next(FAULT_json_pack, SITE);
	json_t *j;
	va_list ap;

	va_start(ap, format);
	j = json_vpack_ex(NULL, 0, format, ap);
	va_end(ap);
	if (!fails)
		return j;
	json_decref(j);		/* with what "o" took over, as when it fails by itself */
	return NULL;
}

int __real_json_array_append_new(json_t *array, json_t *value);
int __wrap_json_array_append_new(json_t *array, json_t *value);
int __wrap_json_array_append_new(json_t *array, json_t *value)
{
	if (!inject_next(FAULT_json_array_append_new, SITE))
		return __real_json_array_append_new(array, value);
	json_decref(value);	/* it is taken over in any case */
	return -1;
}

__attribute__((constructor)) static void wraps_daemon_arm(void)
{
	const char *want = getenv("LARDER_FAULT");
	char path[128];
	unsigned long n;
	unsigned way;
	void *at;
	int fd;

	if (!want || sscanf(want, "%lu %u %127s", &n, &way, path) != 3)
		return;
	fd = open(path, O_RDWR);
	at = mmap(NULL, sizeof(struct inject_report), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd < 0 || at == MAP_FAILED) {
		(void)fprintf(stderr, "LARDER_FAULT: %s: %s\n", path, strerror(errno));
		_exit(99);
	}
	(void)close(fd);
	inject_share(at);
	inject_arm(n, way);	/* this thread is the control thread to be */
}
