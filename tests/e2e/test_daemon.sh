#!/usr/bin/env bash
# larderd as an operator meets it: settings and their mistakes, a second daemon, other geometry,
# no memory, a taken port, reload, drain, restart. Each failure: one clear line, an exit code of its
# own, nothing lost.
. "$(dirname "$0")/lib.sh"
d=$BIN/larderd
conf=$WORK/larderd.conf

# --- arguments and settings ---
code 0 "help" "$d" --help
code 2 "unknown option" "$d" --frobnicate
code 2 "stray argument" "$d" stray
code 10 "named file absent" "$d" -c "$WORK/absent.conf" --check
says "names the file" "absent.conf"
code 10 "unknown setting" "$d" -c "$conf" --set engine.shard=4 --check
says "names the setting" "engine\.shard"
code 10 "not a number" "$d" -c "$conf" --set engine.shards=many --check
code 10 "no power of two" "$d" -c "$conf" --set engine.shards=3 --check
code 10 "out of range" "$d" -c "$conf" --set memory.page_size=1 --check
says "names the range" "4096"
code 10 "unknown policy" "$d" -c "$conf" --set engine.policy=magic --check
code 0 "good settings" "$d" -c "$conf" --check
mkdir -p "$conf.d"
printf '[engine]\nshards = 8\n' >"$conf.d/10-shards.conf"
code 0 "dump" "$d" -c "$conf" --set log.level=debug --dump-config
says "origin: drop-in and line" "shards = 8 .*10-shards.conf:2"
says "origin: --set" "level = debug .*--set"
says "origin: default" "policy = aseg .*default"
printf '[engine]\nshards = 8\nnonsense\n' >"$conf.d/20-bad.conf"
code 10 "a line that is nothing" "$d" -c "$conf" --check
says "names file and line" "20-bad.conf:3"
rm "$conf.d/20-bad.conf"
chmod 0644 "$WORK/tenants.d/demo.secret"
code 15 "secret that others may read" "$d" -c "$conf" --check
says "says what to do" "chmod"
chmod 0400 "$WORK/tenants.d/demo.secret"
printf '[tenant]\nsecret_file = none\n' >"$WORK/tenants.d/ghost.conf"
code 15 "secret absent" "$d" -c "$conf" --check
rm "$WORK/tenants.d/ghost.conf"
printf '[tenant]\nsecret_file = demo.secret\n' >"$WORK/tenants.d/Bad_Name.conf"
code 15 "tenant's name" "$d" -c "$conf" --check
rm "$WORK/tenants.d/Bad_Name.conf"

# --- a node, and what must not disturb it ---
node_start || finish
check "namespace" "$ctl" ns create test
head -c 300000 /dev/urandom >"$WORK/value"
check "put" "$ctl" put kept "$WORK/value"
code 11 "second daemon on the same memory" "$d" -c "$conf" --set listen.shm="$WORK/other.sock" \
	--set control.socket=
says "names the holder" "$NODE_PID"
code 14 "port taken" "$d" -c "$conf" --set memory.dir="$MEMORY-2" --set control.socket= \
	--set listen.tcp="127.0.0.1:$PORT" --set listen.shm="$WORK/other.sock"
says "names the address" "127.0.0.1:$PORT"
code 14 "socket taken" "$d" -c "$conf" --set memory.dir="$MEMORY-2" --set control.socket=
rm -rf "$MEMORY-2"
check "still serves" "$ctl" get kept -o "$WORK/back"
check "the same bytes" cmp "$WORK/value" "$WORK/back"
check "socket is still there" test -S "$WORK/larder.sock"

# --- reload ---
check "reload, nothing new" "$ctl" reload
printf '[engine]\nshards = 16\n[log]\nlevel = debug\n' >"$conf.d/30-new.conf"
check "reload" "$ctl" reload
check "says what can not change now" grep -q "engine.shards.*next start" "$WORK/log"
printf '[log]\nlevel = loud\n' >"$conf.d/30-new.conf"
if "$ctl" reload >"$WORK/out" 2>&1; then bad "a bad file reloads"; else ok; fi
says "names the mistake" "loud"
check "still serves after it" "$ctl" exists kept
rm "$conf.d/30-new.conf"
# a new tenant, and a changed secret with both valid
(umask 077 && printf 'other' >"$WORK/tenants.d/demo.next")
printf '[tenant]\nsecret_file = demo.secret\nsecret_file_next = demo.next\n' \
	>"$WORK/tenants.d/demo.conf"
check "reload secrets" "$ctl" reload
check "old secret" "$ctl" exists kept
check "new secret" "$ctl" --secret-file "$WORK/tenants.d/demo.next" exists kept
printf wrong >"$WORK/wrong"
code 3 "wrong secret" "$ctl" --secret-file "$WORK/wrong" exists kept

# --- drain ---
check "drain" "$ctl" drain
code 3 "put while draining" "$ctl" put refused "$WORK/value"
check "undrain" "$ctl" drain --undo
check "put after it" "$ctl" put accepted "$WORK/value"

# --- stop and start ---
node_stop
check "stops with 0 (was $NODE_CODE)" test "$NODE_CODE" = 0
check "no socket left" test ! -e "$WORK/larder.sock"
code 4 "nobody there" "$ctl" --deadline 500 exists kept
code 12 "other page size" "$d" -c "$conf" --set memory.page_size=4K
says "says what is there and what was asked" "pages 1024, 16384"
code 12 "other size" "$d" -c "$conf" --set memory.size=32M
code 13 "more than there is" "$d" -c "$conf" --set memory.dir="$MEMORY-3" --set memory.size=60T
rm -rf "$MEMORY-3"
code 13 "a disk" "$d" -c "$conf" --set memory.dir="$WORK/disk"
says "says why" "tmpfs|hugetlbfs"
node_start || finish
check "the object is back" "$ctl" get kept -o "$WORK/back2"
check "the same bytes" cmp "$WORK/value" "$WORK/back2"
node_stop KILL
check "a socket is left" test -S "$WORK/larder.sock"
node_start || finish
check "back after kill -9" "$ctl" get kept -o "$WORK/back3"
check "the same bytes" cmp "$WORK/value" "$WORK/back3"
node_stop INT
check "SIGINT stops with 0 (was $NODE_CODE)" test "$NODE_CODE" = 0
finish
