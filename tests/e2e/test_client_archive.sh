#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# liblarder.a as a program links it: public names only, beside a program's own functions of the same
# names as the library's inner ones.
set -u
BIN=${BIN:?folder of larderd and larderctl}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lib=$BIN/../lib/liblarder.a
work=$(mktemp -d "${TMPDIR:-/tmp}/larder-archive.XXXXXX")
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

nm "$lib" >"$work/all" || exit 1
if grep -qE ' [Uw] __(asan|tsan)_' "$work/all"; then
	echo "skipped: a sanitizer's archive is not what is installed"
	echo "0 passed, 0 failed, 2 skipped"
	exit 0
fi
nm -g --defined-only "$lib" | awk 'NF == 3 { print $3 }' >"$work/names"
if grep -qx larder_open "$work/names" && ! grep -v '^larder_' "$work/names" >"$work/others"; then
	passed=$((passed + 1))
else
	failed=$((failed + 1))
	echo "FAILED: global names of $lib that are none of ours:"
	head -20 "$work/others" 2>/dev/null
fi
cat >"$work/p.c" <<-'EOF'
	#include <larder/client.h>

	int crc32c(void);
	int core_open(void);
	int handle_check(void);
	int crc32c(void) { return 1; }
	int core_open(void) { return 2; }
	int handle_check(void) { return 4; }

	int main(void)
	{
		struct larder_client_options o = LARDER_CLIENT_OPTIONS_INIT;
		struct larder_client *c;

		o.url = "tcp://127.0.0.1:1";
		o.tenant = "demo";
		o.secret = "secret";
		o.secret_len = 6;
		if (crc32c() + core_open() + handle_check() != 7 || larder_open(&o, &c))
			return 1;
		if (larder_ping(c, 50) != LARDER_DISCONNECTED)
			return 2;
		larder_close(c);
		return 0;
	}
EOF
if ${CC:-cc} -I"$here/../../appliance/include" "$work/p.c" "$lib" -lisal -lxxhash -lcrypto \
	-lrdmacm -libverbs -lpthread -o "$work/p" >"$work/out" 2>&1 && "$work/p"; then
	passed=$((passed + 1))
else
	failed=$((failed + 1))
	echo "FAILED: a program with names of its own"
	head -20 "$work/out"
fi
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
