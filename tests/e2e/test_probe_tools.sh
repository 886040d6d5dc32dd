#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Probes and the tools on them, where things are not as they were: every probe attaches with this
# libbpf and gives its arguments; a probe at several places counts each pass once; larder-acct's
# pins; no capability, a kernel without BTF, a node that is started again, a tool that is killed.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
probe=$BIN/../tests/probe
BPF=$WORK/bpffs
PIDS=
tools_finish() {
	for p in $PIDS; do kill -KILL "$p" 2>/dev/null && wait "$p" 2>/dev/null; done
	[ -n "$NODE_PID" ] && kill -KILL "$NODE_PID" 2>/dev/null && wait "$NODE_PID" 2>/dev/null
	NODE_PID=
	while mountpoint -q "$BPF" && umount "$BPF"; do :; done
	finish
}
trap tools_finish EXIT

# listen NAME COMMAND...: in the background, listening when this returns; prints to $WORK/NAME
listen() {
	local name=$1
	shift
	rm -f "$WORK/$name.log"		# an earlier one's says that it listens
	"$@" >"$WORK/$name" 2>"$WORK/$name.log" &
	LISTENER=$!
	PIDS="$PIDS $LISTENER"
	for _ in $(seq 1 200); do
		grep -qs 'listening' "$WORK/$name.log" && return
		kill -0 $LISTENER 2>/dev/null || break
		sleep 0.05
	done
	bad "$name did not begin: $(cat "$WORK/$name.log")"
}
# hears PID: ends a listener, which must end well
hears() {
	kill -INT "$1" 2>/dev/null
	wait "$1" || bad "a listener ended with $?"
}
# sum NAME PATH...: of a listener's last document
sum() {
	python3 -c '
import json, sys
v = json.loads(open(sys.argv[1]).read().strip().split("\n")[-1])
for name in sys.argv[2:]:
    v = v.get(name, {}) if isinstance(v, dict) else 0
print(v or 0)' "$WORK/$1" "${@:2}"
}
same() { # same "what" WANTED GOT
	if [ "$2" = "$3" ]; then ok; else bad "$1: $3, wanted $2"; fi
}
works() { # works "how"
	check "$1: put" "$ctl" put "key-$1" "$WORK/value"
	check "$1: get" "$ctl" get "key-$1" -o "$WORK/back"
}

"$probe/attach" </dev/null >/dev/null 2>"$WORK/out" &
first=$!
for _ in $(seq 1 100); do grep -qs . "$WORK/out" && break; sleep 0.05; done
kill -INT $first 2>/dev/null
wait $first
if [ $? = 77 ] || [ "$(id -u)" != 0 ]; then
	skip "BPF is not to be had here: $(tail -n 1 "$WORK/out")"
	tools_finish
fi

# --- every probe, with this libbpf ---
node_start || tools_finish
listen all "$probe/attach" "$BIN/larderd" "$BIN/larderctl" "$BIN/../lib/liblarder.so"
all=$LISTENER
check "a namespace" "$ctl" ns create test
head -c 5000 /dev/urandom >"$WORK/value"
works shm
"$ctl" --url "tcp://127.0.0.1:$PORT" bench get --size 64K --keys 10 --count 100 >"$WORK/out" 2>&1 ||
	bad "no load over tcp"
