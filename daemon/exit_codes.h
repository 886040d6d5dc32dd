/* SPDX-License-Identifier: Apache-2.0 */
/* Exit codes of larderd: one for each reason to stop, so that a unit or a script can tell. */
#ifndef LARDER_DAEMON_EXIT_CODES_H
#define LARDER_DAEMON_EXIT_CODES_H

/* X(name, code, text) */
#define EXIT_CODE_TABLE(X)                                                                         \
	X(OK, 0, "stopped as asked; nothing was under way")                                        \
	X(INTERNAL, 1, "something failed that should not; the log says what")                      \
	X(USAGE, 2, "wrong arguments")                                                             \
	X(CONFIG, 10, "the configuration can not be read or makes no sense")                       \
	X(MEMORY_BUSY, 11, "another daemon holds the memory")                                      \
	X(MEMORY_GEOMETRY, 12, "the memory was made with other settings")                          \
	X(MEMORY, 13, "there is not enough memory, or its directory can not be used")              \
	X(LISTEN, 14, "an address or a socket path can not be listened on")                        \
	X(TENANTS, 15, "a tenant's file or secret can not be used")                                \
	X(CUT, 16, "stopped, but not all that was under way ended within drain.timeout")           \
	X(STATE, 17, "the saved limits in state.dir can not be used")

enum larderd_exit {
#define EXIT_CODE_ENUM(name, code, text) LARDERD_EXIT_##name = code,
	EXIT_CODE_TABLE(EXIT_CODE_ENUM)
#undef EXIT_CODE_ENUM
};

#endif
