#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The view when something goes wrong: it dies, the node stops or dies, objects go while being read.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/fsview.sh"

fs_possible
node_start || finish
check "namespace" "$ctl" ns create test
fs_start --deadline 1000 || finish
d=$FS/demo/test
head -c 700 /dev/urandom >"$WORK/small"
check "put" "$ctl" put small "$WORK/small"

# --- gcsfuse#79: kill -9, start again ---
check "it is there" cmp "$d/small" "$WORK/small"
fs_stop KILL
code 2 "a dead mount is left" cmp "$d/small" "$WORK/small"
for round in 1 2; do
	[ "$round" = 1 ] || fs_stop KILL
	fs_start --deadline 1000 || finish
	check "gcsfuse_79 usable again, no unmount by hand" cmp "$d/small" "$WORK/small"
	check "gcsfuse_79 not stacked" test "$(fs_mounts)" = 1
done
code 3 "a second one is refused" "$BIN/larderfs" -u "$LARDER_URL" -s "$LARDER_CONTROL" "$FS"
says "by a line that names the mount" "$FS.*mounted there already"
ln -s "$FS" "$WORK/link"
for other in "$FS/" "$FS/." "$FS/./" "$WORK/link"; do
	code 3 "by another spelling, too: $other" timeout 5 "$BIN/larderfs" -u "$LARDER_URL" \
		-s "$LARDER_CONTROL" "$other"
done
# --- many at once: one mounts, the others are refused ---
check "fusermount3 -u" fusermount3 -u "$FS"
wait "$FS_PID"
FS_PID=
for round in 1 2 3; do
	pids=() winners=0
	for i in 1 2 3 4 5 6; do
		"$BIN/larderfs" -u "$LARDER_URL" -s "$LARDER_CONTROL" --deadline 1000 "$FS" \
			2>"$WORK/start.$i" &
		pids+=($!)
	done
	for _ in $(seq 1 400); do
		[ "$(jobs -pr | grep -cFx -f <(printf '%s\n' "${pids[@]}"))" = 1 ] &&
			grep -q ready "$WORK"/start.* && break
		sleep 0.05
	done
	check "six at once: never stacked (round $round)" test "$(fs_mounts)" = 1
	for i in 1 2 3 4 5 6; do
		if kill -0 "${pids[i - 1]}" 2>/dev/null; then
			winners=$((winners + 1)) FS_PID=${pids[i - 1]}
			continue
		fi
		wait "${pids[i - 1]}"
		check "the others are told (exit code $?)" grep -q "$FS: .*mount" "$WORK/start.$i"
	done
	check "one stays" test "$winners" = 1
	check "and serves" cmp "$d/small" "$WORK/small"
	fs_stop
	check "ends with 0 (was $FS_CODE)" test "$FS_CODE" = 0
done
check "nothing is left" test "$(fs_mounts)" = 0
FS_DOT=$FS/.
"$BIN/larderfs" -u "$LARDER_URL" -s "$LARDER_CONTROL" --deadline 1000 "$FS_DOT" 2>"$WORK/fs.log" &
FS_PID=$!
for _ in $(seq 1 400); do grep -q ready "$WORK/fs.log" && break; sleep 0.05; done
check "its folder by another spelling" cmp "$d/small" "$WORK/small"
within 5000 "SIGTERM ends it" sh -c "kill $FS_PID; while kill -0 $FS_PID; do sleep 0.05; done"
FS_CODE=0
wait "$FS_PID" || FS_CODE=$?
check "with 0 (was $FS_CODE)" test "$FS_CODE" = 0
fs_start --deadline 1000 || finish
check "and did not stack" test "$(fs_mounts)" = 1
check "fusermount3 -u" fusermount3 -u "$FS"
FS_CODE=0
wait "$FS_PID" || FS_CODE=$?
FS_PID=
check "ends it with 0 (was $FS_CODE)" test "$FS_CODE" = 0
check "and leaves nothing" test "$(fs_mounts)" = 0
fs_start --deadline 1000 || finish