"$ctl" bench put --size 4M --keys 30 --count 30 >"$WORK/out" 2>&1 || bad "no load over shm"
"$ctl" quota set demo ops_per_s=1 --runtime >"$WORK/out" 2>&1 || bad "no limit"
for _ in 1 2 3; do "$ctl" --deadline 300 stat key-shm >/dev/null 2>&1; done
"$ctl" quota set demo ops_per_s=default --runtime >"$WORK/out" 2>&1 || bad "no limit"
hears "$all"
check "each attached, and gave what it declares" python3 - "$WORK/all" <<-'EOF2'
	import json, sys
	d = json.load(open(sys.argv[1]))
	print(d['libbpf'])
	hit = {'op_start', 'op_phase', 'op_done', 'reject', 'evict', 'conn_up', 'conn_open',
	       'conn_down', 'region_add', 'region_del', 'client_op_start', 'client_op_done',
	       'client_conn_up', 'client_conn_down', 'client_region_add'}
	assert len(d['probes']) == 18
	for name, p in d['probes'].items():
	    # the library's are in larderctl and liblarder.so, the node's in larderd and larderctl
	    assert p['binaries'] == 2, (name, p)
	    assert p['hits'] > 0 or name not in hit, (name, p)
	    assert not p['hits'] or p['arguments'] == p['declared'], (name, p)
	    assert p['unreadable'] == 0, (name, p)
	assert d['probes']['op_start']['hits'] == d['probes']['op_done']['hits'], d['probes']
EOF2

# --- a probe at several places ---
check "several places" bash -c "[ \$(readelf -n '$probe/sites' | grep -c 'Name: op_done') = 3 ]"
listen sites "$probe/attach" "$probe/sites"
a=$LISTENER
listen acct "$BIN/larder-acct" --json -b "$probe/sites" -C "$WORK/none"
b=$LISTENER
"$probe/sites" >"$WORK/out" || bad "it did not run"
"$probe/sites" >"$WORK/out" || bad "it did not run again"
for p in $a $b; do hears "$p"; done
same "op_done" 3060 "$(sum sites probes op_done hits)"
same "what they carry" $((2 * (1000 * 3 + 530 * 5))) "$(python3 -c "import json
print(json.load(open('$WORK/sites'))['probes']['op_done']['sum'][4])")"
same "larder-acct: GETs" 2000 "$(sum acct tenants '#7' ops GET)"
same "larder-acct: PUTs" 1060 "$(sum acct tenants '#7' ops PUT)"
same "larder-acct: conflicts" 60 "$(sum acct tenants '#7' status CONFLICT)"
same "larder-acct: bytes in" 5300 "$(sum acct tenants '#7' bytes_in)"
same "larder-acct: bytes out" 6000 "$(sum acct tenants '#7' bytes_out)"
same "larder-acct: refused" $((530 * 3 * 2)) "$(sum acct tenants '#7' refused objects)"
same "larder-acct: evicted" 2060 "$(sum acct tenants '#7' evicted_objects)"

