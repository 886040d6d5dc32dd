#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The view as a reviewer's script meets it: names, sizes, times, tools, attributes, refusals.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/fsview.sh"

attribute() { getfattr --absolute-names --only-values -n "user.larder.$1" "$2"; }

fs_possible
printf '[control]\nstats_group = nogroup\n[view]\nuser = nobody\n' >>"$WORK/larderd.conf"
node_start || finish
fs_start || finish
check "namespace" "$ctl" ns create test
d=$FS/demo/test
head -c 3000001 /dev/urandom >"$WORK/big"
head -c 700 /dev/urandom >"$WORK/small"
check "put" "$ctl" put big "$WORK/big"

# --- gcsfuse#341: any bytes as a key; list, look-up and API agree ---
for key in 'a%2Fb' '%25pct' '~x6c696e650a' '~x00' '~x00ff' '%2E' '%2Estats' '%7Etilde' \
	'with%20space'; do
	check "put $key" "$ctl" put "$key" "$WORK/small"
	check "gcsfuse_341 $key has the API's bytes" cmp "$d/$key" "$WORK/small"
done
long=$(head -c 300 /dev/zero | tr '\0' k)
check "put a key of 300 bytes" "$ctl" put "$long" "$WORK/small"
# who lists keys gets the long one in full
"$ctl" ls -1 --names | sed "s/^$long\$/$(ls "$d" | grep '^~h')/" | LC_ALL=C sort >"$WORK/api"
find "$d" -mindepth 1 ! -name '.*' -printf '%f\n' | LC_ALL=C sort >"$WORK/names"
check "the same names" cmp "$WORK/api" "$WORK/names"
check "eleven objects, four status files, two dots" test "$(ls -f "$d" | wc -l)" = 17
hash=$(ls "$d" | grep '^~h')
check "its full key is in an attribute" test \
	"$(attribute key "$d/$hash")" = "$long"
while read -r name; do
	check "larderctl get $name" sh -c "'$ctl' get '$name' | cmp - '$d/$name'"
done <"$WORK/names"
for name in 'b%69g' '~x626967' '.big' '%2e' "~h$(printf 0%.0s {1..32})"; do
	code 1 "$name is not canonical, or not there" test -e "$d/$name"
done

# --- attributes ---
check "size" test "$(stat -c %s "$d/big")" = 3000001
check "blocks are whole pages" test "$(stat -c %b "$d/big")" = $(((3000001 + 65535) / 65536 * 128))
check "stat twice" test "$(stat "$d/big")" = "$(stat "$d/big")"
committed=$("$ctl" --json stat big | sed -n 's/.*"commit_time_ms": \([0-9]*\),/\1/p')
check "mtime is the commit" test "$(stat -c %.3Y "$d/big" | tr -d .)" = "$committed"
check "a directory has size 0" test "$(stat -c %s "$d")" = 0
times=$(stat -c %y "$d" "$FS")
check "put" "$ctl" put another "$WORK/small"
check "rm" "$ctl" rm another
check "and a constant time" test "$(stat -c %y "$d" "$FS")" = "$times"
for a in tenant namespace key crc32c hits age_ms lease_ms pins tier runs; do
	check "attribute $a" getfattr -n "user.larder.$a" "$d/big"
done
getfattr --absolute-names -d "$d/big" >"$WORK/out"
for a in tenant=.demo. namespace=.test. key=.big. 'crc32c="[0-9a-f]{8}"' 'hits="[0-9]+"' \
	'age_ms="[0-9]+"' 'lease_ms="0"' 'pins="0 soft 0 hard"' 'tier="memory"' 'runs="[0-9]+"'; do
	says "getfattr -d" "^user.larder.$a"
done
check "a directory's bytes" test "$(attribute bytes "$d")" = $((3000001 + 700 * 10))
check "its objects" test "$(attribute objects "$FS")" = 11

# --- s3fs#5, restic#442: du ---
for where in "$d" "$FS"; do
	check "s3fs_5_restic_442 du -sb is the sum" test \
		"$(du -sb --exclude='.*' "$where" | cut -f 1)" = $((3000001 + 700 * 10))
