/* SPDX-License-Identifier: Apache-2.0 */
/* larderfs: arguments, parts, mount, loop; one way out. */
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "mount.h"
#include "ops.h"
#include "options.h"

#define MAIN_WINDOWS 6u		/* reads under way at a time */
#define MAIN_THREADS 12u	/* requests: reads, and as many others */
#define MAIN_THREADS_IDLE 4u

#define MAIN_MOUNT                                                                                 \
	"fsname=larder,subtype=larder,ro,nosuid,nodev,noexec,default_permissions,allow_other"

static void main_close(struct view *v)
{
	windows_free(v->windows);
	lookups_free(v->lookups);
	fetch_close(v->fetch);
	ledger_close(v->ledger);
	snapshots_free(v->snapshots);
	spaces_free(v->spaces);
}

static int main_open(struct view *v, const struct options *o)
{
	const struct fetch_options fetch = { .url = o->url, .deadline_ms = o->deadline_ms,
					     .clock = &process_clock, .more = view_more_tenants,
					     .user = v };
	int r;

	v->clock = &process_clock;
	v->content = o->content;
	v->meta = o->meta;
	v->groups = o->groups;
	r = spaces_new(v->clock, &v->spaces);
	if (!r)
		r = snapshots_new(v->clock, &v->snapshots);
	if (!r)
		r = ledger_open(o->control, v->clock, &v->ledger);
	if (!r)
		r = fetch_open(&fetch, v->spaces, &v->fetch);
	if (r == -EINVAL || r == -EPROTONOSUPPORT) {
		process_say(LARDER_LOG_ERR, "--url %s: %s", o->url, larder_last_error());
		return LARDERFS_USAGE;
	}
	if (!r)
		r = lookups_new(v->fetch, v->clock, &v->lookups);
	if (!r)
		r = windows_new(v->fetch, MAIN_WINDOWS, &v->windows);
	if (!r)
		return LARDERFS_OK;
	process_say(LARDER_LOG_ERR, "can not start: %s", strerror(r < 0 ? -r : EIO));
	return LARDERFS_FAILED;
}

static int main_loop(struct fuse_session *session)
{
	struct fuse_loop_config *config = fuse_loop_cfg_create();
	int r;

	if (!config)
		return -ENOMEM;
	fuse_loop_cfg_set_max_threads(config, MAIN_THREADS);
	fuse_loop_cfg_set_idle_threads(config, MAIN_THREADS_IDLE);
	fuse_loop_cfg_set_clone_fd(config, 0);
	r = fuse_session_loop_mt(session, config);
	fuse_loop_cfg_destroy(config);
	return r > 0 ? 0 : r;	/* a signal ended it */
}

static int main_serve(struct fuse_session *session, const char *mount_point, const char *url)
{
	int r;

	if (fuse_set_signal_handlers(session))
		return LARDERFS_FAILED;
	if (fuse_session_mount(session, mount_point)) {
		process_say(LARDER_LOG_ERR, "%s: can not be mounted on", mount_point);
		fuse_remove_signal_handlers(session);
		return LARDERFS_MOUNT;
	}
	process_say(LARDER_LOG_NOTICE, "%s shows %s: ready", mount_point, url);
	(void)sd_notify(0, "READY=1\nSTATUS=Mounted");
	r = main_loop(session);
	(void)sd_notify(0, "STOPPING=1");
	fuse_session_unmount(session);
	fuse_remove_signal_handlers(session);
	if (r)
		process_say(LARDER_LOG_ERR, "%s: %s", mount_point, strerror(-r));
	return r ? LARDERFS_FAILED : LARDERFS_OK;
}

static int main_mount(struct view *v, const struct options *o, const char *mount_point)
{
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	struct fuse_session *session = NULL;
	int r = LARDERFS_FAILED;

	if (!fuse_opt_add_arg(&args, "larderfs") && !fuse_opt_add_arg(&args, "-o" MAIN_MOUNT) &&
	    (!o->fuse || (!fuse_opt_add_arg(&args, "-o") && !fuse_opt_add_arg(&args, o->fuse))))
		session = fuse_session_new(&args, &ops, sizeof(ops), v);
	if (session) {
		r = main_serve(session, mount_point, o->url);
		fuse_session_destroy(session);
	} else if (o->fuse) {
		r = LARDERFS_USAGE;	/* which of them was told */
	}
	fuse_opt_free_args(&args);
	return r;
}

/* An absolute path without links, as the kernel tells mounts. Only its folder need be there. */
static int main_path(const char *path, char ret[PATH_MAX])
{
	char *copy = strdup(path), *slash;
	size_t len = copy ? strlen(copy) : 0;
	int r = 0;

	if (!copy)
		return -ENOMEM;
	/* "fs/" and "fs/." are fs, by which the kernel knows the mount */
	while (len > 1 && (copy[len - 1] == '/' || (copy[len - 1] == '.' && copy[len - 2] == '/')))
		copy[--len] = '\0';
	slash = strrchr(copy, '/');
	if (slash)
		*slash = '\0';
	/* of the folder: looking at what is mounted could wait for a view that is stopped */
	if (!realpath(!slash ? "." : *copy ? copy : "/", ret))
		r = -errno;
	else if (strlen(ret) + strlen(slash ? slash + 1 : copy) + 2 > PATH_MAX)
		r = -ENAMETOOLONG;
	if (!r) {
		if (strcmp(ret, "/"))
			strcat(ret, "/");
		strcat(ret, slash ? slash + 1 : copy);
	}
	free(copy);
	return r;
}

int main(int argc, char **argv)
{
	struct view view = { .since = { 0 } };
	char path[PATH_MAX], link[1];
	struct options options;
	ssize_t n;
	struct stat st;
	int lock = -1, r = options_parse(argc, argv, &options);

	if (r >= 0)
		goto out;
	process_log_init(LARDER_LOG_NOTICE);
	/* threads come and go: what they leave in arenas of their own would not be used again */
	(void)mallopt(M_ARENA_MAX, 2);
	/* buffers of answers go back to the system at once; the limit would grow with them else */
	(void)mallopt(M_MMAP_THRESHOLD, 64 << 10);
	/* does not ask who serves the mount, as every other way to tell a link would */
	n = readlink(options.mount_point, link, sizeof(link));
	if (n >= 0)
		process_say(LARDER_LOG_ERR, "%s is a link: name the folder itself",
			    options.mount_point);
	r = n >= 0 ? -ELOOP : main_path(options.mount_point, path);
	if (r)
		process_say(LARDER_LOG_ERR, "%s: %s", options.mount_point, strerror(-r));
	lock = r ? -1 : mount_prepare(path);
	r = lock < 0 ? LARDERFS_MOUNT : LARDERFS_OK;
	if (!r && stat(path, &st) == 0)
		view.since = st.st_mtim;
	if (!r)
		r = main_open(&view, &options);
	if (!r)
		r = main_mount(&view, &options, path);
	main_close(&view);
	if (lock >= 0)
		(void)close(lock);	/* a folder */
out:
	options_done(&options);
	return r;
}
