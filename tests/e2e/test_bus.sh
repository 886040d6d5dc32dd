#!/usr/bin/env bash
# The node on a bus of its own: the same figures as the control socket, tenants and connections as
# objects, methods for those who may, signals, and GetAll that does not wait for a method that does.
# Root only: the bus tells users apart.
. "$(dirname "$0")/lib.sh"
peer=${LARDER_BUS_PEER:-$BIN/../tests/double/bus_peer}
skip_all() {
	skip "$*"
	finish
}
[ "$(id -u)" = 0 ] || skip_all "wants root"
type dbus-daemon busctl setpriv >/dev/null 2>&1 || skip_all "dbus-daemon or busctl is not here"
getent group games staff >/dev/null && getent passwd nobody >/dev/null ||
	skip_all "the system has no groups games and staff"
chmod 0755 "$WORK"

# --- a bus with the policy that is installed, for groups that are here ---
dbus=$here/../../packaging/dbus
sed 's/group="larder-admin"/group="staff"/; s/group="larder"/group="games"/
	s/user="larder"/user="daemon"/' "$dbus/org.larder.Node1.conf" >"$WORK/node.conf"
cat >"$WORK/bus.conf" <<-END
	<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN"
	 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
	<busconfig>
	<type>system</type><listen>unix:path=$WORK/bus</listen><auth>EXTERNAL</auth>
	<policy context="default">
	<allow user="*"/><deny own="*"/><deny send_type="method_call"/>
	<allow send_type="signal"/>
	<allow send_requested_reply="true" send_type="method_return"/>
	<allow send_requested_reply="true" send_type="error"/>
	<allow receive_type="method_call"/><allow receive_type="method_return"/>
	<allow receive_type="error"/><allow receive_type="signal"/>
	<allow send_destination="org.freedesktop.DBus"/>
	</policy>
	<policy user="root">
	<allow own="org.freedesktop.PolicyKit1"/>
	<allow send_destination="org.freedesktop.PolicyKit1"/>
	</policy>
	<include>$WORK/node.conf</include>
	</busconfig>
END
bus_pid='' polkit_pid='' watch_pid=''
the_end() {
	for p in $polkit_pid $watch_pid $bus_pid; do kill "$p" 2>/dev/null; done
	finish
}
trap the_end EXIT
# waits SECONDS COMMAND...
waits() {
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.1
	done
}
bus_start() {
	dbus-daemon --config-file="$WORK/bus.conf" --nofork --nopidfile 2>"$WORK/bus.log" &
	bus_pid=$!
	waits 10 test -S "$WORK/bus"
}
bus_start || the_end
address=unix:path=$WORK/bus
polkit() {
	[ -z "$polkit_pid" ] || { kill "$polkit_pid"; wait "$polkit_pid" 2>/dev/null; }
	"$peer" polkit "$address" "$1" >"$WORK/polkit" &
	polkit_pid=$!
	waits 10 grep -q ready "$WORK/polkit"
}
ask() { busctl --address="$address" "$@"; }
# as GROUP COMMAND...: a user who is in that group alone
as() {
	local group=$1
	shift
	setpriv --reuid=nobody --regid=nogroup --groups="$group" "$@"
}
node=org.larder.Node1
path=/org/larder/Node1
get() { ask get-property $node "${2:-$path}" "${3:-$node}" "$1" | cut -d' ' -f2- | tr -d '"'; }
printf '[control]\nadmin_group = staff\nstats_group = games\n[bus]\naddress = %s\n' "$address" \
	>>"$WORK/larderd.conf"
cp "$WORK/tenants.d/demo.conf" "$WORK/tenants.d/t-2.conf"

node_start || the_end
check "the name" waits 10 ask status $node
check "the log says so" grep -q 'on the bus as org.larder.Node1' "$WORK/log"

# --- figures ---
head -c 300000 /dev/urandom >"$WORK/value"
check "namespace" "$ctl" ns create test
for i in 1 2 3; do check "put" "$ctl" put key$i "$WORK/value"; done
check "get" "$ctl" get key1 -o "$WORK/back"
"$ctl" --json stats >"$WORK/stats"
check "every figure is larderctl's" python3 "$here/bus_same.py" figures "$WORK/stats" "$address"
check "a tenant's state" test "$(get Configured $path/tenant/t_2d2 org.larder.Tenant1)" = true
check "its limits" sh -c "busctl --address=$address get-property $node $path/tenant/demo \
	org.larder.Tenant1 Limits | grep -q '\"resident_bytes\" 67108864'"
code 1 "no such tenant" ask introspect $node $path/tenant/nobody2 org.larder.Tenant1

# --- the installed description is the one that is served ---
described() {
	ask introspect --xml-interface $node "$2" >"$WORK/$1.xml"
	check "description of $1" python3 "$here/bus_same.py" description \
		"$dbus/org.larder.$1.xml" "$WORK/$1.xml"
}
described Node1 $path
described Tenant1 $path/tenant/demo

