/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers from text and to text, whole reads and writes, the clock.
 *
 * Parsers take the whole text or nothing: a trailing character that means nothing is an error, so
 * that a typing mistake never becomes another number.
 */
#include "ctl/util.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define UTIL_READ_FIRST 65536u

uint64_t util_now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);	/* can't fail for this clock */
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* Digits at the start of @text; *@end is the first other character. */
static int util_parse_digits(const char *text, uint64_t *ret, const char **end)
{
	uint64_t v = 0;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	for (; *text >= '0' && *text <= '9'; text++) {
		if (__builtin_mul_overflow(v, (uint64_t)10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*text - '0'), &v))
			return -ERANGE;
	}
	*ret = v;
	*end = text;
	return 0;
}

int util_parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
	const char *end;
	uint64_t v;
	int r = util_parse_digits(text, &v, &end);

	if (r < 0)
		return r;
	if (*end)
		return -EINVAL;
	if (v < min || v > max)
		return -ERANGE;
	*ret = v;
	return 0;
}

int util_parse_size(const char *text, uint64_t *ret)
{
	static const char units[] = "KMGT";
	const char *end;
	uint64_t v;
	int r = util_parse_digits(text, &v, &end);

	if (r < 0)
		return r;
	if (*end) {
		const char *unit = strchr(units, *end >= 'a' ? *end - 'a' + 'A' : *end);

		if (!unit || (end[1] && strcasecmp(end + 1, "b") && strcasecmp(end + 1, "ib")))
			return -EINVAL;
		if (__builtin_mul_overflow(v, 1ull << (10 * (unit - units + 1)), &v))
			return -ERANGE;
	}
	*ret = v;
	return 0;
}

int util_parse_real(const char *text, double *ret)
{
	char *end;
	double v;

	/* strtod knows more spellings than a person means: hexadecimal, infinity, blanks */
	if (!*text || text[strspn(text, "0123456789.")] != '\0')
		return -EINVAL;
	errno = 0;
	v = strtod(text, &end);
	if (errno || end == text || *end || !isfinite(v))
		return -EINVAL;
	*ret = v;
	return 0;
}

int util_parse_duration_ns(const char *text, uint64_t *ret)
{
	static const struct { const char *unit; double ns; } units[] = {
		{ "ms", 1e6 }, { "us", 1e3 }, { "s", 1e9 }, { "m", 60e9 }, { "h", 3600e9 },
	};
	size_t len = strlen(text), i;
	char number[UTIL_TEXT];
	double v, scale = 1e9;
	int r;

	for (i = 0; i < ARRAY_SIZE(units); i++) {
		size_t n = strlen(units[i].unit);

		if (len > n && !strcmp(text + len - n, units[i].unit)) {
			scale = units[i].ns;
			len -= n;
			break;
		}
	}
	if (!len || len >= sizeof(number))
		return -EINVAL;
	memcpy(number, text, len);
	number[len] = '\0';
	r = util_parse_real(number, &v);
	if (r < 0)
		return r;
	if (v * scale > 1e18)
		return -ERANGE;
	*ret = (uint64_t)(v * scale);
	return 0;
}

const char *util_format_bytes(uint64_t bytes, char text[UTIL_TEXT])
{
	static const char units[][4] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double v = (double)bytes / 1024.0;
	size_t i = 0;

	if (bytes < 1024) {
		(void)snprintf(text, UTIL_TEXT, "%" PRIu64 " B", bytes);
		return text;
	}
	for (; v >= 1024.0 && i + 1 < ARRAY_SIZE(units); i++)
		v /= 1024.0;
	(void)snprintf(text, UTIL_TEXT, "%.1f %s", v, units[i]);
	return text;
}

const char *util_format_ns(uint64_t ns, char text[UTIL_TEXT])
{
	double v = (double)ns;

	if (ns < NSEC_PER_USEC)
		(void)snprintf(text, UTIL_TEXT, "%" PRIu64 " ns", ns);
	else if (ns < NSEC_PER_MSEC)
		(void)snprintf(text, UTIL_TEXT, "%.1f us", v / 1e3);
	else if (ns < NSEC_PER_SEC)
		(void)snprintf(text, UTIL_TEXT, "%.2f ms", v / 1e6);
	else
		(void)snprintf(text, UTIL_TEXT, "%.2f s", v / 1e9);
	return text;
}

int util_read_all(int fd, size_t max, void **ret, size_t *ret_len)
{
	_cleanup_free_ char *data = NULL;
	size_t len = 0, room = 0;

	for (;;) {
		ssize_t n;

		if (len == room) {
			char *more;

			room = room ? room * 2 : UTIL_READ_FIRST;
			more = realloc(data, room);
			if (!more)
				return -ENOMEM;
			data = more;
		}
		n = read(fd, data + len, room - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		len += (size_t)n;
		if (len > max)
			return -EFBIG;
	}
	*ret = TAKE_PTR(data);
	*ret_len = len;
	return 0;
}

int util_write_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}
