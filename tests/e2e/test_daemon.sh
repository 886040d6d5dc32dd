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
for bad in foo 1.2.3.4:99999 "127.0.0.1:0 ::1:16180"; do
	code 14 "no address" "$d" -c "$conf" --set listen.tcp="$bad" --check
	says "names the setting and the address" "listen\.tcp: .*(foo|99999|::1:16180)"
	code 14 "no address, at the start" "$d" -c "$conf" --set listen.tcp="$bad"
	code 0 "and takes no memory for it" test ! -e "$MEMORY"
done
long=/tmp/$(head -c 110 /dev/zero | tr '\0' s)
code 14 "a socket's path that is too long" "$d" -c "$conf" --set listen.shm="$long" --check
says "names the setting" "listen\.shm"
code 14 "a control socket's" "$d" -c "$conf" --set control.socket="$long" --check
code 13 "more memory than the machine has" "$d" -c "$conf" --set memory.size=60T --check
says "says what it has" "the machine has"
mkdir "$WORK/disk"
code 13 "memory on a disk" "$d" -c "$conf" --set memory.dir="$WORK/disk" --check
says "says why" "tmpfs|hugetlbfs"
rmdir "$WORK/disk"
code 0 "nothing was made by all this" test ! -e "$MEMORY"
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

# a tenant that is taken away: out at once, its objects stay
(umask 077 && printf 'guest-secret' >"$WORK/tenants.d/guest.secret")
printf '[tenant]\nsecret_file = guest.secret\n' >"$WORK/tenants.d/guest.conf"
guest() { "$ctl" --tenant guest --secret-file "$WORK/tenants.d/guest.secret" --ns own "$@"; }
check "reload a new tenant" "$ctl" reload
check "its object" guest put theirs "$WORK/value"
guest bench get --duration 20s --keys 16 --connections 2 >"$WORK/bench" 2>&1 &
bench=$!
for _ in $(seq 1 100); do
	"$ctl" --json stats | python3 -c 'import json,sys
sys.exit(json.load(sys.stdin)["tenants"]["guest"]["connections"] == 0)' && break
	sleep 0.05
done
mv "$WORK/tenants.d/guest.conf" "$WORK/guest.conf"
printf '[tenant]\nsecret_file = none\n' >"$WORK/tenants.d/ghost.conf"
if "$ctl" reload >"$WORK/out" 2>&1; then bad "a bad tenant reloads"; else ok; fi
check "a reload that fails takes nobody away" guest exists theirs
rm "$WORK/tenants.d/ghost.conf"
check "reload without it" "$ctl" reload
code 3 "it is not let in" guest exists theirs
check "the log names it" grep -q "tenant guest is removed" "$WORK/log"
wait "$bench" && bad "what it had open goes on" || ok
check "the log counts what was open" grep -q "tenant guest was removed: [1-9].*closed" "$WORK/log"
check "others stay" "$ctl" exists kept
mv "$WORK/guest.conf" "$WORK/tenants.d/guest.conf"
check "reload it again" "$ctl" reload
check "its object is there" guest get theirs -o "$WORK/theirs"
check "the same bytes" cmp "$WORK/value" "$WORK/theirs"
check "stats tell of bad values" sh -c "'$ctl' --json stats | grep -q '\"quarantined\": *0'"

# --- names of namespaces are spelled like keys ---
for name in 'with%20space' 'a%2Fb' '%2Edot' '~x0aff'; do
	check "create $name" "$ctl" ns create "$name"
	check "show $name" "$ctl" ns show "$name"
	check "put into $name" "$ctl" --ns "$name" put k "$WORK/value"
	check "flush $name" "$ctl" ns flush --yes "$name"
	"$ctl" ns ls >"$WORK/out"
	says "listed as spelled" "^$name "
done
"$ctl" ns ls >"$WORK/out"
code 0 "each on a line" test "$(grep -c . "$WORK/out")" = 6
check "with its tenant" "$ctl" ns show 'demo:a%2Fb'
for name in 'with space' 'a/b' '%61' '.dot' '' 'a:b:c' ':a' '~x00ff' \
	'~h00112233445566778899aabbccddeeff' "$(head -c 129 /dev/zero | tr '\0' n)"; do
	code 2 "not canonical: $name" "$ctl" ns create "$name"
	code 2 "not canonical in --ns: $name" "$ctl" --ns "$name" exists k
done

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
head -c 4096 "$MEMORY/records" >"$WORK/header"
dd if=/dev/zero of="$MEMORY/records" bs=4096 count=1 conv=notrunc status=none
code 12 "a damaged record file is not wiped" "$d" -c "$conf"
says "says what to do" "put it back"
dd if="$WORK/header" of="$MEMORY/records" bs=4096 conv=notrunc status=none
check "a socket is left" test -S "$WORK/larder.sock"
node_start || finish
check "back after kill -9" "$ctl" get kept -o "$WORK/back3"
check "the same bytes" cmp "$WORK/value" "$WORK/back3"
node_stop INT
check "SIGINT stops with 0 (was $NODE_CODE)" test "$NODE_CODE" = 0

# --- a stop while gigabytes are taken ---
available=$(awk '/MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo)
room=$(df -BG --output=avail /dev/shm | tail -n 1 | tr -dc 0-9)
if [ "$available" -ge 6 ] && [ "$room" -ge 5 ]; then
	"$d" -c "$conf" --set memory.dir="$MEMORY-4" --set memory.size=4G 2>"$WORK/stopped" &
	NODE_PID=$!
	for _ in $(seq 1 200); do
		[ -s "$MEMORY-4/arena" ] && break
		sleep 0.01
	done
	node_stop
	check "stops with 0 (was $NODE_CODE)" test "$NODE_CODE" = 0
	check "says so" grep -q "stopped while starting" "$WORK/stopped"
	code 0 "gives the memory back" test ! -s "$MEMORY-4/arena"
	rm -rf "$MEMORY-4"
else
	skip "a stop while starting: no room for 4 GiB"
fi
finish
