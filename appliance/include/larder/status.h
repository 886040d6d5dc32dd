/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statuses: what became of an operation.
 *
 * One table (LARDER_STATUS_TABLE) maps every status to its wire number, its text, the errno that
 * fits it best and the exit code of the command line tools. Nothing else in the product spells
 * these numbers.
 *
 * Thread rules: everything here is pure and may be called from any thread.
 */
#ifndef LARDER_STATUS_H
#define LARDER_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, number, errno, exit code, text): numbers are wire format, never reuse one. */
#define LARDER_STATUS_TABLE(X)                                                                     \
	X(OK, 0, 0, 0, "done")                                                                     \
	X(EXISTS_SAME, 1, 0, 0, "the key was there already with the same content")                 \
	X(NOT_FOUND, 2, ENOENT, 1, "no such object")                                               \
	X(CONFLICT, 3, EEXIST, 3, "the key is there with other content")                           \
	X(BUSY, 4, EBUSY, 3, "someone else is at work on it")                                      \
	X(FILL, 5, ENOENT, 1, "not there: the caller holds the fill lease and is to put it")       \
	X(NO_SPACE, 6, ENOSPC, 3, "the node has no memory left that it may evict")                 \
	X(QUOTA, 7, EDQUOT, 3, "over a limit of the tenant")                                       \
	X(THROTTLED, 8, EAGAIN, 3, "over a rate of the tenant, try again later")                   \
	X(TOO_LARGE, 9, EFBIG, 3, "larger than the node takes")                                    \
	X(TOO_SMALL, 10, ENOBUFS, 3, "the buffer is too small for the object")                     \
	X(DENIED, 11, EACCES, 3, "not allowed for this identity")                                  \
	X(BAD_REQUEST, 12, EINVAL, 3, "the request makes no sense")                                \
	X(UNSUPPORTED, 13, EOPNOTSUPP, 3, "not supported by this node")                            \
	X(CHECKSUM, 14, EILSEQ, 5, "the bytes do not match their checks")                          \
	X(LAYOUT_MISMATCH, 15, EPROTO, 3, "the namespace holds another layout")                    \
	X(DEADLINE, 16, ETIMEDOUT, 5, "the deadline passed")                                       \
	X(CANCELLED, 17, ECANCELED, 5, "cancelled")                                                \
	X(BUFFER_LOST, 18, EOWNERDEAD, 5,                                                          \
	  "the node froze inside the buffer; its memory was renewed")                              \
	X(DRAINING, 19, ESHUTDOWN, 3, "the node is draining and takes nothing new")                \
	X(DISCONNECTED, 20, ENOTCONN, 4, "the node can not be reached")                            \
	X(IO, 21, EIO, 5, "input or output failed")                                                \
	X(INTERNAL, 22, EPROTO, 5, "a fault inside the node")

enum larder_status {
#define LARDER_STATUS_ENUM(name, number, err, code, text) LARDER_##name = number,
	LARDER_STATUS_TABLE(LARDER_STATUS_ENUM)
#undef LARDER_STATUS_ENUM
	LARDER_STATUS_COUNT
};

/* The status's name as it is printed and logged ("NOT_FOUND"); "?" for a number that is none. */
const char *larder_status_name(int status);
/* One sentence for a person; never NULL. */
const char *larder_status_text(int status);
/* The positive errno that fits best; 0 for OK and EXISTS_SAME. */
int larder_status_errno(int status);
/* Exit code of the tools: 0 done, 1 not found, 2 usage, 3 refused, 4 unreachable, 5 failed. */
int larder_status_exit_code(int status);

#ifdef __cplusplus
}
#endif
#endif
