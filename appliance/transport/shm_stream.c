/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of whole slices, with stores that go around the caches.
 *
 * A value is moved once and not looked at again on this core: an ordinary store first reads the
 * destination's line from memory and later evicts something useful, a non-temporal one does
 * neither. glibc does this too, but only above a size that it derives from the last-level cache
 * (240 MiB on the machine measured), and a slice of 256 KiB never reaches it.
 *
 * Measured in GB/s, one thread, AMD EPYC 9004 (32 MiB L3), glibc 2.36, two memfd mappings of
 * 512 MiB walked in calls of 256 KiB, best of five (the checked line: of two, no prefetch); "hot"
 * is a side that fits the cache, 4 MiB used over and over:
 *
 *	source  destination                         memcpy    streamed, avx2
 *	cold    cold                                14.1      23.0
 *	hot     cold                                19.6      26.6
 *	cold    hot                                 21.5      22.2
 *	hot     hot                                 47.8      27.5
 *	cold    cold, then CRC-32C of the slice     11.8      12.2
 *
 * memcpy in calls of 4 MiB is no better: 12.2 cold, 9.7 with the CRC after it.
 *
 * Hence both directions stream, also READ, whose slice is checked right after: what the check
 * loses by reading from memory the copy has won. The one loser is memory that stays in the cache on
 * both sides, and there the copy is fast either way; short slices (SLICE_STREAM_MIN), where that is
 * likely, take memcpy. Streamed with AVX-512: 20.3 to 21.3 cold, with SSE2 19.4 to 20.1: not worth
 * a third and fourth variant. Prefetching 1 KiB ahead gives about 10 %. tests/bench/shm_copy.c
 * measures the whole transport against memcpy.
 */
#include <string.h>

#include "transport/shm.h"

#ifdef __x86_64__

#include <immintrin.h>

#define STREAM_LINE 64u
#define STREAM_STEP 128u
#define STREAM_AHEAD 1024u

/*
 * The peer may write the source meanwhile, or the application read the destination early: races by
 * design, settled by gates and checks. The thread sanitizer would watch every vector for nothing.
 */
__attribute__((target("avx2"), no_sanitize_thread))
static void stream_avx2(uint8_t *dst, const uint8_t *src, size_t len)
{
	for (size_t at = 0; at < len; at += STREAM_STEP) {
		__m256i a, b, c, d;

		_mm_prefetch(src + at + STREAM_AHEAD, _MM_HINT_NTA);
		_mm_prefetch(src + at + STREAM_AHEAD + STREAM_LINE, _MM_HINT_NTA);
		a = _mm256_loadu_si256((const void *)(src + at));
		b = _mm256_loadu_si256((const void *)(src + at + 32));
		c = _mm256_loadu_si256((const void *)(src + at + 64));
		d = _mm256_loadu_si256((const void *)(src + at + 96));
		_mm256_stream_si256((void *)(dst + at), a);
		_mm256_stream_si256((void *)(dst + at + 32), b);
		_mm256_stream_si256((void *)(dst + at + 64), c);
		_mm256_stream_si256((void *)(dst + at + 96), d);
	}
}

void shm_stream_copy(void *dst, const void *src, size_t len)
{
	size_t head = -(uintptr_t)dst % STREAM_LINE;
	size_t body;

	if (len < 2 * STREAM_STEP || !__builtin_cpu_supports("avx2")) {
		memcpy(dst, src, len);
		return;
	}
	/* Lines that are not written whole would cost a read: the ends go the usual way. */
	body = ALIGN_DOWN(len - head, STREAM_STEP);
	memcpy(dst, src, head);
	stream_avx2((uint8_t *)dst + head, (const uint8_t *)src + head, body);
	memcpy((uint8_t *)dst + head + body, (const uint8_t *)src + head + body,
	       len - head - body);
}

/* Non-temporal stores are weakly ordered, even against a release store that follows. */
void shm_stream_fence(void)
{
	_mm_sfence();
}

#else

void shm_stream_copy(void *dst, const void *src, size_t len)
{
	memcpy(dst, src, len);
}

void shm_stream_fence(void)
{
}

#endif
