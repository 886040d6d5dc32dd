#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Limits through the map: one u64 that root writes with bpftool is in force within a second, as a
# run-time value; nonsense is told, counted and written back.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$here/bpf.sh"
bpf_begin
printf '[limits]\nobjects = 1000\n' >>"$WORK/tenants.d/demo.conf"
printf '[tenant]\nsecret_file = demo.secret\n' >"$WORK/tenants.d/other.conf"
node_start || finish
check "a namespace" "$ctl" ns create test
# a value is in force before the log says so
logged() {
	local i
	for i in $(seq 1 20); do
		grep -qE "$2" "$WORK/log" && break
		sleep 0.05
	done
	check "the log tells $1" grep -qE "$2" "$WORK/log"
}
same() { # same "what" WANTED GOT
	if [ "$2" = "$3" ]; then ok; else bad "$1: $3, wanted $2"; fi
}
# becomes "what" MAP INDEX VALUE: within a second
becomes() {
	local i
	for i in $(seq 1 20); do
		[ "$(element "$2" "$3")" = "$4" ] && break
		sleep 0.05
	done
	same "$1 within a second" "$4" "$(element "$2" "$3")"
}
slot=$("$ctl" quota show demo --json | python3 -c 'import json, sys
print(json.load(sys.stdin)["map"]["slot"])')
resident=$((slot * 32)) guarantee=$((slot * 32 + 1)) objects=$((slot * 32 + 2))
rate=$((slot * 32 + 8)) weight=$((slot * 32 + 15))

# --- what is set shows, and what is written is in force ---
same "the file's value shows" 1000 "$(element limits $objects)"
check "the line to type" "$ctl" quota line demo objects=3
line=$(cat "$WORK/out")
says "a bpftool line" "^bpftool map update pinned $BPF/limits_2 key $objects 0 0 0 value 3 0"
check "type it" bash -c "$line"
becomes "in force" effective $objects 3
check "show says where from" "$ctl" quota show demo objects
says "run time" "^objects +3 1000 +- +3"
says "the line" "until the node ends: bpftool map update pinned $BPF/limits_2 key $objects 0"
echo x >"$WORK/value"
for i in 1 2 3 4 5; do "$ctl" put "k$i" "$WORK/value" >/dev/null; done
same "and enforced" 3 "$(field gauges demo objects)"
update $rate 1
becomes "a rate" effective $rate 1
logged "it" "tenant demo: ops_per_s = 1, until this process ends"
update $rate 0
becomes "no limit" limits $rate 0
update $objects 1000
becomes "back" effective $objects 1000
# two that are right only together
update $guarantee $((8 << 20)) && update $resident $((16 << 20))
becomes "a cap with its guarantee" effective $guarantee $((8 << 20))

# --- nonsense ---
nonsense() { # nonsense "what" INDEX VALUE BACK PATTERN
	update "$2" "$3"
	becomes "$1: written back" limits "$2" "$4"
	logged "$1" "$5"
}
# written back before it was looked at would count nothing: each is counted once
nonsense "a weight that can not be" $weight 70000 0 "weight = 70000 of the limits map can not be"
nonsense "a guarantee over the cap" $guarantee $((1 << 30)) $((8 << 20)) \
	"guarantee_bytes = 1073741824 of the limits map can not be: written back to 8M"
nonsense "more than JSON can tell" $objects $((-1)) 1000 \
	"objects = 18446744073709551615 of the limits map can not be: written back to 1000"
nonsense "a reserved place" $((slot * 32 + 20)) 5 0 "element $((slot * 32 + 20)) of the limits map"
nonsense "nobody's row" $((40 * 32)) 77 0 "element 1280 of the limits map, 77, is no limit"
nonsense "what viewers have not" $((63 * 32)) 5 0 \
	"tenant _view: resident_bytes = 5 of the limits map"
same "each is counted" 6 "$(bpftool map dump pinned "$BPF/node_2" |
	sed -n 's/.*"limits_refused": \([0-9]*\).*/\1/p')"
same "what is in force stayed" 1000 "$(element effective $objects)"

# --- who wins, and what ends ---
check "a saved value" "$ctl" quota set demo objects=500
same "run time wins over saved" 1000 "$(element effective $objects)"
check "take it back" "$ctl" quota set demo objects=default --runtime
same "saved wins over the file" 500 "$(element effective $objects)"
update $objects 20
becomes "the map over saved" effective $objects 20
check "reload" "$ctl" reload
same "a reload does not end it" 20 "$(element effective $objects)"
node_stop KILL
node_start || finish
logged "what ended" "run-time value objects = 20 ended with the process: the saved value 500"
same "saved again" 500 "$(element limits $objects)"
same "other values ended, too" 0 "$(element limits $guarantee)"
# an older layout (calico_12876): counters are new, limits are those of files and saved, what was
# set at run time ends with a line
update $objects 30
becomes "once more" effective $objects 30
check "a value of root's that no file hides" "$ctl" quota set other objects=7 --runtime
node_stop KILL
bpftool map create "$BPF/limits_1" type array key 4 value 8 entries 1 name limits_1
rm "$BPF/limits_2"
check "load" "$BIN/larder-bpf" -c "$WORK/larderd.conf" load
says "which layout" "limits_1: of layout 1"
node_start || finish
same "refilled" 500 "$(element limits $objects)"
same "in force" 500 "$(element effective $objects)"
same "counters are new" 0 "$(field usage demo ops.PUT)"
logged "old and new" \
	"demo: the run-time value objects = 30 ended with the process: the saved value 500"
logged "each of them" "tenant other: the run-time value objects = 7 ended"
# what is written while nobody looks is nobody's
node_stop
update $objects 77
node_start || finish
same "written without a node" 500 "$(element effective $objects)"
node_stop
bpf_end