# --- larder-acct --pin ---
tcp=tcp://127.0.0.1:$PORT
code 5 "no BPF file system" "$BIN/larder-acct" -p "$NODE_PID" --pin "$WORK/plain" 1 1
says "what to name" "$WORK/plain: not on a BPF file system: name a folder of one"
check "and nothing is left" test ! -e "$WORK/plain"
code 5 "no folder above" "$BIN/larder-acct" -p "$NODE_PID" --pin "$WORK/no/where" 1 1
says "which" "$WORK/no/where: can not be made: No such file"
mkdir "$BPF" && mount -t bpf bpf "$BPF" || bad "no bpffs"
listen acct "$BIN/larder-acct" --json -p "$NODE_PID" -C "$WORK/control.sock" --pin "$BPF/acct"
a=$LISTENER
check "only what counts is pinned" bash -c "[ \"\$(ls '$BPF/acct')\" = 'acct_latency
acct_usage' ]"
code 5 "a second one there" "$BIN/larder-acct" -p "$NODE_PID" --pin "$BPF/acct" 1 1
says "who has it" "$BPF/acct: another larder-acct keeps its maps there"
"$ctl" --url "$tcp" bench get --size 4K --keys 10 --count 300 >"$WORK/out" 2>&1 || bad "no load"
"$ctl" stats --json >"$WORK/stats"
if command -v bpftool >/dev/null; then
	slot=$(python3 -c "import json
print(json.load(open('$WORK/stats'))['tenants']['demo']['slot'])")
	bpftool map dump pinned "$BPF/acct/acct_usage" >"$WORK/pinned"
	kill -INT "$a"
	wait "$a" || bad "larder-acct ended with $?"
	check "bpftool shows what larder-acct tells" python3 - "$WORK/pinned" "$WORK/acct" \
		"$slot" <<-'EOF2'
		import json, sys
		row = json.load(open(sys.argv[1]))[int(sys.argv[3])]['value']
		told = open(sys.argv[2]).read().strip().split('\n')[-1]
		told = json.loads(told)['tenants']['demo']
		assert row['ops'][0x28] == told['ops']['GET'] >= 300, (row, told)
		assert row['bytes'][:2] == [told['bytes_out'], told['bytes_in']]
		assert row['lost'] == told['lost']
	EOF2
else
	skip "bpftool is not installed"
	hears "$a"
fi
check "the pins went with it" test ! -e "$BPF/acct"
listen acct "$BIN/larder-acct" --json -p "$NODE_PID" --pin "$BPF/acct"
kill -KILL "$LISTENER"
wait "$LISTENER" 2>/dev/null
check "one that is killed leaves its pins" test -e "$BPF/acct/acct_usage"
check "the next one takes the folder" "$BIN/larder-acct" -p "$NODE_PID" --pin "$BPF/acct" 1 1
says "what it found" "acct_usage: left by one that was killed: replaced"
check "and they go" test ! -e "$BPF/acct/acct_usage"
umount "$BPF"

# --- a tool that is killed leaves nothing at the node ---
listen oplat "$BIN/larder-oplat" --json -p "$NODE_PID" -C "$WORK/control.sock"
works listened
kill -KILL "$LISTENER"
wait "$LISTENER" 2>/dev/null
works after
listen again "$probe/attach" "$BIN/larderd"
a=$LISTENER
"$ctl" stat key-after >/dev/null
hears "$a"
check "and probes go on" test "$(sum again probes op_done hits)" -gt 0

# --- a node that is started again, under tools that watch the binary ---
listen acct "$BIN/larder-acct" --json -b "$BIN/larderd" -C "$WORK/control.sock"
a=$LISTENER
before=$("$ctl" stats --json | python3 -c 'import json, sys
print(json.load(sys.stdin)["tenants"]["demo"]["puts"])')
works one
node_stop KILL
node_start || tools_finish
works two
works three
hears "$a"
same "PUTs before and after (there were $before)" 3 "$(sum acct tenants demo ops PUT)"

# --- no capability, no BTF: a line, or without what is lacking; the node works ---
for t in oplat acct slow evict connlife; do
	code 5 "larder-$t without capabilities" setpriv --bounding-set=-all --inh-caps=-all \
		"$BIN/larder-$t" -p "$NODE_PID" 1 1
	says "larder-$t: what it takes" "larder-$t: .*Operation not permitted: it takes CAP_BPF"
done
mkdir "$WORK/nothing"
without_types() { # as on a kernel that offers no BTF of its own
	# shellcheck disable=SC2016 # the inner shell's
	unshare -m sh -c 'mount --make-rprivate / && mount --bind "$0" /sys/kernel/btf &&
		exec "$@"' "$WORK/nothing" "$@"
}
if ! without_types true 2>"$WORK/out"; then
	skip "/sys/kernel/btf can not be hidden: $(cat "$WORK/out")"
elif ls /boot/vmlinux-* /lib/modules/*/vmlinux* >/dev/null 2>&1; then
	skip "this kernel's BTF is also in a file"
else
	for t in oplat acct slow evict connlife; do
		check "larder-$t without the kernel's BTF" without_types "$BIN/larder-$t" -p \
			"$NODE_PID" -C "$WORK/control.sock" 1 1
		says "larder-$t listens" "listening to [1-9][0-9]* probes"
	done
	says "what larder-connlife does without" "the kernel's part \(this kernel offers no BTF\)"
fi
for t in oplat connlife; do
	check "larder-$t on a kernel that takes no BTF" "$here/without_btf" "$BIN/larder-$t" -p \
		"$NODE_PID" -C "$WORK/control.sock" 1 1
done
works end
node_stop
same "the node ends well" 0 "$NODE_CODE"
tools_finish
