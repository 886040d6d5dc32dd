#!/usr/bin/env bash
# larderctl as a script meets it: exit codes, the spelling of keys, JSON, other hosts, what a store
# of bytes must not do to them.
. "$(dirname "$0")/lib.sh"

node_start || finish
check "namespace" "$ctl" ns create test

# --- bytes ---
head -c 100000 /dev/urandom >"$WORK/value"
check "put from a file" "$ctl" put block "$WORK/value"
check "get to a file" "$ctl" get block -o "$WORK/back"
check "the same bytes" cmp "$WORK/value" "$WORK/back"
check "get to standard output" sh -c "'$ctl' get block | cmp - '$WORK/value'"
check "put from standard input" sh -c "'$ctl' put piped - <'$WORK/value'"
"$ctl" get block --range 1000:77 >"$WORK/range"
tail -c +1001 "$WORK/value" | head -c 77 >"$WORK/wanted"
check "a range" cmp "$WORK/range" "$WORK/wanted"

# --- exit codes ---
code 0 "put the same again" "$ctl" put block "$WORK/value"
printf other >"$WORK/other"
code 3 "put something else" "$ctl" put block "$WORK/other"
says "names the status" "CONFLICT"
code 1 "get what is not there" "$ctl" get none
says "one line" "^larderctl: get none: .*NOT_FOUND"
code 1 "one of several is not there" "$ctl" exists block none
code 2 "no command" "$ctl"
code 2 "unknown command" "$ctl" frobnicate
code 2 "unknown option" "$ctl" get block --frobnicate
code 2 "no such transport" "$ctl" --url foo://x ping
code 2 "a key that is not canonical" "$ctl" get '%61'
code 2 "a slash is %2F" "$ctl" get 'a/b'
code 4 "nobody listens" "$ctl" --url "tcp://127.0.0.1:1" --deadline 300 ping
code 3 "no such tenant" "$ctl" --tenant nobody get block

# --- keys ---
for key in 'a%2Fb' '%2Ehidden' 'with%20space' '~x00ff0a' '~x0d0a' '%7Etilde' \
	'UPPER.lower_0-9=@+'; do
	check "put $key" "$ctl" put "$key" "$WORK/other"
	check "stat $key" "$ctl" stat "$key"
done
"$ctl" ls -1 >"$WORK/listed"
while read -r key; do
	check "get $key as ls spells it" "$ctl" get "$key" -o "$WORK/back"
done <"$WORK/listed"
code 0 "nine of them" test "$(wc -l <"$WORK/listed")" = 9
long=$(head -c 300 /dev/zero | tr '\0' k)
check "put a key of 300 bytes" "$ctl" put "$long" "$WORK/value"
short=$("$ctl" ls -1 --names kkk | head -n 1)
check "get it by what ls prints" "$ctl" get "$short" -o "$WORK/back"
check "the same bytes" cmp "$WORK/value" "$WORK/back"
check "rm it" "$ctl" rm "$long"
code 1 "it is gone" "$ctl" exists "$long"

# --- pins ---
code 1 "pin what is not there" "$ctl" pin none
check "pin" "$ctl" pin block
check "pin hard, twice" "$ctl" pin --hard block block
check "stat" "$ctl" stat block
says "both pins" " 1/1 "
code 3 "pinned hard: rm is refused" "$ctl" rm block
node_stop KILL
node_start || finish
check "stat after kill -9" "$ctl" stat block
says "both pins, still" " 1/1 "
code 3 "pinned hard: rm is refused, still" "$ctl" rm block
check "unpin" "$ctl" unpin block
check "unpin hard, twice" "$ctl" unpin --hard block block
check "stat" "$ctl" stat block
says "no pin" " 0/0 "

# --- JSON ---
for command in "stat block" "exists block none" "ls" "ns ls" "stats" "ping" "get none"; do
	# shellcheck disable=SC2086 # words are wanted
	"$ctl" --json $command >"$WORK/json" 2>/dev/null
	check "--json $command" python3 -m json.tool "$WORK/json"
done

# --- another host: by ssh, whose place a script takes here ---
mkdir "$WORK/bin"
printf '#!/bin/sh\nexit ${SSH_CODE:-0}\n' >"$WORK/bin/ssh"
chmod +x "$WORK/bin/ssh"
code 0 "-H" env PATH="$WORK/bin:$PATH" "$ctl" -H node-2.example stats
code 3 "-H: what the far end said" env PATH="$WORK/bin:$PATH" SSH_CODE=3 "$ctl" -H h stats
code 4 "-H: ssh can not reach it" env PATH="$WORK/bin:$PATH" SSH_CODE=255 "$ctl" -H h stats
code 2 "-H: an option is no host" "$ctl" -H -oProxyCommand=x stats
finish
