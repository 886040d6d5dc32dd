#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# larder-acct and the ledger count the same, to the last one: four tenants over tcp and shm, with
# hits, misses, conflicts, deletes, refusals by rate, cap and connections, evictions, and a client
# that is killed in the middle. The other tools tell of the same load.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
dir=$(dirname "${BASH_SOURCE[0]}")
TOOL_PIDS=
finish_tools() {
	for p in $TOOL_PIDS; do kill -KILL "$p" 2>/dev/null && wait "$p" 2>/dev/null; done
	finish
}
trap finish_tools EXIT

if [ "$(id -u)" != 0 ] || ! "$BIN/larder-acct" -b "$BIN/larderd" 1 1 >/dev/null 2>"$WORK/out"; then
	skip "BPF is not to be had here: $(tail -n 1 "$WORK/out")"
	finish
fi

# tenant NAME [LIMIT...]
tenant() {
	local name=$1
	shift
	(umask 077 && printf 'secret-of-%s' "$name" >"$WORK/tenants.d/$name.secret")
	printf '[tenant]\nsecret_file = %s.secret\n[limits]\n' "$name" >"$WORK/tenants.d/$name.conf"
	printf '%s\n' "$@" >>"$WORK/tenants.d/$name.conf"
}
rm "$WORK/tenants.d/"*
tenant red
tenant green 'resident_bytes = 4M' 'over_cap = reject'
tenant blue 'ops_per_s = 50'
tenant grey 'connections = 1'
node_start || finish_tools
tcp=tcp://127.0.0.1:$PORT shm=shm://$WORK/larder.sock

# as TENANT URL COMMAND...
as() {
	local who=$1 url=$2
	shift 2
	LARDER_SECRET_FILE=$WORK/tenants.d/$who.secret "$ctl" --tenant "$who" --url "$url" "$@"
}
# tool NAME ARGUMENTS...: started, and listening when this returns; prints to $WORK/NAME
tool() {
	local name=$1
	shift
	"$BIN/larder-$name" -p "$NODE_PID" -C "$WORK/control.sock" "$@" >"$WORK/$name" \
		2>"$WORK/$name.log" &
	TOOL_PIDS="$TOOL_PIDS $!"
	for _ in $(seq 1 200); do
		grep -qs 'listening' "$WORK/$name.log" && return
		sleep 0.05
	done
	bad "larder-$name did not begin: $(cat "$WORK/$name.log")"
}
tools_end() {
	for p in $TOOL_PIDS; do kill -INT "$p"; done
	for p in $TOOL_PIDS; do wait "$p" || bad "a tool ended with $?"; done
	TOOL_PIDS=
}

tool acct --json
tool oplat --json
tool slow --json --min 0
tool evict --json
[ "$(grep -c '"slot"' <<<"$("$ctl" stats --json | tr ',' '\n')")" -ge 4 ] && ok ||
	bad "stats does not tell the slots"

# until EXPRESSION: of stats, as d; gives up after ten seconds
until_stats() {
	for _ in $(seq 1 200); do
		"$ctl" stats --json | python3 -c "import json,sys
d = json.load(sys.stdin)
sys.exit(not ($1))" && return
		sleep 0.05
	done
	bad "it did not come to: $1"
}

# --- the load ---
head -c 300000 /dev/urandom >"$WORK/value"
head -c 300001 /dev/urandom >"$WORK/other"
for who in red green blue grey; do
	as $who "$shm" ns create test >/dev/null || bad "$who has no namespace"
done
for url in "$tcp" "$shm"; do
	check "red works over $url" as red "$url" bench get --size 4K --keys 50 --count 400
	check "red puts over $url" as red "$url" bench put --size 600K --keys 8 --count 40
	check "red looks over $url" as red "$url" bench exists --keys 200 --batch 50 --count 20
	as grey "$url" put "key-${url%%:*}" "$WORK/value" >/dev/null || bad "grey can not put"
	as grey "$url" put "key-${url%%:*}" "$WORK/value" >/dev/null || bad "grey can not put again"
	code 3 "a conflict over $url" as grey "$url" put "key-${url%%:*}" "$WORK/other"
	code 1 "a miss over $url" as grey "$url" get "none-${url%%:*}" -o "$WORK/got"
	check "grey gets over $url" as grey "$url" get "key-${url%%:*}" -o "$WORK/got"
	check "grey deletes over $url" as grey "$url" rm "key-${url%%:*}" --yes
	as green "$url" bench put --size 1M --keys 9 --count 9 >/dev/null 2>&1
	as blue "$url" bench get --size 1K --keys 10 --count 100 --deadline 300 >/dev/null 2>&1
done
# a connection too many
LARDER_SECRET_FILE=$WORK/tenants.d/grey.secret "$ctl" --tenant grey --url "$shm" bench get \
	--size 4K --keys 10 --duration 60s >/dev/null 2>&1 &