done
check "du without -b is no 0" test "$(du -s "$d" | cut -f 1)" -ge 2930
check "df" test $(df --output=size "$FS" | tail -n 1) = 65536
check "df -i: objects are files" test $(df --output=iused "$FS" | tail -n 1) = 11

# --- bytes, however they are read ---
check "sha256sum" test "$(sha256sum <"$d/big")" = "$("$ctl" get big | sha256sum)"
check "dd direct" sh -c "dd if='$d/big' bs=1M iflag=direct status=none | cmp - '$WORK/big'"
tail -c +262001 "$WORK/big" | head -c 400 >"$WORK/piece"
check "dd direct, byte by byte over the edge of a check block" sh -c \
	"dd if='$d/big' bs=1 skip=262000 count=400 iflag=direct status=none | cmp - '$WORK/piece'"
check "mmap, sendfile, splice" python3 - "$d/big" "$WORK/big" "$WORK/sent" <<'PY'
import mmap, os, sys
path, wanted, sent = sys.argv[1:]
want = open(wanted, 'rb').read()
f = open(path, 'rb')
assert mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)[:] == want
out = os.open(sent, os.O_CREAT | os.O_WRONLY)
at = 0
while n := os.sendfile(out, f.fileno(), at, 1 << 20):
    at += n
assert open(sent, 'rb').read() == want
r, w = os.pipe()
got = b''
while n := os.splice(f.fileno(), w, 65536, offset_src=len(got)):
    got += os.read(r, n)
assert got == want
assert os.pread(f.fileno(), 10, len(want) - 3) == want[-3:]
assert os.pread(f.fileno(), 10, len(want)) == b''
PY
for s in "$FS/.node" "$FS/demo/.usage" "$FS/demo/.limits" "$FS/demo/.latency" "$d/.descriptor" \
	"$d/.stats"; do
	check "$s.json" python3 -m json.tool "$s.json"
	check "$s: true length, the same bytes one by one" python3 - "$s" <<'PY'
import os, sys
f = os.open(sys.argv[1], os.O_RDONLY)
n = os.fstat(f).st_size
whole = os.pread(f, 1 << 20, 0)
assert len(whole) == n > 0, (len(whole), n)
assert b''.join(os.pread(f, 1, i) for i in range(n)) == whole
PY
done
check "the node's version" grep -q "version" "$FS/.node"
check "and where it listens" grep -q "shm://$WORK/larder.sock" "$FS/.node"

# --- tools over all of it ---
check "tar of a still tree" tar -cf "$WORK/tar" -C "$FS" .
check "cp -a" cp -a "$FS" "$WORK/copy"
check "the copy is the same" diff -r --exclude='.*' "$FS" "$WORK/copy"
if command -v rsync >/dev/null; then
	check "rsync -n" rsync -an --exclude='.*' "$FS/" "$WORK/copy/"
	rsync -ani --exclude='.*' "$FS/" "$WORK/copy/" >"$WORK/out"
	check "rsync finds nothing to do" test ! -s "$WORK/out"
else
	skip "no rsync here"
fi
code 1 "grep -r for nothing" grep -rq 'nothing like this is in it' "$d"

# --- telldir, seekdir ---
check "places last" python3 - "$d" <<'PY'
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
class dirent(ctypes.Structure):
    _fields_ = [('ino', ctypes.c_ulong), ('off', ctypes.c_long), ('reclen', ctypes.c_ushort),
                ('type', ctypes.c_ubyte), ('name', ctypes.c_char * 256)]
for f, r, a in (('opendir', ctypes.c_void_p, [ctypes.c_char_p]),
                ('readdir', ctypes.POINTER(dirent), [ctypes.c_void_p]),
                ('telldir', ctypes.c_long, [ctypes.c_void_p]),
                ('seekdir', None, [ctypes.c_void_p, ctypes.c_long]),
                ('rewinddir', None, [ctypes.c_void_p])):
    getattr(libc, f).restype, getattr(libc, f).argtypes = r, a
