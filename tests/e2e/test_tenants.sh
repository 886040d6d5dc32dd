#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tenants' files: each mistake is told with file and line and changes nothing; secrets from files
# and credentials, and how they are changed under open sessions.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
d=$BIN/larderd
conf=$WORK/larderd.conf
dir=$WORK/tenants.d

tenant() { # tenant NAME LINE...: its file, with a secret of its own
	local name=$1
	shift
	[ -e "$dir/$name.secret" ] || (umask 077 && printf '%s-secret' "$name" >"$dir/$name.secret")
	printf '[tenant]\nsecret_file = %s.secret\n' "$name" >"$dir/$name.conf"
	printf '%s\n' "$@" >>"$dir/$name.conf"
}
as() { # as TENANT COMMAND...
	local name=$1
	shift
	"$ctl" --tenant "$name" --secret-file "$dir/$name.secret" "$@"
}

# --- a table of mistakes: lines from the third on, the line that is to blame, what is said ---
node_start || finish
check "namespace" "$ctl" ns create test
printf value >"$WORK/value"
check "put" "$ctl" put kept "$WORK/value"
n=0
while IFS='|' read -r lines line says; do
	n=$((n + 1))
	printf '[tenant]\nsecret_file = demo.secret\n%b' "$lines" >"$dir/bad-$n.conf"
	what=$(printf '%b' "$lines" | tr '\n' '/')
	code 15 "--check of $what" "$d" -c "$conf" --check
	says "$what: file and line" "bad-$n\.conf:$line: "
	says "$what: what is wrong" "$says"
	code 3 "reload with $what" "$ctl" reload
	says "$what: the reload says so" "bad-$n\.conf:$line: .*$says"
	check "nothing changed" "$ctl" exists kept
	code 3 "the new tenant is not there" "$ctl" --tenant "bad-$n" exists kept
	rm "$dir/bad-$n.conf"
done <<-'EOT'
	[limits]\nresident = 1G\n|4|no such limit: resident: there are resident_bytes, .*over_cap
	[limits]\nresident_bytes = 1P\n|4|"1P" is not a number of bytes, with K, M, G or T, or none
	[limits]\nresident_bytes = -1\n|4|"-1" is not a number of bytes
	[limits]\nobjects = many\n|4|"many" is not a number, or none
	[limits]\nobjects = 1K\n|4|is not a number
	[limits]\nweight = 10001\n|4|is not a number, 1 to 10000
	[limits]\nover_cap = drop\n|4|"drop" is not evict-own or reject
	[limits]\nobjects = 1\nobjects = 2\n|5|objects is set twice
	[limits]\nobjects = 1\n\n; a comment\nobject = 2\n|7|no such limit: object
	[limits]\nobjects\n|4|not a \[section\], a key = value
	[share]\na/b = demo\n|4|"a/b" is no namespace
	[share]\n%61 = demo\n|4|"%61" is no namespace
	[share]\nns = Demo\n|4|reader "Demo" is no name of another tenant
	[share]\nns = ; nobody\n|4|ns: names no reader
	[quota]\nobjects = 1\n|4|no such section: \[quota\]: there are \[tenant\]
	secret = x\n|3|no such setting: \[tenant\] secret: there are secret_file
	secret_file = demo.secret\n|3|secret_file: the tenant has this secret already
	secret_credential_next = none\n|3|credential none: systemd handed no credentials in
	secret_file_next = none\n|3|can not read the secret .*/none: No such file
EOT
long=$(head -c 300 /dev/zero | tr '\0' x)
tenant long "[limits]" "objects = $long"
code 15 "a line that is too long" "$d" -c "$conf" --check
says "file and line" "long\.conf:4: the line is too long"
# guarantees fit the node together, or nothing changes
tenant long "[limits]" "guarantee_bytes = 48M"
tenant other "[limits]" "guarantee_bytes = 32M"
code 3 "guarantees of more than the node" "$ctl" reload
says "says what does not fit" "guarantee of [0-9]+ bytes does not fit"
code 3 "neither is there" as long exists kept
code 3 "neither is there" as other exists kept
tenant long "[limits]" "guarantee_bytes = 48M" "resident_bytes = 32M"
rm "$dir/other.conf"
code 3 "a guarantee over its own cap" "$ctl" reload
says "says so" "is more than its resident_bytes"
rm "$dir/long.conf"
# what one gives up in a reload, another may have in the same
tenant first "[limits]" "guarantee_bytes = 48M"
check "a guarantee" "$ctl" reload
mv "$dir/first.conf" "$WORK/first.conf"
tenant second "[limits]" "guarantee_bytes = 48M"
check "passed on to another by one reload" "$ctl" reload
rm "$dir/second.conf"
# '=' in a namespace's name, a long one, comments, several lines: all fine
tenant sharer "[limits]" "objects = none ; no limit" "[share]" "a=b@r7 = demo ; one" \
	"$(head -c 128 /dev/zero | tr '\0' n) = demo guest" "a=b@r7 = guest" \
	"  indented = demo" "# a comment" "; another"
