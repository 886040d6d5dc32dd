#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Which limit wins: files, saved and run-time values over reload, restart and kill -9; who may
# change them; damaged files; a change is felt by a client that is at work.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
d=$BIN/larderd
conf=$WORK/larderd.conf
saved=$WORK/state/limits
runtime=$WORK/control.sock.limits

file() { # file LINE...: the tenant's limits in its file
	printf '[tenant]\nsecret_file = demo.secret\n[limits]\n' >"$WORK/tenants.d/demo.conf"
	printf '%s\n' "$@" >>"$WORK/tenants.d/demo.conf"
}
# row "what" EFFECTIVE FILE SAVED RUNTIME: of "objects"
row() {
	local what=$1
	shift
	"$ctl" quota show demo objects >"$WORK/out" 2>&1
	# shellcheck disable=SC2046,SC2048,SC2086 # words are wanted
	set -- $(echo objects $*)
	if [ "$(tail -n 1 "$WORK/out" | tr -s ' ')" = "$*" ]; then
		ok
	else
		bad "$what: wanted $*"
	fi
}
logged() { # logged "what" PATTERN
	check "the log tells $1" grep -qE "$2" "$WORK/log"
}
not_logged() {
	if grep -qE "$2" "$WORK/log"; then bad "the log tells $1"; else ok; fi
}

# --- precedence ---
file "objects = 1000"
node_start || finish
row "the file's" 1000 1000 - -
check "no state is made before there is any" test ! -e "$WORK/state"
check "save" "$ctl" quota set demo objects=500
says "prints what it came to" "^objects +500 1000 +500 +-"
row "saved wins over the file" 500 1000 500 -
check "run time" "$ctl" quota set demo objects=300 --runtime
row "run time wins over saved" 300 1000 500 300
logged "who set what" "tenant demo: objects = 500, saved"
logged "until when" "tenant demo: objects = 300, until this process ends"
check "save another" "$ctl" quota set demo objects=600
row "a saved value does not disturb run time" 300 1000 600 300
file "objects = 2000" "weight = 200"
check "reload" "$ctl" reload
row "a reload neither" 300 2000 600 300
logged "the hidden one" "tenant demo: objects = 2000 of its file .*run-time value 300 wins"
not_logged "what nothing hides" "weight = 200 of its file"
check "take the run-time value back" "$ctl" quota set demo objects=default --runtime
row "saved wins again" 600 2000 600 -
check "reload" "$ctl" reload
logged "the hidden one" "objects = 2000 of its file .*saved value 600 wins"
check "take the saved value back" "$ctl" quota set demo objects=default
row "the file's again" 2000 2000 - -
check "nothing is kept for it" test ! -e "$saved"
check "nor until the end" test ! -e "$runtime"

# --- restart, clean and not ---
check "save" "$ctl" quota set demo objects=500 resident_bytes=32M over_cap=reject
check "run time" "$ctl" quota set demo objects=300 ops_per_s=10000 --runtime
node_stop
check "stops with 0 (was $NODE_CODE)" test "$NODE_CODE" = 0
logged "what ended" "run-time value objects = 300 ended .*saved value 500 takes its place"
logged "what ended" "run-time value ops_per_s = 10000 ended .*default value none takes its place"
check "what ended is not kept" test ! -e "$runtime"
node_start || finish
row "after a clean stop" 500 2000 500 -
not_logged "twice what ended" "run-time value"
logged "at the start what is hidden" "objects = 2000 of its file .*saved value 500 wins"
"$ctl" quota show demo >"$WORK/out"
says "sizes" "^resident_bytes +32M +- +32M +-"
says "choices" "^over_cap +reject +- +reject +-"
says "weight" "^weight +200 +200 +- +-"
check "run time" "$ctl" quota set demo objects=300 --runtime
check "run time, the viewers" "$ctl" quota set _view connections=7 --runtime
node_stop KILL
node_start || finish
row "after kill -9" 500 2000 500 -
logged "what ended" "tenant demo: the run-time value objects = 300 ended .*saved value 500"
logged "what ended" "tenant _view: the run-time value connections = 7 ended .*built-in value 64"
node_stop KILL
node_start || finish
not_logged "what ended long ago" "run-time value"
"$ctl" --json quota show demo objects >"$WORK/json"
check "effective, file, saved" python3 - "$WORK/json" <<-'EOP'
	import json, sys
	o = json.load(open(sys.argv[1]))
	assert o == {"tenant": "demo", "limits": {"objects": {"effective": 500, "file": 2000,
	             "saved": 500}}}, o
