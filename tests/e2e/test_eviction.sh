#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Eviction as an operator sees it: the default policy, the ages of victims, and why a key is gone.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# ask REQUEST: one line to the control socket, the answer on standard output
ask() {
	python3 - "$WORK/control.sock" "$1" <<-'EOP'
		import socket, sys
		s = socket.socket(socket.AF_UNIX)
		s.connect(sys.argv[1])
		s.sendall(sys.argv[2].encode() + b"\n")
		print(s.makefile().readline(), end="")
	EOP
}

node_start --set memory.pages=8 --set memory.page_size=4K \
	--set engine.reserve=0 --set engine.shards=1 || finish
check "the default is aseg" grep -q "policy aseg remembers" "$WORK/log"
check "namespace" "$ctl" ns create test
printf value >"$WORK/value"
for i in 1 2 3 4 5 6 7 8 9; do
	check "put $i" "$ctl" put "key%20$i" "$WORK/value"
done
check "asks" ask '{"cmd":"why","tenant":"demo","ns":"test","key":"key%201"}'
says "evicted" '"fate": ?"evicted"'
says "for whom" '"room_for": ?"demo"'
check "asks" ask '{"cmd":"why","tenant":"demo","ns":"test","key":"key%209"}'
says "present" '"fate": ?"present"'
check "asks" ask '{"cmd":"why","tenant":"demo","ns":"test","key":"other"}'
says "unknown" '"fate": ?"unknown"'
says "how far back it goes" '"record_entries": ?1'
check "asks" ask '{"cmd":"why","tenant":"demo","ns":"nowhere","key":"other"}'
says "no such namespace" NOT_FOUND
check "asks" ask '{"cmd":"why","tenant":"demo","ns":"test","key":"a b"}'
says "not as keys are spelled" BAD_REQUEST
check "stats" "$ctl" --json stats
says "age at eviction" '"evicted_age_s": ?[1-9]'
node_stop
check "stops with 0 (was $NODE_CODE)" test "$NODE_CODE" = 0
finish
