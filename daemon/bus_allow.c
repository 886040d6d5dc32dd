/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may call a method. The bus policy keeps strangers out; here the bus is asked whose call it
 * is, and where that is nobody who administers anyway, polkit. Both are asked without waiting.
 */
#include "bus_internal.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "say.h"

#define ALLOW_POLKIT_US 120000000ull	/* a person may have to type a password */
#define ALLOW_INTERACTIVE 1u		/* polkit's AllowUserInteraction */

static void allow_done(struct bus_request *q)
{
	/* a slot must not go inside its own callback's end: it is only let go of here */
	q->asked = sd_bus_slot_unref(q->asked);
	q->call = sd_bus_message_unref(q->call);
	json_decref(q->request);
	q->request = NULL;
}

static int allow_run(struct bus_request *q)
{
	struct daemon *d = q->bus->daemon;
	sd_bus_message *call = q->call;
	json_t *reply;
	int fd = -1, r;

	reply = daemon_answer(d, CONTROL_RIGHT_ADMIN, q->command, q->request, &fd);
	if (fd >= 0)
		(void)close(fd);	/* no command of the bus hands one out */
	if (json_is_true(json_object_get(reply, "ok"))) {
		r = sd_bus_reply_method_return(call, NULL);
	} else {
		const char *status = json_string_value(json_object_get(reply, "status"));
		const char *text = json_string_value(json_object_get(reply, "error"));
		char name[64];

		(void)snprintf(name, sizeof(name), BUS_ERROR "%s", status ? status : "INTERNAL");
		r = sd_bus_reply_method_errorf(call, name, "%s", text ? text : "out of memory");
	}
	json_decref(reply);
	allow_done(q);
	return r;
}

static int allow_deny(struct bus_request *q, const char *why)
{
	int r = sd_bus_reply_method_errorf(q->call, SD_BUS_ERROR_ACCESS_DENIED, "%s: only root, "
					   "the group of control.admin_group and whom polkit "
					   "allows %s (%s)", q->command, q->action, why);

	allow_done(q);
	return r;
}

static int allow_polkit(sd_bus_message *m, void *user, sd_bus_error *error)
{
	struct bus_request *q = user;
	const sd_bus_error *e = sd_bus_message_get_error(m);
	int yes = 0, challenge = 0;

	if (e)
		return allow_deny(q, e->message ? e->message : e->name);
	if (sd_bus_message_enter_container(m, 'r', "bba{ss}") < 0 ||
	    sd_bus_message_read(m, "bb", &yes, &challenge) < 0)
		return allow_deny(q, "polkit's answer can not be read");
	if (!yes)
		return allow_deny(q, challenge ? "polkit wants to ask a person" : "polkit says no");
	return allow_run(q);
}

static int allow_ask_polkit(struct bus_request *q)
{
	sd_bus_message *m = NULL;
	uint32_t flags = sd_bus_message_get_allow_interactive_authorization(q->call) > 0 ?
			 ALLOW_INTERACTIVE : 0;
	int r = sd_bus_message_new_method_call(q->bus->bus, &m, "org.freedesktop.PolicyKit1",
					       "/org/freedesktop/PolicyKit1/Authority",
					       "org.freedesktop.PolicyKit1.Authority",
					       "CheckAuthorization");

	if (r >= 0)
		r = sd_bus_message_append(m, "(sa{sv})sa{ss}us", "system-bus-name", 1, "name",
					  "s", sd_bus_message_get_sender(q->call), q->action, 0,
					  flags, "");
	q->asked = sd_bus_slot_unref(q->asked);
	if (r >= 0)
		r = sd_bus_call_async(q->bus->bus, &q->asked, m, allow_polkit, q, ALLOW_POLKIT_US);
	sd_bus_message_unref(m);
	return r < 0 ? allow_deny(q, "polkit can not be asked") : 1;
}

static bool allow_has(const uint32_t *groups, size_t n, uint32_t wanted)
{
	for (size_t i = 0; i < n; i++)
		if (groups[i] == wanted)
			return true;
	return false;
}

/* A member of GetConnectionCredentials: does it make its sender an administrator? */
static int allow_member(struct bus *b, sd_bus_message *m, const char *name, bool *ret)
{
	const void *groups = NULL;
	size_t bytes = 0;
	uint32_t uid;
	int r;

	if (strcmp(name, "UnixUserID") == 0) {
		r = sd_bus_message_read(m, "v", "u", &uid);
		if (r >= 0 && (uid == 0 || uid == geteuid()))
			*ret = true;
		return r;
	}
	if (strcmp(name, "UnixGroupIDs") != 0)
		return sd_bus_message_skip(m, "v");
	if ((r = sd_bus_message_enter_container(m, 'v', "au")) < 0 ||
	    (r = sd_bus_message_read_array(m, 'u', &groups, &bytes)) < 0)
		return r;
	if (b->admin_gid != (gid_t)-1 &&
	    allow_has(groups, bytes / sizeof(uint32_t), b->admin_gid))
		*ret = true;
	return sd_bus_message_exit_container(m);
}

static int allow_whose(sd_bus_message *m, void *user, sd_bus_error *error)
{
	struct bus_request *q = user;
	const sd_bus_error *e = sd_bus_message_get_error(m);
	bool admin = false;
	const char *name;
	int r;

	if (e)
		return allow_deny(q, e->message ? e->message : e->name);
	r = sd_bus_message_enter_container(m, 'a', "{sv}");
	while (r >= 0 && (r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
		r = sd_bus_message_read(m, "s", &name);
		if (r >= 0)
			r = allow_member(q->bus, m, name, &admin);
		if (r >= 0)
			r = sd_bus_message_exit_container(m);
	}
	if (r < 0)
		return allow_deny(q, "the bus does not tell whose call it is");
	return admin ? allow_run(q) : allow_ask_polkit(q);
}

int bus_allow(struct bus *b, sd_bus_message *call, const char *command, const char *action,
	      json_t *request, sd_bus_error *error)
{
	struct bus_request *q = NULL;
	int r;

	for (unsigned i = 0; i < BUS_REQUESTS && !q; i++)
		if (!b->request[i].call)
			q = &b->request[i];
	if (!q || !request) {
		json_decref(request);
		return sd_bus_error_set(error, SD_BUS_ERROR_LIMITS_EXCEEDED,
					"too many calls wait to be allowed: try again");
	}
	*q = (struct bus_request){ .bus = b, .call = sd_bus_message_ref(call), .command = command,
				   .action = action, .request = request };
	r = sd_bus_call_method_async(b->bus, &q->asked, "org.freedesktop.DBus",
				     "/org/freedesktop/DBus", "org.freedesktop.DBus",
				     "GetConnectionCredentials", allow_whose, q, "s",
				     sd_bus_message_get_sender(call));
	if (r < 0)
		return allow_deny(q, "the bus can not be asked");
	return 1;
}

void bus_allow_forget(struct bus *b)
{
	for (unsigned i = 0; i < BUS_REQUESTS; i++)
		if (b->request[i].call)
			allow_done(&b->request[i]);
}
