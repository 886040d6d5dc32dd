#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A tenant that leaves the configuration: its objects stay, nobody gets them, also after a restart
# with tenants reordered; purge throws them away.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
dir=$WORK/tenants.d

tenant() { # tenant NAME LINE...
	local name=$1
	shift
	(umask 077 && printf '%s-secret' "$name" >"$WORK/$name.secret")
	printf '[tenant]\nsecret_file = %s/%s.secret\n' "$WORK" "$name" >"$dir/$name.conf"
	printf '%s\n' "$@" >>"$dir/$name.conf"
}
as() { # as TENANT COMMAND...
	local name=$1
	shift
	"$ctl" --tenant "$name" --secret-file "$WORK/$name.secret" "$@"
}

tenant one
tenant two
node_start || finish
for name in one two; do
	head -c 20000 /dev/urandom >"$WORK/$name.value"
	for i in 1 2 3; do
		check "$name puts" as "$name" --ns own put "key-$i" "$WORK/$name.value"
	done
done
check "a limit of one that goes" "$ctl" quota set one objects=77
check "tenants" "$ctl" tenant ls
says "configured" "^one +yes +3 "
code 3 "one that is configured is not purged" "$ctl" tenant purge one --yes
says "says what to do first" "take its file away and reload"
code 1 "nor one that is none" "$ctl" tenant purge nobody --yes

# --- gone, added, reordered, over a restart: nobody gets another's objects ---
rm "$dir/one.conf"
check "reload without one" "$ctl" reload
"$ctl" tenant ls >"$WORK/out"
says "left over" "^one +no: left over +3 "
tenant aaa
tenant zzz
node_stop
node_start || finish
"$ctl" tenant ls >"$WORK/out"
says "left over, after a restart" "^one +no: left over +3 "
says "the others' are theirs" "^two +yes +3 "
says "the new one has none" "^aaa +yes +0 "
code 3 "nobody is let in as it" as one --ns own exists key-1
for name in aaa zzz; do
	check "$name makes a namespace of that name" as "$name" ns create own
	code 1 "$name has none of it" as "$name" --ns own exists key-1
done
check "two gets its own" as two --ns own get key-1 -o "$WORK/back"
check "the same bytes" cmp "$WORK/two.value" "$WORK/back"

# --- purge ---
code 2 "purge, where nobody can be asked" "$ctl" tenant purge one </dev/null
says "says how much it is" "tenant purge one: 3 objects, 58\.6 KiB"
"$ctl" tenant ls >"$WORK/out"
says "nothing was done" "^one +no: left over +3 "
check "purge" "$ctl" tenant purge one --yes
says "tells what went" "^one: 3 objects, "
"$ctl" tenant ls >"$WORK/out"
if grep -q "^one " "$WORK/out"; then bad "its name is still there"; else ok; fi
check "others stay" as two --ns own get key-1 -o "$WORK/back"
code 1 "purge it again" "$ctl" tenant purge one --yes
node_stop KILL
node_start || finish
"$ctl" tenant ls >"$WORK/out"
if grep -q "^one " "$WORK/out"; then bad "it is back after a restart"; else ok; fi
tenant one
check "a new tenant of that name" "$ctl" reload
check "makes its namespace" as one ns create own
code 1 "and has none of it" as one --ns own exists key-1
"$ctl" quota show one objects >"$WORK/out"
if grep -qE "^objects .* 77 " "$WORK/out"; then bad "its saved limits are back"; else ok; fi

node_stop
check "stops with 0 (was $NODE_CODE)" test "$NODE_CODE" = 0
finish
