#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What packaging/dashboards/ shows, over a node at work: the table and JSON out of bpftool's dumps,
# the chart, the board and the alerts, none of which may name a figure that is not there.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$here/bpf.sh"
boards=$here/../../packaging/dashboards
top=$boards/larder-bpf-top

# --- rules and board: no BPF is needed for them ---
node_start || finish
check "a namespace" "$ctl" ns create test
head -c 200000 /dev/urandom >"$WORK/value"
"$ctl" put k "$WORK/value" >/dev/null
"$ctl" quota set demo ops_per_s=1 --runtime >/dev/null
for _ in 1 2 3; do "$ctl" --deadline 300 stat k >/dev/null 2>&1; done
"$BIN/larder-exporter" --once --control "$WORK/control.sock" >"$WORK/page"
node_stop
check "every figure of board and rules is one of the exporter's" python3 - "$WORK/page" \
	"$boards/grafana.json" "$boards/alerts.yml" <<-'EOF'
	import json, re, sys
	page = open(sys.argv[1]).read()
	there = set(re.findall(r'^# TYPE (\w+) ', page, re.M))
	there |= {n + s for n in there for s in ('_bucket', '_sum', '_count')}
	board = json.load(open(sys.argv[2]))
	said = [t['expr'] for p in board['panels'] for t in p['targets']]
	said.append(re.sub(r'summary:.*|description:.*', '', open(sys.argv[3]).read()))
	named = {n for e in said for n in re.findall(r'\blarder_\w+', e)}
	assert len(named) > 20 and len(board['panels']) > 10
	sys.exit(f'not exported: {sorted(named - there)}' if named - there else 0)
EOF
if command -v promtool >/dev/null; then
	check "rules" promtool check rules "$boards/alerts.yml"
	check "rules do what they say" promtool test rules "$boards/alerts.test.yml"
else
	skip "promtool is not installed (package prometheus)"
fi

# --- out of the maps ---
code 1 "no maps" "$top" --dir "$WORK/nowhere" --count 1
says "what makes them" "larder-bpf load makes them"
bpf_begin
node_start || finish
for i in $(seq 1 8); do "$ctl" put "k$i" "$WORK/value" >/dev/null; done
"$top" --dir "$BPF" --json --delay 0.3 --count 4 >"$WORK/run" &
reader=$!
# at work for as long as it is looked at, however slow the machine
while kill -0 "$reader" 2>/dev/null; do "$ctl" get k1 -o "$WORK/back"; done
wait "$reader"
check "the table" "$top" --dir "$BPF" --count 2 --delay 0.2
says "its head" "^TENANT +OPS/s +IN/s +OUT/s +HIT%"
says "its rows" "^demo +0 +0 +0 +- +0 +0 +2\.[0-9]M +9 "
says "service times" "^get +p50"
check "JSON" bash -c "'$top' --dir '$BPF' --json --count 1 --tenant demo >'$WORK/json' &&
	'$ctl' stats --json >'$WORK/stats'"
check "to the last count" python3 - "$WORK/json" "$WORK/stats" <<-'EOF'
	import json, sys
	t = json.load(open(sys.argv[1]))['tenants']
	s = json.load(open(sys.argv[2]))['tenants']['demo']
	assert list(t) == ['demo']
	t = t['demo']
	assert t['ops']['PUT'] == s['puts'] == 8, (t['ops'], s)
	assert t['ops']['GET'] == s['gets'] and t['get_hits'] == s['get_hits']
	assert t['bytes']['client_write'] == s['bytes_in'] == 1600000
	assert t['bytes']['client_read'] == s['bytes_out']
	assert t['gauges']['objects'] == s['objects'] == 9
	assert t['limits']['weight']['effective'] == 100
EOF
check "readings, one a line" python3 -c "import json, sys
r = [json.loads(line) for line in open('$WORK/run')]
assert len(r) == 4 and all('demo' in x['tenants'] for x in r)"
code 1 "a tenant that is none" "$top" --dir "$BPF" --count 1 --tenant nobody
says "which there are" "no tenant nobody: there are demo, "
head -c 700 "$WORK/run" >"$WORK/cut"
code 1 "a run that was cut off" "$boards/larder-chart" "$WORK/cut" "$WORK/cut.svg"
says "what it is" "not what larder-bpf-top --json prints"
code 1 "no run" "$boards/larder-chart" "$WORK/nowhere" "$WORK/cut.svg"
says "no such file" "No such file"
if command -v gnuplot >/dev/null; then
	check "the chart" "$boards/larder-chart" "$WORK/run" "$WORK/run.svg"
	check "is one" grep -q "demo" "$WORK/run.svg"
else
	skip "gnuplot is not installed"
fi
if command -v jq >/dev/null; then
	# the README's own lines, of these maps
	sed -n '/^    bpftool map dump/,/^ *jq/p' "$here/../../README.md" |
		sed "s#/run/larder/bpf#$BPF#" >"$WORK/line"
	check "the README has it" grep -q "jq -c" "$WORK/line"
	check "the README's jq line" bash -o pipefail "$WORK/line"
	says "one row of each writer" '^\{"ops":\{.*"PUT":8,.*"bytes":\{.*"status":\{"OK"'
else
	skip "jq is not installed"
fi
node_stop
bpf_end
