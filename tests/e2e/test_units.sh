#!/usr/bin/env bash
# The installed units as systemd's own tools judge them: verify (no line at all), and how much of
# the machine the node could reach (security, at most 2.0). Users and folders of sysusers.d and
# tmpfiles.d, made under a root of their own. No running systemd is needed.
. "$(dirname "$0")/lib.sh"

type systemd-analyze >/dev/null 2>&1 || {
	skip "systemd-analyze is not here"
	finish
}
root=$WORK/root
check "install" env -u MAKEFLAGS -u MAKELEVEL make --no-print-directory -C "$here/../.." \
	install-service DESTDIR="$root" PREFIX=/usr
units=$root/usr/lib/systemd/system

# Programs are looked for where the units name them; what they are after is that of this machine.
etc=$WORK/units
mkdir "$etc"
for u in "$units"/larder* "$units"/*larder*.mount; do
	sed "s|=/usr/bin/larder|=$BIN/larder|" "$u" >"$etc/${u##*/}"
done
systemd-analyze verify --man=no "$etc"/* >"$WORK/out" 2>&1
grep -v -e '/usr/lib/systemd' -e '/lib/systemd/system/' "$WORK/out" | grep -e larder >"$WORK/lines"
cp "$WORK/lines" "$WORK/out"
code 1 "verify says nothing about them" grep -q . "$WORK/lines"
printf '[Service]\nExecStart=/usr/bin/true\nWatchdogSecs=3\n' >"$etc/larder-planted.service"
check "verify is heard" sh -c "systemd-analyze verify --man=no $etc/larder-planted.service 2>&1 |
	grep WatchdogSecs"

# exposure UNIT: 1.7 as 17
exposure() {
	systemd-analyze security --offline=true --threshold=100 "$etc/$1" 2>/dev/null |
		sed -n 's/.*exposure level for .*: \([0-9]*\)\.\([0-9]\).*/\1\2/p'
}
for u in larderd:20 larderfs:40 larder-exporter:20; do
	level=$(exposure "${u%:*}.service")
	if [ -z "$level" ]; then
		skip "systemd-analyze security has no --offline here"
	else
		check "${u%:*}: exposure $level of at most ${u#*:} tenths" \
			test "$level" -le "${u#*:}"
	fi
done

# A restart must keep the memory: nothing of it may be in what systemd takes away with the service.
code 1 "no RuntimeDirectory" grep -q '^RuntimeDirectory=' "$units/larderd.service"
code 1 "no RemoveIPC" grep -q '^RemoveIPC=yes' "$units/larderd.service"

mkdir -p "$root/etc"
check "users" systemd-sysusers --root="$root"
check "the node's" grep -q '^larder:' "$root/etc/passwd"
check "the view's" grep -q '^larder-fs:' "$root/etc/passwd"
check "administrators" grep -q '^larder-admin:' "$root/etc/group"
check "the view may read figures" grep -q '^larder:.*larder-fs' "$root/etc/group"
if [ "$(id -u)" = 0 ]; then
	check "folders" systemd-tmpfiles --root="$root" --create larder.conf larder-fs.conf
	check "tenants: the group may look, others not" \
		test "$(stat -c %a "$root/etc/larder/tenants.d")" = 750
	check "the view's folder" test -d "$root/run/larder/fs"
else
	skip "folders: wants root"
fi
