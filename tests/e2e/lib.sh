# Sourced by the shell tests: a node of their own, checks that count, a sum at the end.
set -u
BIN=${BIN:?folder of larderd and larderctl}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ctl=$BIN/larderctl
passed=0 failed=0 skipped=0
NODE_PID=
WORK=$(mktemp -d "${TMPDIR:-/tmp}/larder-e2e.XXXXXX")
MEMORY=/dev/shm/$(basename "$WORK")

ok() { passed=$((passed + 1)); }
bad() {
	failed=$((failed + 1))
	echo "FAILED: $*"
	[ -s "$WORK/out" ] && sed 's/^/    | /' "$WORK/out" | head -20
}
skip() {
	skipped=$((skipped + 1))
	echo "skipped: $*"
}

# check "what" COMMAND...: it must succeed.
check() {
	local what=$1
	shift
	if "$@" >"$WORK/out" 2>&1; then ok; else bad "$what: exit $?"; fi
}

# code N "what" COMMAND...: it must exit with N.
code() {
	local want=$1 what=$2 got=0
	shift 2
	"$@" >"$WORK/out" 2>&1 || got=$?
	if [ "$got" = "$want" ]; then ok; else bad "$what: exit $got, wanted $want"; fi
}

# says "what" PATTERN: the last command printed it.
says() {
	if grep -qE "$2" "$WORK/out"; then ok; else bad "$1: does not say '$2'"; fi
}

settings() {
	mkdir -p "$WORK/tenants.d"
	(umask 077 && printf 'secret-of-the-test' >"$WORK/tenants.d/demo.secret")
	printf '[tenant]\nsecret_file = demo.secret\n' >"$WORK/tenants.d/demo.conf"
	cat >"$WORK/larderd.conf" <<-EOF
		[memory]
		dir = $MEMORY
		size = 64M
		[listen]
		tcp = 127.0.0.1:0
		shm = $WORK/larder.sock
		[tenants]
		dir = $WORK/tenants.d
		[state]
		dir = $WORK/state
		[control]
		socket = $WORK/control.sock
		[bus]
		address =
	EOF
	export LARDER_URL=shm://$WORK/larder.sock LARDER_TENANT=demo LARDER_NS=test
	export LARDER_SECRET_FILE=$WORK/tenants.d/demo.secret LARDER_CONTROL=$WORK/control.sock
}

# node_start [ARGUMENTS...]: returns once it serves.
node_start() {
	: >"$WORK/log"
	"$BIN/larderd" -c "$WORK/larderd.conf" "$@" 2>"$WORK/log" &
	NODE_PID=$!
	for _ in $(seq 1 600); do
		grep -q ready "$WORK/log" && break
		kill -0 "$NODE_PID" 2>/dev/null || break
		sleep 0.05
	done
	if ! grep -q ready "$WORK/log"; then
		bad "the node did not start"
		cat "$WORK/log"
		return 1
	fi
	PORT=$(sed -n 's/.*(port \([0-9]*\)).*/\1/p' "$WORK/log" | head -n 1)
}

# node_stop [SIGNAL]: sets NODE_CODE.
node_stop() {
	NODE_CODE=0
	kill -"${1:-TERM}" "$NODE_PID"
	wait "$NODE_PID" 2>/dev/null || NODE_CODE=$?
	NODE_PID=
}

finish() {
	[ -n "$NODE_PID" ] && kill -KILL "$NODE_PID" 2>/dev/null && wait "$NODE_PID" 2>/dev/null
	rm -rf "$WORK" "$MEMORY"
	echo "$passed passed, $failed failed, $skipped skipped"
	trap - EXIT
	[ "$failed" = 0 ]
	exit
}
trap finish EXIT
settings
