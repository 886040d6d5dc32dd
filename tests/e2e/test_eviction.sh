#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Eviction as an operator sees it: the default policy, the ages of victims, and why a key is gone.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

node_start --set memory.pages=8 --set memory.page_size=4K \
	--set engine.reserve=0 --set engine.shards=1 || finish
check "the default is aseg" grep -q "policy aseg remembers" "$WORK/log"
check "namespace" "$ctl" ns create test
printf value >"$WORK/value"
for i in 1 2 3 4 5 6 7 8 9; do
	check "put $i" "$ctl" put "key%20$i" "$WORK/value"
done
check "why" "$ctl" why test 'key%201'
says "evicted, when and for whom" '^key%201: evicted .* ago, .*to make room for tenant demo; '
says "how far back it goes" 'the record goes back .* \([1-9][0-9]* entries\)$'
check "one line" test "$(wc -l <"$WORK/out")" = 1
check "why, the namespace of --ns" "$ctl" why 'key%209'
says "present" '^key%209: it is there; '
check "why, with its tenant" env -u LARDER_TENANT "$ctl" why demo:test other
says "unknown" '^other: never seen .*; the record goes back '
code 2 "without a tenant" env -u LARDER_TENANT "$ctl" why test other
code 1 "no such namespace" "$ctl" why nowhere other
says "says so" NOT_FOUND
code 1 "no such tenant" "$ctl" why --tenant nobody test other
code 2 "not as keys are spelled" "$ctl" why test 'a b'
code 2 "no key" "$ctl" why
check "JSON" "$ctl" --json why test 'key%201'
says "fate" '"fate": "evicted"'
says "for whom" '"room_for": "demo"'
# refused: no room within its own cap
check "reject" "$ctl" quota set demo objects=1 over_cap=reject --runtime
code 3 "a put over the cap" "$ctl" put over-cap "$WORK/value"
check "why" "$ctl" why test over-cap
says "refused, when and how" '^over-cap: refused .* ago: .* \(QUOTA\); the record goes back'
check "stats" "$ctl" --json stats
says "by which limit" '"objects": 1$|"objects": 1,'
says "age at eviction" '"evicted_age_s": ?[1-9]'
node_stop
check "stops with 0 (was $NODE_CODE)" test "$NODE_CODE" = 0
finish