EOP
# a tenant that is away keeps its saved limits
mv "$WORK/tenants.d/demo.conf" "$WORK/demo.conf"
check "reload without it" "$ctl" reload
code 1 "no such tenant" "$ctl" quota show demo
code 1 "no such tenant" "$ctl" quota set demo objects=1
mv "$WORK/demo.conf" "$WORK/tenants.d/demo.conf"
check "reload with it" "$ctl" reload
row "its saved limits are back" 500 2000 500 -

# --- what can not be set changes nothing ---
cp "$saved" "$WORK/saved.before"
code 2 "no such limit" "$ctl" quota set demo object=1
says "says which there are" "resident_bytes, .*over_cap"
code 2 "no value" "$ctl" quota set demo objects=many
says "says what it may be" "is not a number, or none, or default"
code 2 "no assignment" "$ctl" quota set demo objects
code 2 "twice" "$ctl" quota set demo objects=1 objects=2
code 2 "nothing" "$ctl" quota set demo
code 2 "no verb" "$ctl" quota
code 3 "a guarantee of more than the node has" "$ctl" quota set demo resident_bytes=none \
	objects=1 guarantee_bytes=1T
says "says what does not fit" "guarantee of [0-9]+ bytes does not fit"
code 3 "a guarantee over the cap" "$ctl" quota set demo objects=1 guarantee_bytes=48M --runtime
row "neither changed the other limit" 500 2000 500 -
check "nor what is kept" cmp "$saved" "$WORK/saved.before"
if [ "$(id -u)" = 0 ] && mount -t tmpfs -o ro,nr_inodes=8 none "$WORK/state" 2>/dev/null; then
	code 5 "a state directory that can not be written" "$ctl" quota set demo objects=1
	says "says so" "state/limits: the saved limits can not be kept there: Read-only"
	row "nothing changed" 500 2000 500 -
	umount "$WORK/state"
else
	skip "a state directory that can not be written: no right to mount"
fi

# --- damaged files ---
node_stop
for damage in "truncate -s -5" "sed -i s/objects/object/" "sed -i 2,3d"; do
	cp "$WORK/saved.before" "$saved"
	# shellcheck disable=SC2086 # words are wanted
	$damage "$saved"
	code 17 "no start with: $damage" timeout -k 5 20 "$d" -c "$conf"
	says "says which file and what to do" "state/limits.*mend the file, or move it away"
	code 17 "nor a check" "$d" -c "$conf" --check
done
cp "$WORK/saved.before" "$saved"
printf 'rubbish' >"$runtime"
node_start || finish
logged "a damaged record of run-time values" "can not be told: .*control.sock.limits"
row "which hinders nothing" 500 2000 500 -
check "and goes" test ! -e "$runtime"

