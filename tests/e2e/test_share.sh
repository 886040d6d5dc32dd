#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Namespaces that a tenant's file shares for reading: from reload to reload, and over a restart.
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

tenant two
tenant aaa
tenant zzz
node_start || finish
head -c 20000 /dev/urandom >"$WORK/two.value"
check "namespace" as two ns create own
check "two puts" as two --ns own put key-1 "$WORK/two.value"
code 1 "two's namespace is not there for aaa" as aaa --ns two:own exists key-1
tenant two "[share]" "own = aaa ; read only"
check "reload with a share" "$ctl" reload
check "aaa reads" as aaa --ns two:own get key-1 -o "$WORK/back"
check "the same bytes" cmp "$WORK/two.value" "$WORK/back"
code 3 "and does not write" as aaa --ns two:own put key-9 "$WORK/two.value"
code 1 "zzz does not" as zzz --ns two:own exists key-1
node_stop KILL
node_start || finish
check "aaa reads after a restart" as aaa --ns two:own get key-1 -o "$WORK/back"
tenant two
check "reload without" "$ctl" reload
code 1 "aaa does not any more" as aaa --ns two:own exists key-1
node_stop
check "stops with 0 (was $NODE_CODE)" test "$NODE_CODE" = 0
finish
