#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The ledger in BPF maps: the node counts in what larder-bpf made, without a privilege; counters go
# on over its restarts; whatever is missing is one clear line and a node that works.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$here/bpf.sh"
loader=$BIN/larder-bpf
bpf_begin
conf=$WORK/larderd.conf
load() { "$loader" -c "$conf" load; }
logged() { check "the log tells $1" grep -qE "$2" "$WORK/log"; }
# works "how": a value goes in and comes back.
works() {
	head -c 100000 /dev/urandom >"$WORK/value"
	check "$1: put" "$ctl" put "key-$1" "$WORK/value"
	check "$1: get" "$ctl" get "key-$1" -o "$WORK/back"
	check "$1: the same bytes" cmp "$WORK/value" "$WORK/back"
}
same() { # same "what" WANTED GOT
	if [ "$2" = "$3" ]; then ok; else bad "$1: $3, wanted $2"; fi
}

# --- root and bpftool ---
same "the mount's mode" "750 root" "$(stat -c '%a %U' "$BPF")"
same "the pins' mode" "640" "$(stat -c %a "$BPF"/*_2 | sort -u)"
check "the settings are larderd's" load
says "counters go on" "layout 2 are there and their counters go on"
node_start || finish
logged "where it counts" "ledger: counting in the BPF maps of $BPF, layout 2"
check "a namespace" "$ctl" ns create test
works first
check "every map dumps as JSON" bash -c "for m in $BPF/*_2; do bpftool map dump pinned \$m |
	python3 -m json.tool >/dev/null || exit 1; done"
same "puts" 1 "$(field usage demo ops.PUT)"
same "bytes" 100000 "$(field usage demo bytes.client_write)"
"$ctl" stats --json >"$WORK/stats.json"
same "hits" "$(python3 -c 'import json, sys
print(json.load(sys.stdin)["tenants"]["demo"]["get_hits"])' <"$WORK/stats.json")" \
	"$(field usage demo get_hits)"
same "objects" 1 "$(field gauges demo objects)"
check "the loader beside a node" load
says "somebody counts" "the maps are there, and a larderd counts in them"
code 1 "another geometry beside a node" "$loader" --dir "$BPF" --reactors 2 load
says "stop it first" "stop it first"
code 1 "unload beside a node" "$loader" -c "$conf" unload
check "top reads them" "$ctl" top -n 1 --json
check "stats read them" "$ctl" stats --json

# --- restarts of equal geometry ---
node_stop
same "counters stay without a node" 1 "$(field usage demo ops.PUT)"
node_start || finish
works second
same "counters go on" 2 "$(field usage demo ops.PUT)"
same "gauges are worked out" 2 "$(field gauges demo objects)"
node_stop KILL
node_start || finish
same "counters go on after kill -9" 2 "$(field usage demo ops.PUT)"
same "gauges are worked out after it" 2 "$(field gauges demo objects)"
same "nobody is connected" 0 "$(field gauges demo connections)"
works third
same "and on" 3 "$(field usage demo ops.PUT)"
"$BIN/larderd" -c "$conf" --set memory.dir="$MEMORY/2" --set control.socket="$WORK/2.sock" \
	--set listen.shm="$WORK/2" 2>"$WORK/second" &
second=$!
for _ in $(seq 1 100); do grep -q ready "$WORK/second" && break; sleep 0.1; done
check "a second node leaves them" grep -q "lock: another larderd .*has it" "$WORK/second"
check "and serves" grep -q ready "$WORK/second"
kill "$second"
wait "$second" 2>/dev/null
node_stop

# --- another geometry, an older layout, half of the pins ---
node_start --set node.reactors=2 || finish
logged "another geometry" "128 elements of 1536 bytes, and 192 of 1536 are wanted"
works reactors
node_stop
check "load for two reactors" "$loader" -c "$conf" --set node.reactors=2 load
says "anew" "usage_2: 128 elements of 1536 bytes, wanted 192 of 1536"
same "counters are new" 0 "$(bpftool map dump pinned "$BPF/usage_2" | grep -c demo)"
node_start --set node.reactors=2 || finish
logged "two reactors" "counting in the BPF maps"
works two
node_stop
bpftool map create "$BPF/usage_1" type array key 4 value 8 entries 1 name usage_1
check "load over an older layout" load
says "which" "usage_1: of layout 1, this is layout 2: removed, its counters start anew"
check "the older one is gone" test ! -e "$BPF/usage_1"
rm "$BPF/latency_2"
node_start || finish
logged "which is missing" "latency_2: No such file or directory: larder-bpf load makes it"
works missing
node_stop
check "load over half of them" load
says "anew" "6 of 7 maps are as they have to be: all are made again, and counters start anew"

rm "$BPF/usage_2"
bpftool map create "$BPF/usage_2" type array key 4 value 1536 entries 128 name usage_2
node_start || finish
logged "a map of another kind" "usage_2: not an array that can be mapped"
works kind
node_stop
check "load over it" load
says "which" "usage_2: not an array that can be mapped"
says "anew" "6 of 7 maps"
bpftool map freeze pinned "$BPF/limits_2"
node_start || finish
logged "a map that is frozen" "limits_2: can not be mapped for writing: Operation not permitted"
works frozen
node_stop
check "load over it" load
says "which" "limits_2: can not be mapped for writing"
says "anew" "6 of 7 maps"
check "for a group" "$loader" -c "$conf" --group nogroup load
same "the group's mount" "750 root:nogroup" "$(stat -c '%a %U:%G' "$BPF")"
same "the group's pins" "640 nogroup" "$(stat -c '%a %G' "$BPF"/*_2 | sort -u)"
code 1 "a group that is none" "$loader" -c "$conf" --group nosuch load
says "which" "group nosuch: there is no such group"
check "and back" "$loader" -c "$conf" --group root load

