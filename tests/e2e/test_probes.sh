#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The probes as they were built: each documented, plain operands, each in a binary.
exec "$(dirname "$0")/probes.py" "$(dirname "$0")/../../appliance/include/larder/probes.h" \
	"${BIN:?folder of larderd}/larderd" "$BIN/../lib/liblarder.so"
