#!/usr/bin/env bash
# Replay: with one shard, no reserve and one page a block, LRU and FIFO give the reference's hits to
# the last integer. The reference numbers come with the public traces, as reference-hit-rates.csv in
# $LARDER_TRACES; the generated trace is held against a textbook LRU and FIFO in python.
#
# LARDER_REPLAY_CAPACITIES are replayed in one process, LARDER_REPLAY_NODE against a real node over
# shm as well (half a minute each).
. "$(dirname "$0")/lib.sh"
traces=${LARDER_TRACES:-}
capacities=${LARDER_REPLAY_CAPACITIES:-1000 5859 30000}
on_node=${LARDER_REPLAY_NODE:-5859}

# replay_exact TRACE POLICY PAGES -> "block prefix checksum_errors"
replay_exact() {
	rm -rf "$MEMORY"
	node_start --set engine.shards=1 --set "engine.policy=$2" --set engine.reserve=0 \
		--set "memory.pages=$3" --set memory.page_size=4K || return 1
	"$ctl" ns create test >/dev/null
	"$ctl" --json replay "$1" --mode exact >"$WORK/replay.json" 2>"$WORK/out" ||
		bad "replay failed"
	node_stop
	hits
}

# replay_local TRACE POLICY PAGES: the same, node and client in one process
replay_local() {
	"$ctl" --json replay "$1" --mode exact --in-process --shards 1 --policy "$2" --reserve 0 \
		--pages "$3" --page-bytes 4K >"$WORK/replay.json" 2>"$WORK/out" ||
		bad "replay failed"
	hits
}

hits() {
	python3 - "$WORK/replay.json" <<-'EOF'
		import json, sys
		r = json.load(open(sys.argv[1]))
		print(r["block_hits"], r["prefix_hits"], r["checksum_errors"])
	EOF
}

# textbook TRACE POLICY PAGES
textbook() {
	python3 - "$@" <<-'EOF'
		import json, sys
		from collections import OrderedDict
		path, policy, capacity = sys.argv[1], sys.argv[2], int(sys.argv[3])
		d, block, prefix = OrderedDict(), 0, 0
		for line in open(path):
		    ids = json.loads(line)["hash_ids"]
		    present = [x in d for x in ids]
		    block += sum(present)
		    prefix += present.index(False) if False in present else len(present)
		    for x in ids:
		        if x in d:
		            if policy == "lru":
		                d.move_to_end(x)
		        else:
		            if len(d) >= capacity:
		                d.popitem(last=False)
		            d[x] = 1
		print(block, prefix)
	EOF
}

# reference NAME POLICY PAGES
reference() {
	python3 - "$traces" "$@" <<-'EOF'
		import csv, json, sys
		traces, name, policy, pages = sys.argv[1:]
		trace = open(f"{traces}/{name}_trace.jsonl")
		n = sum(len(json.loads(line)["hash_ids"]) for line in trace)
		wanted = (name, policy.upper(), pages)
		for row in csv.DictReader(open(f"{traces}/reference-hit-rates.csv")):
		    if (row["trace"], row["policy"], row["capacity_blocks"]) == wanted:
		        rates = (row["block_hit_rate"], row["prefix_hit_rate"])
		        print(*(round(float(rate) * n) for rate in rates))
	EOF
}

compare() {
	local got=$1 want=$2 what=$3
	if [ "$got" = "$want 0" ]; then ok; else bad "$what: got '$got', wanted '$want 0'"; fi
}

if [ -r "$traces/reference-hit-rates.csv" ]; then
	for name in conversation synthetic; do
		for pages in $capacities; do
			for policy in lru fifo; do
				trace=$traces/${name}_trace.jsonl
				want=$(reference $name $policy "$pages")
				got=$(replay_local "$trace" $policy "$pages")
				compare "$got" "$want" "$name $policy $pages"
				case " $on_node " in
				*" $pages "*)
					got=$(replay_exact "$trace" $policy "$pages")
					compare "$got" "$want" "$name $policy $pages over shm"
					;;
				esac
			done
		done
	done
else
	skip "the public traces: LARDER_TRACES names no folder with reference-hit-rates.csv"
fi
"$ctl" trace-gen --requests 1500 --seed 7 -o "$WORK/generated.jsonl"
for policy in lru fifo; do
	compare "$(replay_exact "$WORK/generated.jsonl" $policy 700)" \
		"$(textbook "$WORK/generated.jsonl" $policy 700)" "generated $policy"
done
finish