# --- a loader that is killed ---
for i in $(seq 1 20); do
	rm -f "$BPF/usage_2"
	"$loader" --dir "$BPF" --reactors 1 load 2>/dev/null &
	sleep "0.00$((i % 4))$((i * 7 % 10))"
	kill -KILL $! 2>/dev/null
	wait $! 2>/dev/null
done
check "the next one puts it in order" load
node_start || finish
logged "that it counts in them" "counting in the BPF maps"
works killed
node_stop

# --- pins that go under a node that counts in them ---
node_start || finish
puts() {
	"$ctl" stats --json | python3 -c 'import json, sys
print(json.load(sys.stdin)["tenants"]["demo"]["puts"])'
}
before=$(puts)
umount -l "$BPF"
works gone
same "whose figures are told all the same" $((before + 1)) "$(puts)"
check "new ones beside it" load
node_stop
node_start || finish
logged "that it counts in the new ones" "counting in the BPF maps"
same "which begin anew" 0 "$(field usage demo ops.PUT)"
node_stop

# --- without privileges ---
nobody="setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all"
check "pins for another user" "$loader" -c "$conf" --user nobody load
mkdir -p "$MEMORY"
chown -R 65534 "$WORK/tenants.d" "$MEMORY" "$WORK/larderd.conf"
chmod 711 "$WORK"
mkdir -p "$WORK/n"
chown 65534 "$WORK/n"
chgrp 65534 "$BPF"
: >"$WORK/log"
$nobody "$BIN/larderd" -c "$conf" --set control.socket="$WORK/n/control" --set \
	listen.shm="$WORK/n/shm" --set state.dir="$WORK/n/state" 2>"$WORK/log" &
NODE_PID=$!
for _ in $(seq 1 100); do grep -q ready "$WORK/log" && break; sleep 0.1; done
logged "that a user without capabilities counts in them (kernel.unprivileged_bpf_disabled = $(
	cat /proc/sys/kernel/unprivileged_bpf_disabled))" "counting in the BPF maps"
LARDER_URL=shm://$WORK/n/shm LARDER_CONTROL=$WORK/n/control works nobody
same "whose puts show" 1 "$(field usage demo ops.PUT)"
node_stop
code 1 "larder-bpf without CAP_BPF, mounted" setpriv --bounding-set=-all --inh-caps=-all \
	"$loader" --dir "$BPF" --reactors 4 load
says "what it takes" "it takes root|can not be given|Operation not permitted|can not be made"
code 1 "larder-bpf without CAP_SYS_ADMIN" setpriv --bounding-set=-all --inh-caps=-all \
	"$loader" --dir "$WORK/other" --reactors 1 load
says "what it takes" "no BPF file system can be mounted there: Operation not permitted: it takes"
check "other pins" "$loader" --dir "$BPF" --reactors 1 --user root load
chmod 700 "$BPF"
: >"$WORK/log"
$nobody "$BIN/larderd" -c "$conf" --set control.socket="$WORK/n/control" --set \
	listen.shm="$WORK/n/shm" --set state.dir="$WORK/n/state" 2>"$WORK/log" &
NODE_PID=$!
for _ in $(seq 1 100); do grep -q ready "$WORK/log" && break; sleep 0.1; done
logged "what it may not" "ledger.bpf: .*Permission denied.*counts in memory of its own"
LARDER_URL=shm://$WORK/n/shm LARDER_CONTROL=$WORK/n/control works denied
node_stop
chown -R 0 "$WORK/tenants.d" "$MEMORY" "$WORK/larderd.conf"

# --- without BTF, without a bpffs ---
rm -f "$BPF"/*_2
check "a kernel without BTF" "$here/without_btf" "$loader" --dir "$BPF" --reactors 1 load
says "what is lost" "takes no BTF \(Invalid argument\): bpftool will show the maps as bytes"
node_start || finish
logged "that it counts in them" "counting in the BPF maps"
works bytes
node_stop
bpftool map create "$BPF/others" type array key 4 value 8 entries 1 name others
check "unload beside a pin of others" "$loader" -c "$conf" unload
says "that it stays" "stays mounted: others have pinned something there"
check "theirs is there" test -e "$BPF/others"
rm "$BPF/others"
check "unload" "$loader" -c "$conf" unload
check "the mount is gone" bash -c "! mountpoint -q '$BPF'"
node_start || finish
logged "no bpffs" "ledger.bpf: $BPF: no BPF file system is mounted there|$BPF: No such file"
works plain
check "the figures are there all the same" "$ctl" stats --json
node_stop
rmdir "$BPF" 2>/dev/null
node_start || finish
logged "no folder" "ledger.bpf: $BPF: No such file or directory: larder-bpf load makes it"
node_stop
check "unload twice" "$loader" -c "$conf" unload
bpf_end