d = libc.opendir(sys.argv[1].encode())
def rest():
    names = []
    while e := libc.readdir(d):
        names.append(e.contents.name)
    return names
every = rest()
assert len(every) == len(set(every)) == 17, every
libc.rewinddir(d)
for i in range(len(every)):
    at = libc.telldir(d)
    assert rest() == every[i:], i
    libc.seekdir(d, at)
    libc.readdir(d)
PY

# --- nothing changes ---
refused touch touch "$d/new"
refused "touch what is there" touch "$d/big"
refused rm rm -f "$d/big"
refused mv mv "$d/big" "$d/other"
refused ln ln "$d/big" "$d/other"
refused "ln -s" ln -s big "$d/other"
refused mkdir mkdir "$d/dir"
refused rmdir rmdir "$d"
refused chmod chmod 777 "$d/big"
refused truncate truncate -s 0 "$d/big"
refused setfattr setfattr -n user.x -v 1 "$d/big"
check "reads did not count as use" test "$(attribute hits "$d/~x00")" = 1
grep " $FS " /proc/self/mounts >"$WORK/out"
says "what is mounted" "^larder $FS fuse.larder ro,nosuid,nodev,noexec"

# --- who may ---
as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
chmod 755 "$WORK"
code 2 "content and names are the owner's" as_nobody ls "$d"
check "the node is everybody's" as_nobody cat "$FS/.node"
fs_stop
check "stops with 0 (was $FS_CODE)" test "$FS_CODE" = 0
check "leaves nothing mounted" test "$(fs_mounts)" = 0
fs_start --group demo=65534 || finish
check "the tenant's group reads" as_nobody cmp "$d/big" "$WORK/big"
fs_stop
fs_start --meta all || finish
check "--meta=all: names" as_nobody ls -l "$d"
code 1 "and no content" as_nobody cat "$d/big"
fs_stop
fs_start --content never || finish
check "--content=never: root lists" ls -l "$d"
code 1 "and does not read" cat "$d/big"
fs_stop
fs_start --content all || finish
check "--content=all: who knows the name reads" as_nobody cmp "$d/big" "$WORK/big"
code 2 "and does not list" as_nobody ls "$d"
fs_stop
code 2 "wrong option" "$BIN/larderfs" --content some "$FS"
for o in rw suid dev exec fsname=x subtype=x noatime,rw 'max_read=4096,suid,noatime'; do
	code 2 "-o $o is refused" "$BIN/larderfs" -u "$LARDER_URL" -o "$o" "$FS"
	says "by a line that names it" "larderfs: -o $o: .*ro,nosuid,nodev,noexec"
done
check "and nothing is mounted" test "$(fs_mounts)" = 0
# --- as the unit runs it: no root, one capability, nothing to be gained, idle ---
chown nobody "$FS"
caps=-all,+sys_admin
# where udev has not made the device everybody's, as it is on an ordinary machine
setpriv --reuid=65534 test -w /dev/fuse || caps=$caps,+dac_override
LARDERFS_AS=(setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs
	--inh-caps="$caps" --ambient-caps="$caps" --bounding-set="$caps" nice -n 19 chrt -i 0)
fs_start || finish
check "without root: content" cmp "$d/big" "$WORK/big"
check "without root: figures" grep -q "resident" "$FS/demo/.usage"
check "without root: df" df "$FS"
check "it is at idle priority" sh -c "chrt -p $FS_PID | grep -q SCHED_IDLE"
fs_stop
check "without root: stops with 0 (was $FS_CODE)" test "$FS_CODE" = 0
check "without root: leaves nothing mounted" test "$(fs_mounts)" = 0
LARDERFS_AS=()
fs_start -o noatime || finish
check "another option is taken" cmp "$d/big" "$WORK/big"
grep " $FS " /proc/self/mounts >"$WORK/out"
says "beside the promised ones" "^larder $FS fuse.larder ro,nosuid,nodev,noexec,noatime"
fs_stop
code 2 "wrong url" "$BIN/larderfs" --url foo://x "$FS"
code 3 "no such folder" "$BIN/larderfs" "$WORK/no/such"
fs_finish