# --- eviction while open: old bytes or an error, never a mix ---
head -c 12000000 /dev/zero | tr '\0' A >"$WORK/a"
head -c 12000000 /dev/zero | tr '\0' B >"$WORK/b"
check "put a" "$ctl" put mixed "$WORK/a"
cat >"$WORK/mix.py" <<'PY'
import errno, os, subprocess, sys
path, small, ctl, other, little = sys.argv[1:]
def run(*a): subprocess.run([ctl, *a], check=True, stdout=subprocess.DEVNULL)
big, held = os.open(path, os.O_RDONLY), os.open(small, os.O_RDONLY)
assert os.pread(big, 1000, 0) == b'A' * 1000
run('rm', '--yes', 'mixed', 'small')
for gone in path, small:
    try:
        os.open(gone, os.O_RDONLY)
        raise SystemExit('opened what is gone')
    except FileNotFoundError:
        pass
def old(fd):
    try:
        got = os.pread(fd, 4096, 9000000)
        assert got == b'A' * 4096, 'a mix'
        return 'old bytes'
    except OSError as e:
        assert e.errno in (errno.ESTALE, errno.EIO), e
        return 'error'
print(old(big))
assert os.pread(held, 1000, 0) == open(little, 'rb').read()	# what is small is held
run('put', 'mixed', other)
print(old(big))
new = os.open(path, os.O_RDONLY)
assert os.pread(new, 1000, 0) == b'B' * 1000, 'old pages under a new object'
assert os.fstat(new).st_ino != os.fstat(big).st_ino
assert old(big) == 'error'
with open(path, 'rb') as f:
    assert set(f.read()) == set(b'B')
PY
check "an object that goes while it is open" python3 "$WORK/mix.py" "$d/mixed" "$d/small" "$ctl" \
	"$WORK/b" "$WORK/small"
check "rm" "$ctl" rm mixed
check "put again" "$ctl" put small "$WORK/small"

# --- azure-storage-fuse#854: tar while objects come and go ---
cat >"$WORK/churn.sh" <<'SH'
i=0
while :; do
	i=$((i + 1))
	yes "value $i" | head -c 900000 >"$1/churn.value"
	"$2" put "churn-$i" "$1/churn.value" >/dev/null 2>&1
done
SH
bash "$WORK/churn.sh" "$WORK" "$ctl" &
churn=$!
for _ in $(seq 1 200); do	# until something has to go
	"$ctl" --json stats | grep -q '"evictions": 0,' || break
	sleep 0.1
done
for round in 1 2 3; do
	tar_code=0
	LC_ALL=C tar -cf "$WORK/tar" -C "$FS" demo/test 2>"$WORK/tar.says" || tar_code=$?
	grep -v 'File removed before we read it' "$WORK/tar.says" >"$WORK/out"
	check "azure_854 nothing but what was removed (round $round)" test ! -s "$WORK/out"
	check "azure_854 tar's exit code $tar_code" test "$tar_code" -le 1
	check "azure_854 right bytes" python3 - "$WORK/tar" <<'PY'