# --- felt at once by a client that is at work ---
check "namespace" "$ctl" ns create test
check "no rate" "$ctl" quota set demo objects=default resident_bytes=default over_cap=default
"$ctl" bench exists --duration 600s --warmup 10ms --keys 16 >"$WORK/bench" 2>&1 &
bench=$!
figure() { "$ctl" --json stats | python3 -c 'import json,sys
t = json.load(sys.stdin)["tenants"]["demo"]
print(t["refused_by"].get(sys.argv[1], t.get(sys.argv[1], 0)))' "$1"; }
settle() { # settle "what" NAME MORE: that figure grows by MORE
	local what=$1 before after
	before=$(figure "$2")
	for _ in $(seq 1 200); do
		after=$(figure "$2")
		[ "$after" -ge $((before + $3)) ] && break
		sleep 0.02
	done
	check "$what ($before, $after)" test "$after" -ge $((before + $3))
}
settle "it is at work" operations 1000
check "a rate for a running client" "$ctl" quota set demo ops_per_s=50 --runtime
settle "its next requests are refused" ops_per_s 1
"$ctl" stats >"$WORK/out"
says "stats tell by which limit" "^demo +ops_per_s +[1-9]"
check "take it back" "$ctl" quota set demo ops_per_s=default --runtime
kill "$bench" 2>/dev/null
wait "$bench" 2>/dev/null

# --- who may ---
if [ "$(id -u)" = 0 ] && getent group daemon games nogroup >/dev/null; then
	printf '[control]\nsocket = %s\nstats_group = daemon\nadmin_group = games\n' \
		"$WORK/control.sock" >>"$conf"
	check "groups" "$ctl" reload
	chmod 0711 "$WORK"
	cat >"$WORK/ask.py" <<-'EOP'
		import grp, json, os, socket, sys
		gid = grp.getgrnam(sys.argv[2]).gr_gid
		os.setgroups([gid])
		os.setresgid(12345, 12345, 12345)
		os.setresuid(12345, 12345, 12345)
		s = socket.socket(socket.AF_UNIX)
		s.connect(sys.argv[1])
		s.sendall(sys.argv[3].encode() + b"\n")
		print(json.loads(s.makefile().readline()).get("status", "OK"))
	EOP
	set_one='{"cmd":"quota_set","tenant":"demo","limits":{"objects":77}}'
	# group:requests:answers
	while IFS='|' read -r group request answer; do
		python3 "$WORK/ask.py" "$WORK/control.sock" "$group" "$request" >"$WORK/out" 2>&1
		says "$group: $request" "^$answer\$"
	done <<-EOT
		daemon|{"cmd":"quota","tenant":"demo"}|OK
		daemon|$set_one|DENIED
		daemon|{"cmd":"reload"}|DENIED
		daemon|{"cmd":"drain"}|DENIED
		games|{"cmd":"quota","tenant":"demo"}|OK
		games|$set_one|OK
		games|{"cmd":"reload"}|OK
		nogroup|{"cmd":"quota","tenant":"demo"}|DENIED
		nogroup|$set_one|DENIED
		nogroup|{"cmd":"ping"}|DENIED
	EOT
	row "the admin group's value" 77 2000 77 -
else
	skip "who may: only root can be others"
fi

# --- a tenant that puts and never hits ---
check "stats, which look" "$ctl" stats
check "objects that nobody asks for" "$ctl" bench put --count 1100 --warmup 1ms --size 100 --keep
check "stats" "$ctl" stats
says "warns" "^warning: tenant demo: puts_never_hit: .*same keys"
check "once" test "$(grep -c "objects since it last found one" "$WORK/log")" = 1
check "stats" "$ctl" --json stats
says "warns" '"warning": "puts_never_hit"'
check "top" "$ctl" top --delay 50ms
says "warns" "^warning: tenant demo: puts_never_hit"
check "top" "$ctl" --json top --delay 50ms
says "warns" '"warning": "puts_never_hit"'
check "not said again" test "$(grep -c "objects since it last found one" "$WORK/log")" = 1
printf value >"$WORK/value"
check "put" "$ctl" put asked-for "$WORK/value"
check "a hit" "$ctl" get asked-for -o "$WORK/back"
"$ctl" --json stats >"$WORK/out"
if grep -q warning "$WORK/out"; then bad "a hit does not end the warning"; else ok; fi
node_stop
check "stops with 0 (was $NODE_CODE)" test "$NODE_CODE" = 0
finish