check "what is good is taken" "$ctl" reload
rm "$dir/sharer.conf"

# --- secrets ---
for mode in 0440 0404 0700 0666; do
	chmod "$mode" "$dir/demo.secret"
	code 15 "secret with mode $mode" "$d" -c "$conf" --check
	says "says what to do" "mode $mode.*chmod 0400"
done
chmod 0600 "$dir/demo.secret"
check "mode 0600" "$d" -c "$conf" --check
if [ "$(id -u)" = 0 ]; then
	chown 12345 "$dir/demo.secret"
	code 15 "somebody else's secret" "$d" -c "$conf" --check
	says "says what to do" "uid 12345: chown"
	chown 0 "$dir/demo.secret"
else
	skip "somebody else's secret: only root can make one"
fi
mkfifo -m 0600 "$dir/pipe"
printf '[tenant]\nsecret_file = pipe\n' >"$dir/pipe.conf"
code 15 "a secret that is no file" timeout 5 "$d" -c "$conf" --check
says "says so" "no regular file"
rm "$dir/pipe.conf" "$dir/pipe"
: >"$WORK/empty" && chmod 0400 "$WORK/empty"
printf '[tenant]\nsecret_file = %s/empty\n' "$WORK" >"$dir/empty.conf"
code 15 "an empty secret" "$d" -c "$conf" --check
says "says so" "1 to 1024 bytes"
rm "$dir/empty.conf"
node_stop
# a credential looks as systemd makes it: an access list shows as rights of the group
mkdir "$WORK/credentials"
printf 'from-systemd' >"$WORK/credentials/larder-demo"
chmod 0440 "$WORK/credentials/larder-demo"
printf '[tenant]\nsecret_credential = larder-demo\n' >"$dir/demo.conf"
export CREDENTIALS_DIRECTORY=$WORK/credentials
printf '[tenant]\nsecret_credential = ../x\n' >"$dir/bad.conf"
code 15 "a credential with a path" "$d" -c "$conf" --check
says "says so" "no name of a credential"
rm "$dir/bad.conf"
node_start || finish
code 3 "the file's secret is not valid any more" "$ctl" exists kept
(umask 077 && cp "$WORK/credentials/larder-demo" "$WORK/credential")
check "the credential is" "$ctl" --secret-file "$WORK/credential" exists kept

# --- changing a secret: no session is lost ---
printf 'next' >"$WORK/next" && chmod 0400 "$WORK/next"
connections() {
	"$ctl" --json stats | python3 -c 'import json,sys
print(json.load(sys.stdin)["tenants"]["demo"]["connections"])'
}
"$ctl" --secret-file "$WORK/credential" bench get --duration 600s --warmup 10ms --keys 4 \
	--connections 2 --size 4K >"$WORK/bench" 2>&1 &
bench=$!
for _ in $(seq 1 100); do
	[ "$(connections)" = 2 ] && break
	sleep 0.05
done
printf '[tenant]\nsecret_credential = larder-demo\nsecret_file_next = %s/next\n' "$WORK" \
	>"$dir/demo.conf"
check "reload: both are valid" "$ctl" reload
check "the old one" "$ctl" --secret-file "$WORK/credential" exists kept
check "the new one" "$ctl" --secret-file "$WORK/next" exists kept
printf '[tenant]\nsecret_file = %s/next\n' "$WORK" >"$dir/demo.conf"
check "reload: only the new one" "$ctl" reload
code 3 "the old one opens nothing any more" "$ctl" --secret-file "$WORK/credential" exists kept
check "the new one does" "$ctl" --secret-file "$WORK/next" exists kept
gets() { "$ctl" --json stats | python3 -c 'import json,sys
print(json.load(sys.stdin)["tenants"]["demo"]["gets"])'; }
before=$(gets) after=$before
for _ in $(seq 1 100); do
	after=$(gets)
	[ "$after" -gt $((before + 100)) ] && break
	sleep 0.05
done
check "who was in goes on getting ($before, $after)" test "$after" -gt $((before + 100))
check "on the same connections" test "$(connections)" = 2
kill "$bench"
wait "$bench" 2>/dev/null
check "no session was refused or lost" test ! -s "$WORK/bench"
node_stop
check "stops with 0 (was $NODE_CODE)" test "$NODE_CODE" = 0
finish
