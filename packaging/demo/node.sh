# Sourced by demo and run: an embedded default node in a folder of its own.
# Wants BIN (where larderd and larderctl are). Sets WORK, MEMORY, SOCKET, CONTROL, URL, NODE_PID.

demo_setup() {
	WORK=$(mktemp -d "${TMPDIR:-/tmp}/larder-demo.XXXXXX")
	MEMORY=/dev/shm/$(basename "$WORK")
	SOCKET=$WORK/larder.sock
	CONTROL=$WORK/control.sock
	mkdir "$WORK/tenants.d"
	(umask 077 && od -An -tx1 -N32 /dev/urandom | tr -d ' \n' >"$WORK/tenants.d/demo.secret")
	printf '[tenant]\nsecret_file = demo.secret\n' >"$WORK/tenants.d/demo.conf"
	cat >"$WORK/larderd.conf" <<-EOF
		[memory]
		dir = $MEMORY
		size = ${DEMO_SIZE:-256M}
		page_size = 4K
		[listen]
		tcp = 127.0.0.1:${DEMO_PORT:-16180}
		shm = $SOCKET
		[tenants]
		dir = $WORK/tenants.d
		[state]
		dir = $WORK/state
		[control]
		socket = $CONTROL
		[bus]
		address =
		[ledger]
		bpf = $(demo_maps)
		[log]
		level = ${DEMO_LOG:-notice}
	EOF
	export LARDER_URL=shm://$SOCKET LARDER_TENANT=demo LARDER_NS=demo
	export LARDER_SECRET_FILE=$WORK/tenants.d/demo.secret LARDER_CONTROL=$CONTROL
}

# Makes the maps that the node counts in, where BPF is allowed, and prints where they are.
demo_maps() {
	[ "$(id -u)" = 0 ] && command -v bpftool >/dev/null || return 0
	"$BIN/larder-bpf" --dir "$WORK/bpf" --reactors 1 load >"$WORK/bpf.log" 2>&1 || return 0
	echo "$WORK/bpf"
}

demo_cleanup() {
	if [ -n "${VIEW_PID:-}" ]; then
		kill "$VIEW_PID" 2>/dev/null
		wait "$VIEW_PID" 2>/dev/null
	fi
	if [ -n "${OPLAT_PID:-}" ]; then
		kill -INT "$OPLAT_PID" 2>/dev/null
		wait "$OPLAT_PID" 2>/dev/null
	fi
	if [ -n "${NODE_PID:-}" ]; then
		kill "$NODE_PID" 2>/dev/null
		wait "$NODE_PID" 2>/dev/null
	fi
	while mountpoint -q "$WORK/bpf" && umount "$WORK/bpf"; do :; done
	rm -rf "$WORK" "$MEMORY"
}

# A port that nobody listens on, beginning with the well-known one.
demo_port() {
	local p
	for p in 16180 16280 16380 16480 16580; do
		if ! (: <"/dev/tcp/127.0.0.1/$p") 2>/dev/null; then
			echo $p
			return
		fi
	done
	echo 0
}
