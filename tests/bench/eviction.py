#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the default eviction policy on the public traces and writes docs/eviction.md.

    eviction.py --replay build/tests/bench/policy_replay --out docs/eviction.md

The traces and their reference rates are found in LARDER_TRACES. Each figure is the mean of sampling
seeds 1 to 10. Ends with status 1 when a floor is missed.
"""
import argparse
import concurrent.futures
import csv
import json
import os
import pathlib
import subprocess
import sys

CAPACITIES = [1000, 3000, 5859, 10000, 30000]
TRACES = ["conversation", "synthetic"]
FLOORS = {
    "conversation": [6.5, 13.0, 17.4, 21.6, 32.3],
    "synthetic": [7.0, 19.2, 31.2, 43.3, 62.4],
}
# the best of 25 online policies in a study of these traces, one shard, one policy per capacity
BEST = {
    "conversation": [8.42, 14.40, 18.68, 23.28, 32.90],
    "synthetic": [9.48, 21.17, 34.52, 45.00, 62.60],
}
VARIANTS = {
    "aseg": ["--policy", "aseg"],
    "lru": ["--policy", "lru"],
    "one shard": ["--policy", "aseg", "--shards", "1"],
    "twice": ["--policy", "aseg", "--twice"],
    "scan": ["--policy", "aseg", "--scan", "50"],
    "scan lru": ["--policy", "lru", "--scan", "50"],
    "sizes": ["--policy", "aseg", "--sizes"],
}
PROSE = """\
# Eviction: the default policy, measured

`aseg` keeps two lists, P for what was seen once and M for what was seen again, a memory of what was
evicted (the ghost), and a boundary that moves to where hits are earned; `policy_aseg.c` tells how.
`lru` and `fifo` stay selectable and are exact.

`make eviction` measures this page on the two public Mooncake traces in `LARDER_TRACES`: the engine
alone, the trace's time as its clock, one request at a time, 64 shards, no reserve, blocks from the
last to the first. All rates are usable prefix hits in per cent of the blocks looked up, means of
sampling seeds 1 to 10. The same through client, wire and node, for one seed:

    larderctl replay conversation_trace.jsonl --in-process --mode exact --order last-first \\
        --shards 64 --policy aseg --pages 5859 --page-bytes 4096 --seed 1
"""
NOTES = """\
- *floor*: what the policy must keep; it must never be more than a point under `lru`. *range*: of
  the ten seeds. *reference*: the same rules in one list, exact ghost, no sampling; *one shard* is
  this engine beside it, within 0.1 points.
- *best online* is the best of 25 known policies at that capacity, chosen per capacity afterwards;
  MIN knows the future.
- *twice*: every block is touched a second time at once, as by a prefill that writes and a decode
  that reads: the five seconds' guard. *scan*: 50 blocks a second beside the trace that nobody asks
  for again. *sizes*: blocks of 1 to 32 pages, memory for as many of the mean size; *of budget*: the
  most pages that were ever taken.

## What it costs

A heap entry has room for what the policy keeps of an object. The ghost takes 128 bytes for each
object that the node can hold (pages or records, whichever are fewer), at most a 32nd of the value
memory; the node's log says how much. Restart: an object that was touched again more than five
seconds after it came goes to M, the others to P, each in the order of its last touch; the ghost and
the boundary start anew.

## Admission

