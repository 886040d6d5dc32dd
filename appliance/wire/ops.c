/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of operations, made from ops.def. The letters of its flag column exist only here; a
 * number without an entry has a NULL name and is no operation.
 */
#include "wire/wire.h"

#define K WIRE_OP_KEYS
#define P WIRE_OP_PAYLOAD
#define R WIRE_OP_REPLY_PAYLOAD
#define A WIRE_OP_PRE_AUTH
#define C WIRE_OP_CONTROL
#define V WIRE_OP_VIEWER

static const struct wire_op_info op_table[LARDER_OP_MAX] = {
#define OP(name_, request, reply, flags_, sentence_)                                               \
	[LARDER_OP_##name_] = {                                                                    \
		.name = #name_,                                                                    \
		.request_size = sizeof(struct request),                                            \
		.reply_size = sizeof(struct reply),                                                \
		.flags = flags_,                                                                   \
		.sentence = sentence_,                                                             \
	},
#include "wire/ops.def"
#undef OP
};

const struct wire_op_info *wire_op_info(uint8_t op)
{
	if (op >= LARDER_OP_MAX || !op_table[op].name)
		return NULL;
	return &op_table[op];
}
