#!/usr/bin/env bash
# Unmodified Redis clients at the RESP port of the real daemon: redis-cli, redis-benchmark,
# redis-py, hiredis, LMCache's native client byte by byte; wrong secrets, garbage, half commands,
# slow readers, limits, counters, drain, a stopped and a killed node, a socket that is handed in.
. "$(dirname "$0")/lib.sh"
resp=$here/resp.py
python=/usr/bin/python3			# of Debian, where its package python3-redis is
[ -x "$python" ] || python=python3

resp_start() {
	node_start --set listen.resp=127.0.0.1:0 --set engine.max_value=8M "$@" || return 1
	RESP=$(sed -n 's/.*resp.*(port \([0-9]*\)).*/\1/p' "$WORK/log" | head -n 1)
}
cli() { redis-cli -p "$RESP" --user demo --pass secret-of-the-test --no-auth-warning "$@"; }
case_of() { check "$1" timeout 100 "$python" "$resp" "$RESP" "$@"; }

# held CASE: starts it; it waits at its line
held() {
	mkfifo "$WORK/go" "$WORK/said"
	timeout 100 "$python" "$resp" "$RESP" "$1" <"$WORK/go" >"$WORK/said" 2>"$WORK/held" &
	HELD=$!
	exec 7>"$WORK/go" 8<"$WORK/said"
	read -r _ <&8
}
held_goes_on() {
	local what=$1
	echo >&7
	exec 7>&- 8<&-
	rm "$WORK/go" "$WORK/said"
	check "$what: $(cat "$WORK/held")" wait "$HELD"
}

resp_start || finish
case_of lmcache
case_of refused
case_of in_step
case_of big $((8 << 20))

if command -v redis-cli >/dev/null; then
	check "redis-cli" cli set k v
	says "OK" "^OK$"
	check "get" cli get k
	says "the value" "^v$"
	check "info" cli info
	says "role" "^role:master"
	check "scan" cli --scan --pattern 'k*'
	says "the key" "^k$"
	check "ttl" cli ttl k
	says "none" "^-1$"
	code 0 "RESP3" cli -3 mget k none
	says "both" "^v$"
	cli lpush a b >"$WORK/out" 2>&1
	says "a proper error" "^ERR unknown command"
	cli set k other >"$WORK/out" 2>&1
	says "conflict" "^CONFLICT "
	check "redis-benchmark" timeout 120 redis-benchmark -p "$RESP" --user demo \
		-a secret-of-the-test -t set,get -d 1048576 -c 4 -n 400 -q
	says "SET ran" "SET: [0-9.]+ requests per second"
	says "GET ran" "GET: [0-9.]+ requests per second"
else
	skip "redis-cli and redis-benchmark: package redis-tools is not there"
fi
if "$python" -c 'import redis' 2>/dev/null; then
	case_of redis_py
else
	skip "redis-py: package python3-redis is not there"
fi
if [ -e /usr/include/hiredis/hiredis.h ]; then
	check "hiredis is linked" cc -o "$WORK/smoke" "$here/smoke/hiredis.c" -lhiredis
	check "hiredis" "$WORK/smoke" "$RESP" secret-of-the-test
else
	skip "hiredis: package libhiredis-dev is not there"
fi

# --- the same objects, the same counters ---
check "a native client sees them" "$ctl" --ns resp get step
says "the bytes" "^x$"
check "LMCache's keys have a namespace named after the model" "$ctl" ns ls
says "its name" "Llama-3.1-8B"
before=$("$here/ledger.py" "$WORK/control.sock" | jq '[.. | .EXISTS? | numbers] | add')
case_of twenty
after=$("$here/ledger.py" "$WORK/control.sock" | jq '[.. | .EXISTS? | numbers] | add')
code 0 "the ledger counts each ($before, $after)" test $((after - before)) = 20
check "a limit" "$ctl" quota set demo ops_per_s=1 --runtime
for _ in 1 2 3; do cli get k; done >"$WORK/out" 2>&1
says "is told" "^THROTTLED over the limit ops_per_s"
check "and taken back" "$ctl" quota set demo ops_per_s=default --runtime

# --- SIGSTOP, drain, restart ---
held hold
kill -STOP "$NODE_PID"
sleep 1
kill -CONT "$NODE_PID"
held_goes_on "a node that stood still drops no one"
held draining
check "drain" "$ctl" drain
held_goes_on "reads go on while draining"
check "undrain" "$ctl" undrain
node_stop KILL
resp_start || finish
case_of there
node_stop
code 0 "ended" test "$NODE_CODE" = 0

# --- other settings ---
resp_start --set resp.on_refusal=drop --set node.stall_timeout=2000 || finish
case_of lmcache_drop
case_of stalled
check "still serves" cli ping
node_stop
case_of handed_in "$WORK/handed.log" "$BIN/larderd" -c "$WORK/larderd.conf"
finish
