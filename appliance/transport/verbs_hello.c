/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/verbs_hello.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "transport/verbs_credits.h"

void verbs_hello_make(struct verbs_hello *h, uint32_t window, uint32_t wanted,
		      uint32_t max_message)
{
	*h = (struct verbs_hello){
		.magic = htole32(VERBS_HELLO_MAGIC),
		.version = VERBS_HELLO_VERSION,
		.window = htole16((uint16_t)window),
		.wanted = htole16((uint16_t)wanted),
		.max_message = htole32(max_message),
	};
}

void verbs_hello_refuse(struct verbs_hello *h, enum verbs_refusal why)
{
	verbs_hello_make(h, 0, 0, 0);
	h->refusal = (uint8_t)why;
}

int verbs_hello_parse(const void *data, size_t len, struct verbs_hello *ret)
{
	if (!data || len < sizeof(*ret))
		return -EPROTO;
	memcpy(ret, data, sizeof(*ret));
	ret->magic = le32toh(ret->magic);
	ret->window = le16toh(ret->window);
	ret->wanted = le16toh(ret->wanted);
	ret->max_message = le32toh(ret->max_message);
	if (ret->magic != VERBS_HELLO_MAGIC)
		return -EPROTO;
	if (ret->version != VERBS_HELLO_VERSION)
		return -EPROTONOSUPPORT;
	if (ret->refusal)
		return 0;
	return ret->window < VERBS_WINDOW_MIN || ret->window > VERBS_WINDOW_MAX ? -EPROTO : 0;
}

const char *verbs_refusal_text(uint8_t refusal)
{
	switch (refusal) {
	case VERBS_REFUSED_VERSION:
		return "it speaks another version of the transport";
	case VERBS_REFUSED_FULL:
		return "it has no connection left";
	case VERBS_REFUSED_RECEIVES:
		return "it has no receives left";
	case VERBS_REFUSED_DEVICE:
		return "its device can not be used: its log says why";
	default:
		return "it does not say why";
	}
}

int verbs_refusal_errno(uint8_t refusal)
{
	switch (refusal) {
	case VERBS_REFUSED_VERSION:
		return -EPROTONOSUPPORT;
	case VERBS_REFUSED_FULL:
	case VERBS_REFUSED_RECEIVES:
		return -EUSERS;
	default:
		return -ECONNREFUSED;
	}
}