one=$!
until_stats "d['tenants']['grey']['puts'] > 8"	# of these six are from above
code 4 "one connection too many" as grey "$tcp" get key -o "$WORK/got" --deadline 3000
says "why" "over the limit connections of the tenant"
kill $one
wait $one 2>/dev/null
until_stats "d['tenants']['grey']['connections'] == 0"
# more than the node has: evictions
check "red fills the node" as red "$shm" bench put --size 4M --keys 40 --count 40 --keep
# and one that dies in the middle of what it does
before=$("$ctl" stats --json | python3 -c "import json,sys
print(json.load(sys.stdin)['tenants']['red']['bytes_in'])")
LARDER_SECRET_FILE=$WORK/tenants.d/red.secret "$ctl" --tenant red --url "$tcp" bench put --size 8M \
	--keys 4 --depth 2 --connections 3 --duration 20s >/dev/null 2>&1 &
one=$!
until_stats "d['tenants']['red']['bytes_in'] > $before + 20000000"
kill -KILL $one
wait $one 2>/dev/null
# the node has noticed it
until_stats "d['tenants']['red']['connections'] == 0"

tools_end
check "ledger and larder-acct agree" "$dir/ledger.py" "$WORK/control.sock" "$WORK/acct"

# that the load was what it was meant to be
json() { python3 -c "import json,sys
d = [json.loads(line) for line in open('$WORK/$1')]
sys.exit(not ($2))"; }
check "all four are there" json acct "{'red','green','blue','grey'} <= set(d[-1]['tenants'])"
check "refusals by cap" json acct "d[-1]['tenants']['green']['refused']['resident_bytes'] > 0"
check "refusals by rate" json acct "d[-1]['tenants']['blue']['refused']['ops_per_s'] > 0"
check "refusals by connections" json acct "d[-1]['tenants']['grey']['refused']['connections'] > 0"
check "conflicts" json acct "d[-1]['tenants']['grey']['status']['CONFLICT'] == 2"
check "repetitions" json acct "d[-1]['tenants']['grey']['status']['EXISTS_SAME'] == 2"
check "evictions" json acct "d[-1]['tenants']['red']['evicted_objects'] > 0"
check "the dead client's requests" json acct "d[-1]['tenants']['red']['lost'] > 0"
check "larder-oplat saw as many GETs" python3 - "$WORK/oplat" "$WORK/acct" <<-'EOF2'
	import json, sys
	hists = json.loads(open(sys.argv[1]).read().split('\n')[0])['histograms']
	acct = json.loads(open(sys.argv[2]).read().strip().split('\n')[-1])['tenants']
	for name, t in acct.items():
	    for op, n in t['ops'].items():
	        mine = [h for h in hists if h['tenant'] == name and h['op'] == op]
	        assert sum(h['count'] for h in mine) == n, (name, op, n, mine)
	        assert all(sum(c for _, c in h['log2_ns']) == h['count'] for h in mine)
EOF2
check "larder-slow told of each or counted it" python3 - "$WORK/slow" "$WORK/acct" <<-'EOF2'
	import json, sys
	lines = [json.loads(line) for line in open(sys.argv[1])]
	acct = json.loads(open(sys.argv[2]).read().strip().split('\n')[-1])['tenants']
	ops = sum(sum(t['ops'].values()) + t['lost'] for t in acct.values())
	assert lines[-1]['told'] == len(lines) - 1
	assert lines[-1]['told'] + lines[-1]['dropped'] == ops, (lines[-1], ops)
	for e in lines[:-1]:
	    phases = e['queued_us'] + e['admitted_us'] + e['data_us'] + e['reply_us']
	    assert abs(phases - e['total_us']) < 1, e
EOF2
check "larder-evict saw them" python3 - "$WORK/evict" "$WORK/acct" <<-'EOF2'
	import json, sys
	evict = json.loads(open(sys.argv[1]).read().split('\n')[0])['evictions']
	acct = json.loads(open(sys.argv[2]).read().strip().split('\n')[-1])['tenants']
	for name, t in acct.items():
	    mine = [e for e in evict if e['tenant'] == name and e['reason'] == 'room']
	    assert sum(e['objects'] for e in mine) == t['evicted_objects'], (name, mine)
	    assert sum(e['bytes'] for e in mine) == t['evicted_bytes'], (name, mine)
EOF2
node_stop
code 5 "no such file is said" "$BIN/larder-oplat" -b "$WORK/none" 1 1
says "what to do" "name one with --binary"
code 5 "a binary without probes is said" "$BIN/larder-oplat" -b /bin/true 1 1
says "what it lacks" "no probe larder:op_done"
code 2 "an unknown tenant is said" "$BIN/larder-oplat" -b "$BIN/larderd" -t nobody 1 1
finish_tools
