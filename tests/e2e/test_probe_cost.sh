#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Idle probes cost under 0.5 % of a 4 KiB GET: the nanoseconds of a GET's probes alone over those
# of the node's service of one over tcp, by its own histogram. The assert allows twice that, on
# machines that others use, too.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
dir=$(dirname "${BASH_SOURCE[0]}")
if ldd "$BIN/larderd" | grep -qE 'lib[at]san'; then
	skip "under a sanitizer nanoseconds say nothing"
	finish
fi
node_start || finish
"$ctl" ns create test >/dev/null || bad "no namespace"
"$ctl" --url "tcp://127.0.0.1:$PORT" bench get --size 4K --keys 100 --count 20000 \
	>"$WORK/out" 2>&1 || bad "no load"
"$BIN/../tests/bench/probe_cost" >"$WORK/cost" || bad "the probes' cost can not be measured"
check "idle probes cost little" python3 - "$dir" "$WORK/control.sock" "$WORK/cost" <<-'EOF2'
	import json, sys
	sys.path.insert(0, sys.argv[1])
	import ledger
	idle = json.load(open(sys.argv[3]))['idle_ns']
	_, buckets = ledger.Ledger(sys.argv[2]).latency()['get']
	# the median's bucket, from below: others' work makes a mean longer, the share small
	seen, median = 0, 0
	assert sum(buckets) >= 20000
	for i, n in enumerate(buckets):
	    seen += n
	    if 2 * seen >= sum(buckets):
	        median = ledger.bound(i - 1)
	        break
	print(f'idle probes of a GET: {idle} ns of {median} ns: {100 * idle / median:.3f} %')
	assert 0 < idle < 0.01 * median
EOF2
cat "$WORK/out"
node_stop
finish
