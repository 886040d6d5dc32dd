#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The independent witness: TCP bytes of a node's cgroup against the ledger, within headers of
# messages and retransmissions; RoCE v2 packets by a parser that is fed known ones; connections by
# larder-connlife. Cgroup, namespace and devices are this test's own and go with it.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
dir=$(dirname "${BASH_SOURCE[0]}")
TOOL_PIDS= CGROUP= NETNS=
finish_witness() {
	for p in $TOOL_PIDS; do kill -KILL "$p" 2>/dev/null && wait "$p" 2>/dev/null; done
	[ -n "$NODE_PID" ] && kill -KILL "$NODE_PID" 2>/dev/null && wait "$NODE_PID" 2>/dev/null
	NODE_PID=
	[ -z "${home:-}" ] || echo $$ >"$home/cgroup.procs"
	for _ in $(seq 1 50); do
		[ -z "$CGROUP" ] || [ ! -d "$CGROUP" ] || rmdir "$CGROUP" 2>/dev/null || sleep 0.05
	done
	[ -n "$NETNS" ] && ip netns del "$NETNS" 2>/dev/null
	finish
}
trap finish_witness EXIT
trap 'exit 1' INT TERM

if [ "$(id -u)" != 0 ] || ! "$BIN/larder-acct" -b "$BIN/larderd" 1 1 >/dev/null 2>"$WORK/out"; then
	skip "BPF is not to be had here: $(tail -n 1 "$WORK/out")"
	finish_witness
fi
unified=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/self/mounts)

