#!/usr/bin/env bash
# What larderd tells a service manager, to a double of it: life while memory is taken, READY with
# figures, a reload, the watchdog only while every reactor turns, a stop that says how long.
. "$(dirname "$0")/lib.sh"
said=$WORK/said

python3 "$here/notify_double.py" "$WORK/notify" "$said" &
double=$!
the_end() {
	kill $double 2>/dev/null
	finish
}
trap the_end EXIT
for _ in $(seq 1 100); do [ -S "$WORK/notify" ] && break; sleep 0.05; done

# heard PATTERN [MORE THAN N]: waits until that many messages match.
heard() {
	local i
	for i in $(seq 1 200); do
		[ "$(grep -cE "$1" "$said")" -gt "${2:-0}" ] && return 0
		sleep 0.05
	done
	cat "$said"
	return 1
}
count() { grep -cE "$1" "$said"; }

export NOTIFY_SOCKET=$WORK/notify WATCHDOG_USEC=3300000
node_start --set node.reactors=2 || the_end
unset NOTIFY_SOCKET WATCHDOG_USEC
check "life while memory is taken" heard 'EXTEND_TIMEOUT_USEC=[0-9]{8,}.*STATUS=Taking memory'
check "and while records are looked at" heard \
	'EXTEND_TIMEOUT_USEC=[0-9]{8,}.*STATUS=Looking at [0-9]+ rec'
check "READY with figures" heard \
	'READY=1 \| STATUS=Serving 1 tenant: 0 objects in 0 B of 64.0 MiB, 0 connections'
code 1 "not ready before" sh -c "grep -A99 READY=1 '$said' | grep -q EXTEND"

# --- figures ---
head -c 300000 /dev/urandom >"$WORK/value"
check "namespace" "$ctl" ns create test
check "put" "$ctl" put one "$WORK/value"
check "the status follows" heard 'STATUS=Serving 1 tenant: 1 object in 320.0 KiB of 64.0 MiB'

# --- reload: synchronous, and told from its begin to its end ---
check "reload" "$ctl" reload
check "RELOADING with the time" heard 'RELOADING=1 \| MONOTONIC_USEC=[0-9]+$'
check "and ready again, by the time the command returns" test "$(count READY=1)" = 2
read -r now _ </proc/uptime
now=${now/./}0000
then=$(sed -n 's/.*MONOTONIC_USEC=//p' "$said" | tail -n 1)
check "the time is the monotonic one" \
	test $((now - then)) -lt 60000000 -a $((now - then)) -gt -1000000
printf '[engine]\nshards = 3\n' >"$WORK/larderd.conf.bad"
mkdir -p "$WORK/larderd.conf.d"
cp "$WORK/larderd.conf.bad" "$WORK/larderd.conf.d/bad.conf"
code 3 "a reload that fails says so" "$ctl" reload
check "and it still is ready" heard READY=1 2
rm "$WORK/larderd.conf.d/bad.conf"

# --- drain ---
check "drain" "$ctl" drain
check "says that it drains" heard 'STATUS=Draining 1 tenant'
check "undrain" "$ctl" drain --undo
check "serves again" heard 'STATUS=Serving 1 tenant' 2

# --- watchdog ---
check "fed" heard WATCHDOG=1
check "and again" heard WATCHDOG=1 "$(count WATCHDOG=1)"
tid=
for t in /proc/"$NODE_PID"/task/*; do
	grep -q reactor-1 "$t/comm" && tid=${t##*/}
done
check "the second reactor's thread" test -n "$tid"
held=$(($(count WATCHDOG=1)))
rc=0
python3 "$here/notify_double.py" --hold "$tid" 4.5 || rc=$?
if [ "$rc" = 77 ]; then
	skip "a thread can not be held here (ptrace)"
else
	# 4.5 s are four looks; the first may still see turns from before
	check "not fed while one reactor stands" test $(($(count WATCHDOG=1) - held)) -le 2
	check "the log says so" grep -q 'a reactor does not turn' "$WORK/log"
	check "fed again" heard WATCHDOG=1 "$(count WATCHDOG=1)"
fi

# --- stop ---
node_stop TERM
check "exit 0" test "$NODE_CODE" = 0
check "STOPPING, and how long at most" heard \
	'STOPPING=1 \| STATUS=Draining \| EXTEND_TIMEOUT_USEC=15000000'
the_end
