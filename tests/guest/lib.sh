#!/usr/bin/env bash
# Sourced by the cases. Given: ROLE (a, b), GUESTS, ADDR and PEER (IPv4), ADDR6 and PEER6, RDMA (the
# device), NETDEV, BIN. A case tells its result by its exit status (0 passed, 77 skipped) or, with
# the words below, by a last line "N passed, N failed, N skipped".
set -u
passed=0 failed=0 skipped=0

ok() { passed=$((passed + 1)); }
bad() {
	failed=$((failed + 1))
	echo "FAILED: guest-$ROLE: $*"
}
skip() {
	skipped=$((skipped + 1))
	echo "skipped: $*"
}
# check "what" COMMAND...: it must succeed; what it printed is shown where it does not. No subshell:
# the command may be `wait`.
check() {
	local what=$1 rc=0
	shift
	"$@" >/tmp/check.out 2>&1 || rc=$?
	if [ $rc = 0 ]; then ok; else
		bad "$what: exit $rc"
		sed 's/^/    | /' /tmp/check.out | tail -n 20
	fi
}
# until_true SECONDS COMMAND...: returns once it succeeds.
until_true() {
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.1
	done
}
# listens PORT, listens_rdma: something waits for connections there.
listens() { ss -Hltn "sport = :$1" | grep -q .; }
listens_rdma() { rdma resource show cm_id | grep -q 'state LISTEN'; }
# no_qp_left: fails, naming them, where queue pairs of programs are left.
no_qp_left() { ! rdma resource show qp link $RDMA | grep -v 'type GSI'; }
# figure NAME VALUE UNIT: a line that the host keeps in figures.txt
figure() { echo "@figure $*"; }

# barrier NAME: returns once the other guest has come to the same one.
barrier() {
	local line
	[ "$GUESTS" = 2 ] || return 0
	echo "@wait $1" >&3
	while read -r line <&3; do
		[ "$line" = "go $1" ] && return 0
	done
	return 1
}
# kill_guest ROLE: the host kills that whole guest now; returns at once.
kill_guest() { echo "@kill $1" >&3; }

finish() {
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" = 0 ]
	exit
}