# tool NAME ARGUMENTS...: listening when this returns; prints to $WORK/NAME
tool() {
	local name=$1
	shift
	"$BIN/larder-$name" --json -C "$WORK/control.sock" "$@" >"$WORK/$name" \
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

# --- TCP: a cgroup of our own holds the node ---
for who in red green; do
	(umask 077 && printf 'secret-of-%s' $who >"$WORK/tenants.d/$who.secret")
	printf '[tenant]\nsecret_file = %s.secret\n' $who >"$WORK/tenants.d/$who.conf"
done
as() { # as TENANT URL COMMAND...
	local who=$1 url=$2
	shift 2
	LARDER_SECRET_FILE=$WORK/tenants.d/$who.secret "$ctl" --tenant "$who" --url "$url" "$@"
}
if [ -z "$unified" ] || ! mkdir "$unified/larder-test-$$"; then
	skip "no cgroup can be made: TCP is not witnessed"
else
	CGROUP=$unified/larder-test-$$
	# a socket counts where it was opened, so the node begins there
	home=$unified$(sed -n 's/^0:://p' /proc/self/cgroup)
	echo $$ >"$CGROUP/cgroup.procs"
	node_start || finish_witness
	echo $$ >"$home/cgroup.procs"
	tool witness -p "$NODE_PID"
	tool connlife -p "$NODE_PID"
	for who in red green; do
		as $who "shm://$WORK/larder.sock" ns create test >/dev/null || bad "no namespace"
	done
	tcp=tcp://127.0.0.1:$PORT
	check "red puts" as red "$tcp" bench put --size 256K --keys 20 --count 200
	check "red gets" as red "$tcp" bench get --size 256K --keys 20 --count 300
	check "red gets, deep" as red "$tcp" bench get --size 1M --keys 10 --count 60 --depth 4 \
		--connections 2
	head -c 50000 /dev/zero >"$WORK/again"
	# three store nothing, and each may leave before the node has all of it
	for _ in 1 2 3 4; do
		check "red puts the same" as red "$tcp" put again "$WORK/again"
	done
	check "green by shm" as green "shm://$WORK/larder.sock" bench get --size 64K --keys 10 \
		--count 50
	sleep 0.3
	tools_end
	"$dir/ledger.py" "$WORK/control.sock" >"$WORK/ledger"
	check "the ledger agrees with it" python3 - "$WORK/witness" "$WORK/ledger" <<-'EOF2'
		import json, sys
		seen = json.loads(open(sys.argv[1]).read().strip().split('\n')[-1])
		ledger = json.load(open(sys.argv[2]))
		red, way = ledger['red'], seen['tenants']['red']
		print(red, way)
		assert seen['lost'] == 0 and way['connections'] == 8
		assert 0 < red["bytes_discarded"] <= 150000
		assert red['bytes_in'] > 50e6 and red['bytes_out'] > 100e6
		requests = sum(red['ops'].values())
		came = red['bytes_in'] + red['bytes_discarded']
		for direction, ours in (('in', came), ('out', red['bytes_out'])):
		    w = way[direction]
		    headers = w['payload'] - w['repeated'] - ours
		    # each message: a header of 32 bytes and a body; eight handshakes
		    assert 32 * requests <= headers <= 512 * (requests + 8), (headers, requests)
		    assert headers < ours / 100, (direction, headers)
		    assert w['wire_bytes'] >= w['payload'] + 40 * w['packets'], w
		assert 'green' not in seen['tenants'], 'what went by shm is on no wire'
	EOF2
	check "connections came and went" python3 - "$WORK/connlife" <<-'EOF2'
		import json, sys
		lines = [json.loads(line) for line in open(sys.argv[1])]
		down = [e for e in lines[:-1] if e['event'] == 'DOWN']
		red = [e for e in down if e['tenant'] == 'red' and e['transport'] == 'tcp']
		green = [e for e in down if e['tenant'] == 'green' and e['transport'] == 'shm']
		assert len(red) == 8 and len(green) == 2, lines
		assert sum(e['requests'] for e in red) >= 560
		assert max(e['regions'] for e in green) >= 1
		assert all(e['ns'] > 0 for e in down)
		assert lines[-1]['down'] == len(down) == lines[-1]['open'], lines[-1]
	EOF2
	if grep -q rdma /proc/modules 2>/dev/null || [ -d /sys/class/infiniband ]; then
		ok
	else
		check "what this kernel lacks is said" grep -q 'not watched here: queue pairs' \
			"$WORK/connlife.log"
	fi
	node_stop
	check "the cgroup is ours to remove: no program is left in it" rmdir "$CGROUP"
	CGROUP=
fi

# --- RoCE v2: packets that we made, over a veth pair ---
NETNS=larder-test-$$
if ! ip netns add "$NETNS" 2>"$WORK/out" || ! ip -n "$NETNS" link add la type veth peer name lb \
	2>"$WORK/out"; then
	skip "no network namespace can be made: RoCE is not witnessed ($(cat "$WORK/out"))"
	finish_witness
fi
for i in la lb; do
	ip netns exec "$NETNS" sysctl -q -w net.ipv6.conf.$i.disable_ipv6=1 2>/dev/null
	ip -n "$NETNS" link set $i mtu 4200 up
done
ip netns exec "$NETNS" "$BIN/larder-witness" --json --roce lb >"$WORK/roce" 2>"$WORK/roce.log" &
TOOL_PIDS=$!
for _ in $(seq 1 100); do
	grep -qs listening "$WORK/roce.log" && break
	sleep 0.05
done
check "packets of all kinds" ip netns exec "$NETNS" "$dir/roce_packets.py" la
sleep 0.2
tools_end
check "each was told apart" python3 - "$WORK/roce" <<-'EOF2'
	import json, sys
	seen = json.loads(open(sys.argv[1]).read().strip().split('\n')[-1])
	print(seen)
	qps = {(q['from'], q['qp']): q for q in seen['queue_pairs']}
	assert seen['malformed'] == 2 and seen['lost'] == 0
	a = qps['198.51.100.1', 17]
	assert a['write'] == {'packets': 5, 'payload': 4096 + 4096 + 100 + 7 + 4096}
	assert a['repeated'] == 4096
	assert a['read'] == {'packets': 3, 'payload': 4096 + 4096 + 3}
	assert a['send'] == {'packets': 2, 'payload': 200 + 33}
	assert a['other'] == {'packets': 2, 'payload': 0}
	b = qps['2001:db8::1', 0xffffff]
	assert b['read'] == {'packets': 2, 'payload': 2048}
	assert b['repeated'] == 0, 'numbers wrap'
	assert len(qps) == 2, qps
EOF2
code 5 "an interface that is none" "$BIN/larder-witness" --roce larder-none 1 1
says "which" "larder-none: there is no such interface"
code 2 "nothing named" "$BIN/larder-witness" 1 1
finish_witness