# --- who may ---
check "group of the figures: reads" as games busctl --address="$address" get-property $node $path \
	$node Objects
code 1 "a stranger is not heard" as nogroup busctl --address="$address" get-property $node $path \
	$node Objects
code 1 "no polkit: figures alone" as games busctl --address="$address" call $node $path $node Drain
code 1 "nor can a tenant's limits be set" as games busctl --address="$address" call $node $path \
	$node SetLimit sstb demo objects 7 true
check "nothing happened" test "$(get State)" = serving
check "administrators: drain" as staff busctl --address="$address" call $node $path $node Drain
check "draining, at once" sh -c "busctl --address=$address get-property $node $path $node State |
	grep -q drain"
check "root: undrain" ask call $node $path $node Undrain
check "serving" test "$(get State)" = serving
polkit no
code 1 "polkit says no" as games busctl --address="$address" call $node $path $node Drain
check "it was asked" grep -q 'system-bus-name org.larder.node1.drain' "$WORK/polkit"
polkit yes
check "polkit says yes" as games busctl --address="$address" call $node $path $node SetLimit sstb \
	demo objects 777 true
check "it was asked for that" grep -q 'org.larder.node1.set-limit' "$WORK/polkit"
check "and it is so" sh -c "'$ctl' quota show demo | grep -qE '^objects +777 '"
check "taken back" ask call $node $path $node ClearLimit ssb demo objects true
check "and it is so" sh -c "! '$ctl' quota show demo | grep -qE '^objects +777 '"
code 1 "no such limit" ask call $node $path $node SetLimit sstb demo nonsense 1 true
says "says which" "no such limit: nonsense"
code 1 "no such tenant" ask call $node $path $node SetLimit sstb nobody objects 1 true
says "says which" "nobody"

# --- no method blocks ---
polkit late
check "a thousand GetAll while polkit thinks" as games "$peer" getall "$address" 1000 demo
says "all were answered first" "^1000 before, set"

# --- signals ---
ask monitor --match "type='signal',sender='$node'" >"$WORK/seen" 2>&1 &
watch_pid=$!
waits 5 grep -q Monitoring "$WORK/seen"
check "reload" ask call $node $path $node Reload
check "told" waits 5 grep -q 'Member=Reloaded' "$WORK/seen"
printf '[engine]\nshards = 3\n' >"$WORK/bad.conf"
mkdir -p "$WORK/larderd.conf.d"
cp "$WORK/bad.conf" "$WORK/larderd.conf.d/bad.conf"
code 1 "a reload that can not be" ask call $node $path $node Reload
says "says why" "engine.shards"
rm "$WORK/larderd.conf.d/bad.conf"
"$ctl" drain
check "the control socket's drain is told" waits 5 grep -q '"State"' "$WORK/seen"
"$ctl" drain --undo
rm "$WORK/tenants.d/t-2.conf"
cp "$WORK/tenants.d/demo.conf" "$WORK/tenants.d/t-3.conf"
"$ctl" reload
check "a tenant that came" waits 5 grep -q 'tenant/t_2d3' "$WORK/seen"
"$ctl" bench get --size 4096 --duration 4s --keys 4 >/dev/null 2>&1 &
bench=$!
check "a connection that came" waits 10 grep -q 'Node1/connection/c[0-9]' "$WORK/seen"
check "is there" waits 5 sh -c "busctl --address=$address tree $node | grep -q connection/c[0-9]"
one=$(ask tree $node --list | grep connection/ | head -n 1)
check "whose it is" test "$(get Tenant "$one" org.larder.Connection1)" = demo
check "how it came" test "$(get Transport "$one" org.larder.Connection1)" = shm
check "the control socket knows it, too" sh -c "'$ctl' connections | grep -q demo"
described Connection1 "$one"
wait $bench
check "it went" waits 5 grep -q 'Member=InterfacesRemoved' "$WORK/seen"

# --- the bus goes, and comes again ---
kill "$watch_pid" "$polkit_pid" 2>/dev/null
watch_pid='' polkit_pid=''
kill "$bus_pid"
wait "$bus_pid" 2>/dev/null
check "the node serves on" "$ctl" get key1 -o "$WORK/back"
rm -f "$WORK/bus"
bus_start
check "found again" waits 30 ask status $node
node_stop TERM
check "a clean stop" test "$NODE_CODE" = 0

# --- no bus ---
kill "$bus_pid"
wait "$bus_pid" 2>/dev/null
bus_pid=''
rm -f "$WORK/bus"
node_start || the_end
check "serves without a bus" "$ctl" get key1 -o "$WORK/back"
check "says so once" test "$(grep -c 'no bus at' "$WORK/log")" = 1
node_stop TERM
the_end
