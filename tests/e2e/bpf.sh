# Sourced after lib.sh by the tests that need BPF: maps of their own on a mount of their own.
BPF=$WORK/bpf

bpf_end() {
	[ -n "$NODE_PID" ] && kill -KILL "$NODE_PID" 2>/dev/null && wait "$NODE_PID" 2>/dev/null
	NODE_PID=
	while mountpoint -q "$BPF" && umount "$BPF"; do :; done
	finish
}

# bpf_begin: skips all of the test where there is no BPF.
bpf_begin() {
	trap bpf_end EXIT
	if [ "$(id -u)" != 0 ] || ! command -v bpftool >/dev/null ||
		! "$BIN/larder-bpf" --dir "$BPF" --reactors 1 load >"$WORK/out" 2>&1; then
		skip "BPF maps want root, bpftool and a kernel that lets root use them: $(
			head -n 1 "$WORK/out" 2>/dev/null)"
		bpf_end
	fi
	printf '[ledger]\nbpf = %s\n' "$BPF" >>"$WORK/larderd.conf"
}

# field MAP TENANT PATH: the sum over its rows, out of bpftool's JSON.
field() {
	bpftool map dump pinned "$BPF/$1_2" | python3 -c '
import json, sys
total = 0
for e in json.load(sys.stdin):
    v = e["value"]
    if v["tenant"] == sys.argv[1]:
        for name in sys.argv[2].split("."):
            v = v[name]
        total += v
print(total)' "$2" "$3"
}

# element MAP INDEX: one u64 of limits or effective.
element() {
	bpftool map lookup pinned "$BPF/$1_2" key "$(($2 % 256))" "$(($2 / 256))" 0 0 |
		sed -n 's/.*"value": \([0-9]*\).*/\1/p'
}

# update INDEX VALUE: writes a limit the way a person does.
update() {
	local i bytes=()
	for i in 0 8 16 24 32 40 48 56; do bytes+=($((($2 >> i) & 255))); done
	bpftool map update pinned "$BPF/limits_2" key "$(($1 % 256))" "$(($1 / 256))" 0 0 \
		value "${bytes[@]}"
}
