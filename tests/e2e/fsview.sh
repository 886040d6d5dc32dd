# Sourced by the tests of the view, after lib.sh: a mount of their own that goes whatever happens.
# shellcheck disable=SC2034 # for who sources it
FS_PID=
LARDERFS_AS=()	# what it is started by
FS=$WORK/fs

fs_possible() {
	[ -c /dev/fuse ] && [ "$(id -u)" = 0 ] && return
	skip "needs root and /dev/fuse"
	finish
}

fs_mounts() { grep -c " $FS fuse" /proc/self/mounts || true; }

# fs_start [OPTION...]: returns once it is mounted.
fs_start() {
	mkdir -p "$FS"
	: >"$WORK/fs.log"
	"${LARDERFS_AS[@]}" "$BIN/larderfs" -u "$LARDER_URL" -s "$LARDER_CONTROL" "$@" "$FS" \
		2>"$WORK/fs.log" &
	FS_PID=$!
	for _ in $(seq 1 400); do
		grep -q ready "$WORK/fs.log" && return
		kill -0 "$FS_PID" 2>/dev/null || break
		sleep 0.05
	done
	bad "larderfs did not start"
	cat "$WORK/fs.log"
	return 1
}

# fs_stop [SIGNAL]: sets FS_CODE.
fs_stop() {
	FS_CODE=0
	kill -"${1:-TERM}" "$FS_PID"
	wait "$FS_PID" 2>/dev/null || FS_CODE=$?
	FS_PID=
}

fs_finish() {
	[ "$failed" != 0 ] && [ -f "$WORK/fs.log" ] && sed 's/^/  larderfs | /' "$WORK/fs.log" | head -60
	if [ -n "$FS_PID" ]; then
		kill -CONT "$FS_PID" 2>/dev/null
		kill -KILL "$FS_PID" 2>/dev/null && wait "$FS_PID" 2>/dev/null
	fi
	[ -n "$NODE_PID" ] && kill -CONT "$NODE_PID" 2>/dev/null
	while [ "$(fs_mounts)" != 0 ]; do umount -l "$FS" || break; done
	finish
}
trap fs_finish EXIT

# refused "what" COMMAND...: it fails with EROFS.
refused() {
	local what=$1
	shift
	if LC_ALL=C "$@" >"$WORK/out" 2>&1; then bad "$what: it worked"; return; fi
	says "$what" "Read-only file system"
}

# within MS "what" COMMAND...: ends in that time, however.
within() {
	local ms=$1 what=$2 start took
	shift 2
	start=$(date +%s%N)
	WITHIN_CODE=0
	timeout -s KILL 60 "$@" >"$WORK/out" 2>&1 || WITHIN_CODE=$?
	took=$((($(date +%s%N) - start) / 1000000))
	if [ "$took" -le "$ms" ]; then ok; else bad "$what: $took ms, allowed are $ms"; fi
}