A namespace can ask for second-touch admission: a key is stored when it is put for the second time
while the ghost still knows it, be it from the first try or from an eviction. The first PUT is
refused as QUOTA and counted as `put_not_admitted`. It is refused rather than acknowledged, because
what was acknowledged can be read; and as QUOTA, because clients repeat BUSY and wait out THROTTLED,
and the repetition would be the second touch. It needs a policy with a ghost.
"""


def traces():
    folder = os.environ.get("LARDER_TRACES")
    if not folder:
        sys.exit("eviction: LARDER_TRACES names no folder with the traces")
    folder = pathlib.Path(folder)
    for name in TRACES:
        if not (folder / f"{name}_trace.jsonl").is_file():
            sys.exit(f"eviction: no {name}_trace.jsonl in {folder}")
    return folder


def reference(folder):
    rates = {}
    with open(folder / "reference-hit-rates.csv", encoding="ascii") as file:
        for row in csv.DictReader(file):
            key = row["trace"], row["policy"], row["capacity_blocks"]
            rates[key] = 100 * float(row["prefix_hit_rate"])
    return rates


def measure(replay, folder, trace, variant, blocks):
    path = folder / f"{trace}_trace.jsonl"
    argv = [replay, *VARIANTS[variant], "--blocks", str(blocks), path]
    out = subprocess.run(argv, check=True, stdout=subprocess.PIPE, encoding="ascii").stdout
    return (trace, variant, blocks), json.loads(out)


def measure_all(replay, folder):
    jobs = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for trace in TRACES:
            for variant in VARIANTS:
                for blocks in CAPACITIES:
                    if variant == "sizes" and blocks > 10000:
                        continue
                    jobs.append(pool.submit(measure, replay, folder, trace, variant, blocks))
        return dict(job.result() for job in jobs)


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def rates_table(results, known, trace):
    rows = []
    for i, blocks in enumerate(CAPACITIES):
        aseg, one = results[trace, "aseg", blocks], results[trace, "one shard", blocks]
        lru = results[trace, "lru", blocks]["prefix"]
        rows.append([
            f"{blocks:,}", f"{FLOORS[trace][i]:.1f}", f"**{aseg['prefix']:.2f}**",
            f"{aseg['prefix_low']:.2f}–{aseg['prefix_high']:.2f}", f"{lru:.2f}",
            f"{one['prefix']:.2f}", f"{known[trace, 'ASEG', str(blocks)]:.2f}",
            f"{BEST[trace][i]:.2f}", f"{aseg['prefix'] - BEST[trace][i]:+.2f}",
            f"{known[trace, 'MIN', str(blocks)]:.2f}"])
    return table(["blocks", "floor", "aseg", "range", "lru", "one shard", "reference",
                  "best online", "distance", "MIN"], rows)


def variants_table(results, trace):
    rows = []
    for blocks in CAPACITIES:
        sizes = results.get((trace, "sizes", blocks))
        rows.append([f"{blocks:,}"]
                    + [f"{results[trace, v, blocks]['prefix']:.2f}"
                       for v in ("twice", "scan", "scan lru")]
                    + ([f"{sizes['prefix']:.2f}", f"{100 * sizes['most_of_budget']:.2f} %"]
                       if sizes else ["–", "–"]))
    return table(["blocks", "twice", "scan", "lru beside the scan", "sizes", "of budget"], rows)


def missed(results, known):
    for trace in TRACES:
        for floor, blocks in zip(FLOORS[trace], CAPACITIES):
            rate = {v: results[trace, v, blocks]["prefix"] for v in VARIANTS
                    if (trace, v, blocks) in results}
            where = f"{trace} {blocks}"
            if rate["aseg"] < floor:
                yield f"{where}: {rate['aseg']:.3f} is under the floor of {floor}"
            if rate["aseg"] < rate["lru"] - 1:
                yield f"{where}: {rate['aseg']:.3f} is over a point under lru"
            if rate["twice"] < floor - 1:
                yield f"{where}: touched twice, {rate['twice']:.3f} is over a point under the floor"
            if abs(rate["one shard"] - known[trace, "ASEG", str(blocks)]) > 0.1:
                yield f"{where}: one shard, {rate['one shard']:.3f} is not the reference"
            if trace == "conversation" and blocks == 5859 and rate["scan"] < 2 * rate["scan lru"]:
                yield f"{where}: beside a scan, under twice lru"
    for key, result in results.items():
        if result["most_of_budget"] > 1 or result["refused"]:
            yield f"{key}: over the budget, or refused"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replay", required=True, help="the program tests/bench/policy_replay")
    parser.add_argument("--out", required=True, help="the page to write")
    args = parser.parse_args()
    folder = traces()
    known = reference(folder)
    results = measure_all(args.replay, folder)
    page = PROSE
    for trace in TRACES:
        page += f"\n## {trace.capitalize()}\n\n{rates_table(results, known, trace)}\n"
        page += variants_table(results, trace)
    page += "\n" + NOTES
    pathlib.Path(args.out).write_text(page, encoding="utf-8")
    faults = list(missed(results, known))
    for fault in faults:
        print(f"eviction: {fault}", file=sys.stderr)
    print(f"eviction: {args.out} written, {len(results)} rates, {len(faults)} missed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
