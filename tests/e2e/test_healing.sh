#!/usr/bin/env bash
# Promise 1, healing, as an operator meets it: a byte of a running node's memory turns. A reader is
# told, a new put heals it; with the scrubber on nobody has to read.
. "$(dirname "$0")/lib.sh"
printf '[engine]\nscrub = 0\n' >>"$WORK/larderd.conf"
node_start || exit 1

mark=HEALING-MARK-$$
value() { # value TEXT: 600,000 bytes, the mark in the third check block
	head -c 550000 /dev/zero
	printf '%s-%s' "$mark" "$1"
	head -c $((50000 - ${#mark} - 1 - ${#1})) /dev/zero
}
flip() { # flip TEXT: turns a byte of the pages that hold it
	local at
	at=$(grep -obUaF "$mark-$1" "$MEMORY/arena" | head -n 1 | cut -d: -f1)
	[ -n "$at" ] && printf '!' | dd of="$MEMORY/arena" bs=1 seek="$at" conv=notrunc status=none
}
stat() { "$ctl" --json stats | sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" | head -n 1; }
wait_stat() { # wait_stat NAME VALUE: at most 20 s
	for _ in $(seq 200); do
		[ "$(stat "$1")" = "$2" ] && return 0
		sleep 0.1
	done
	echo "$1 is $(stat "$1")"
	return 1
}

bad=0
for url in "shm://$WORK/larder.sock" "tcp://127.0.0.1:$PORT"; do
	export LARDER_URL=$url
	value "$bad" >"$WORK/value"
	check "put over $url" "$ctl" put key "$WORK/value"
	check "get" "$ctl" get key -o "$WORK/back"
	check "equal" cmp "$WORK/value" "$WORK/back"
	check "a false report" "$ctl" get --verify key -o "$WORK/back"
	check "equal after a false report" cmp "$WORK/value" "$WORK/back"
	check "a byte turns" flip "$bad"
	check "a good block is served" "$ctl" get --range 0:1000 key -o "$WORK/back"
	check "its bytes" cmp -n 1000 "$WORK/value" "$WORK/back"
	code 1 "the bad one is not" "$ctl" get key -o "$WORK/back"
	bad=$((bad + 1))
	check "counted" wait_stat quarantined "$bad"
	code 1 "it stays away" "$ctl" get --range 0:1000 key -o "$WORK/back"
	check "put again" "$ctl" put key "$WORK/value"
	check "get again" "$ctl" get --verify key -o "$WORK/back"
	check "equal again" cmp "$WORK/value" "$WORK/back"
	check "a byte turns, reported by --verify" flip "$((bad - 1))"
	code 1 "reported" "$ctl" get --verify key -o "$WORK/back"
	bad=$((bad + 1))
	check "counted" wait_stat quarantined "$bad"
done
which='tenant demo, namespace test, key hash [0-9a-f]{32}, inode [0-9]+: .*block 3 of 3'
check "one line tells which" grep -qE "$which" "$WORK/log"

value alone >"$WORK/value"
check "put" "$ctl" put alone "$WORK/value"
check "a byte turns" flip alone
check "nobody looks" [ "$(stat scrubbed_bytes)" = 0 ]
sed -i 's/^scrub = .*/scrub = 1G/' "$WORK/larderd.conf"
check "reload" "$ctl" reload
check "the scrubber finds it" wait_stat quarantined "$((bad + 1))"
check "and says how far it is" [ "$(stat scrubbed_bytes)" -gt 0 ]
code 1 "it is gone" "$ctl" get alone -o "$WORK/back"
check "put heals" "$ctl" put alone "$WORK/value"
