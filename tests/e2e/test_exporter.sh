#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# larder-exporter: what it says is Prometheus' format and the ledger's figures, over a node that
# comes and goes, as a user without privileges.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
exporter=$BIN/larder-exporter
text=$here/prometheus_text.py
EXPORTER_PID=
end() {
	[ -n "$EXPORTER_PID" ] && kill "$EXPORTER_PID" 2>/dev/null && wait "$EXPORTER_PID"
	EXPORTER_PID=
	finish
}
trap end EXIT
same() { # same "what" WANTED GOT
	if [ "$2" = "$3" ]; then ok; else bad "$1: $3, wanted $2"; fi
}
fetch() { # fetch PATH [METHOD]: body to $WORK/page, its status and type to $WORK/out
	python3 - "http://127.0.0.1:$EXPORTER_PORT$1" "${2:-GET}" "$WORK/page" >"$WORK/out" <<-'EOF'
		import sys, urllib.error, urllib.request
		url, method, page = sys.argv[1:]
		try:
		    r = urllib.request.Request(url, method=method)
		    r = urllib.request.urlopen(r, timeout=10)
		except urllib.error.HTTPError as e:
		    r = e
		open(page, 'wb').write(r.read())
		print(r.status, r.headers['Content-Type'])
	EOF
}
metric() { "$text" value "$@" <"$WORK/page"; }

node_start || finish
# the node and its group's members: here the node's user is root, who may ask everything
"$exporter" --listen 127.0.0.1:0 --control "$WORK/control.sock" 2>"$WORK/exporter.log" &
EXPORTER_PID=$!
for _ in $(seq 1 100); do grep -q metrics "$WORK/exporter.log" && break; sleep 0.05; done
EXPORTER_PORT=$(sed -n 's#.*:\([0-9]*\)/metrics#\1#p' "$WORK/exporter.log")
check "a namespace" "$ctl" ns create test
head -c 300000 /dev/urandom >"$WORK/value"
for i in 1 2 3; do "$ctl" put "k$i" "$WORK/value" >/dev/null; done
"$ctl" get k1 -o "$WORK/back"
"$ctl" get nothing -o "$WORK/back" 2>/dev/null
fetch /metrics
says "its type" "^200 text/plain; version=0.0.4"
check "the format, strictly" "$text" <"$WORK/page"
says "much" "^good: [0-9]{2} families, [0-9]{3,4} samples"
if command -v promtool >/dev/null; then
	check "promtool" promtool check metrics <"$WORK/page"
else
	skip "promtool is not installed (package prometheus)"
fi
"$ctl" stats --json >"$WORK/stats.json"
stat() { python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["tenants"]["demo"][sys.argv[2]])' "$WORK/stats.json" "$1"; }
same "up" 1 "$(metric larder_up)"
same "puts" 3 "$(metric larder_operations_total tenant=demo operation=put)"
same "gets" "$(stat gets)" "$(metric larder_operations_total tenant=demo operation=get)"
same "hits" "$(stat get_hits)" "$(metric larder_get_hits_total tenant=demo)"
same "bytes in" 900000 "$(metric larder_payload_bytes_total tenant=demo cause=client_write)"
same "bytes out" "$(stat bytes_out)" \
	"$(metric larder_payload_bytes_total tenant=demo cause=client_read)"
same "objects" 3 "$(metric larder_objects tenant=demo)"
same "not found" "$(metric larder_results_total status=NOT_FOUND tenant=demo)" \
	"$(metric larder_results_total status=NOT_FOUND)"
same "puts took time" 3 "$(metric larder_service_time_seconds_count operation=put)"
same "memory" $((64 << 20)) "$(metric larder_memory_bytes)"

# --- HTTP ---
fetch /
says "the front page" "^200"
fetch /other
says "what there is not" "^404"
fetch /metrics POST
says "methods" "^405"
fetch /metrics HEAD
says "HEAD" "^200"
same "HEAD has no body" 0 "$(wc -c <"$WORK/page")"

# --- without privileges, and without the right ---
nobody="setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all"
if [ "$(id -u)" = 0 ]; then
	chmod 711 "$WORK"
	$nobody "$exporter" --once --control "$WORK/control.sock" >"$WORK/page" 2>"$WORK/out"
	says "who may ask" "only root and the groups"
	same "that is down" 0 "$(metric larder_up)"
	printf '[control]\nstats_group = nogroup\n' >>"$WORK/larderd.conf"
	node_stop
	node_start || finish
	$nobody "$exporter" --once --control "$WORK/control.sock" >"$WORK/page" 2>"$WORK/out"
	same "a member of the group" 1 "$(metric larder_up)"
	check "whose page is good" "$text" <"$WORK/page"
else
	skip "another user can not be had without root"
fi

# --- the node goes and comes ---
node_stop
fetch /metrics
same "down is a figure" 0 "$(metric larder_up)"
check "and a page" "$text" <"$WORK/page"
fetch /metrics
same "told once" 1 "$(grep -c "is larderd running" "$WORK/exporter.log")"
node_start || finish
fetch /metrics
same "up again" 1 "$(metric larder_up)"
check "told, too" grep -q "the node answers again" "$WORK/exporter.log"
code 2 "arguments" "$exporter" stray
code 1 "an address that is none" "$exporter" --listen nothing
code 1 "an address in use" "$exporter" --listen "127.0.0.1:$EXPORTER_PORT"
code 1 "no port" "$exporter" --listen 127.0.0.1:nothing
code 1 "no host" "$exporter" --listen :16181
says "what is wanted" "wanted HOST:PORT"

# --- peers that are slow or make no sense cost others a wait with an end ---
python3 - "$EXPORTER_PORT" >"$WORK/out" 2>&1 <<-'EOF' && ok || bad "peers: $(cat "$WORK/out")"
	import socket, sys, time, urllib.request
	port = int(sys.argv[1])
	stalled = []
	for part in (b'', b'GET /met', b'\xff' * 40, b'GET /metrics HTTP/1.1\r\nHost: x\r\n') * 5:
	    s = socket.create_connection(('127.0.0.1', port))
	    s.sendall(part)
	    stalled.append(s)
	start = time.monotonic()
	page = urllib.request.urlopen(f'http://127.0.0.1:{port}/metrics', timeout=25).read()
	assert b'larder_up 1' in page, page[:200]
	assert time.monotonic() - start < 20
	long = socket.create_connection(('127.0.0.1', port))
	long.sendall(b'GET /' + b'a' * 200000 + b' HTTP/1.1\r\n\r\n')
	long.settimeout(20)
	assert b'200 OK' not in long.recv(100)
	page = urllib.request.urlopen(f'http://127.0.0.1:{port}/metrics', timeout=25).read()
	assert b'larder_up 1' in page
EOF
node_stop
end