import re, sys, tarfile
n = 0
for m in tarfile.open(sys.argv[1]):
    i = re.fullmatch('demo/test/churn-([0-9]+)', m.name)
    if not i:
        continue
    line = b'value ' + i.group(1).encode() + b'\n'
    want = (line * (900000 // len(line) + 1))[:900000]
    assert tarfile.open(sys.argv[1]).extractfile(m).read() == want, m.name
    n += 1
assert n > 20, n
PY
done
kill "$churn" && wait "$churn" 2>/dev/null
check "put after the churn" "$ctl" put last "$WORK/small"

# --- limits of the view: slower, and no error ---
check "quota" "$ctl" quota set _view out_bytes_per_s=2M --runtime
before=$(date +%s%N)
for i in 1 2 3 4 5 6; do
	file=$(ls "$d" | sed -n "${i}p")
	check "read within the limit" cat "$d/$file"
done
took=$((($(date +%s%N) - before) / 1000000))
check "goofys_350 a limit on the view's bytes holds ($took ms)" test "$took" -ge 1000
check "quota" "$ctl" quota set _view out_bytes_per_s=default --runtime

# --- SIGSTOP of the node: an error within the deadline ---
kill -STOP "$NODE_PID"
echo 2 >/proc/sys/vm/drop_caches 2>/dev/null
within 5000 "cat while the node is stopped" cat "$d/last"
says "EIO" "Input/output error"
check "is an error" test "$WITHIN_CODE" = 1
within 5000 "ls while the node is stopped" ls -f "$d"
check "is an error" test "$WITHIN_CODE" != 0
within 900 "df never waits" df "$FS"
kill -CONT "$NODE_PID"
for _ in $(seq 1 100); do
	cmp -s "$d/last" "$WORK/small" && break
	sleep 0.1
done
check "it recovers" cmp "$d/last" "$WORK/small"

# --- forty readers of a stopped node: none waits behind the deadlines of the others ---
fs_stop
fs_start --deadline 3000 || finish
mapfile -t forty < <(ls "$d" | head -n 40)
kill -STOP "$NODE_PID"
begun=$(date +%s%N)
pids=() right=0
for i in $(seq 0 39); do
	timeout -s KILL 60 cat "$d/${forty[i % ${#forty[@]}]}" >/dev/null 2>&1 &
	pids+=($!)
done
for p in "${pids[@]}"; do
	code=0
	wait "$p" || code=$?
	[ "$code" = 1 ] && right=$((right + 1))
done
took=$((($(date +%s%N) - begun) / 1000000))
kill -CONT "$NODE_PID"
check "forty readers of a stopped node: each is told ($right)" test "$right" = 40
check "and none after twice the deadline ($took ms)" test "$took" -le 7000
for _ in $(seq 1 100); do
	cmp -s "$d/last" "$WORK/small" && break
	sleep 0.1
done
check "it recovers" cmp "$d/last" "$WORK/small"
fs_stop
fs_start --deadline 1000 || finish

# --- node down: EIO quickly; up again: there again ---
node_stop KILL
sleep 1.1	# names are believed that long
within 5000 "cat without a node" cat "$d/last"
check "is an error" test "$WITHIN_CODE" = 1
within 1000 "and soon at once" cat "$d/last"
# its heart beats once a second: that it is still is known a little later
for _ in $(seq 1 20); do
	within 900 "df without a node" df "$FS"
	[ "$WITHIN_CODE" = 1 ] && break
	sleep 0.1
done
check "tells so, not old figures" test "$WITHIN_CODE" = 1
node_start || finish
for _ in $(seq 1 100); do
	cmp -s "$d/last" "$WORK/small" && break
	sleep 0.1
done
check "it recovers" cmp "$d/last" "$WORK/small"

# --- memory made anew: the same slots hold other objects ---
"$ctl" ls -1 >"$WORK/all" && xargs -a "$WORK/all" -n 50 "$ctl" rm --yes >/dev/null
check "put the first" "$ctl" put first "$WORK/a"
check "read" cmp "$d/first" "$WORK/a"
cd "$d" || finish
node_stop
rm -rf "$MEMORY"
node_start || finish
"$ctl" ns create test >/dev/null
"$ctl" put first "$WORK/b" >/dev/null
got=$(head -c 3 first 2>/dev/null)
cd "$WORK" || finish
if [ -z "$got" ] || [ "$got" = BBB ]; then ok; else bad "old bytes of a new object: $got"; fi
for _ in $(seq 1 50); do
	cmp -s "$d/first" "$WORK/b" && break
	sleep 0.1
done
check "the new object" cmp "$d/first" "$WORK/b"
fs_stop
check "stops with 0 (was $FS_CODE)" test "$FS_CODE" = 0
check "leaves nothing mounted" test "$(fs_mounts)" = 0
fs_finish
