#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Larder's RESP port and Redis under the same redis-benchmark, beside the plain socket loop.

    tests/bench/resp.py --bin DIR --ceiling PROGRAM --out DIR

They take turns, ROUNDS times; each figure is the median of its rounds. SET goes to new keys all the
time, so both sides evict; GET reads 200 keys that are there. Both hold 1 GiB. redis-benchmark is
one thread, and compares nothing that it reads. Writes resp.json.
"""

import argparse
import json
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import bench

CASES = [(4 << 10, 16, 1), (4 << 10, 16, 16), (1 << 20, 4, 1), (4 << 20, 4, 1)]
KEYS = 200
MEMORY = 1 << 30
PEERS = ("redis-server", "valkey-server")


class Redis:
    """redis-server of Debian, or valkey-server: nothing on disk, evicting like a cache."""

    def __init__(self, program):
        with socket.create_server(("127.0.0.1", 0)) as s:
            self.port = s.getsockname()[1]
        self.work = tempfile.mkdtemp(prefix="larder-bench.")
        self.process = subprocess.Popen(
            [program, "--port", str(self.port), "--save", "", "--appendonly", "no", "--dir",
             self.work, "--maxmemory", str(MEMORY), "--maxmemory-policy", "allkeys-lru"],
            stdout=subprocess.DEVNULL)
        self.login = []
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except ConnectionRefusedError:
                time.sleep(0.05)
        sys.exit(f"bench: {program} does not listen")

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        shutil.rmtree(self.work)


def operations_per_s(port, login, what, size, clients, depth, n, keys):
    text = bench.run("redis-benchmark", "-p", port, *login, "-t", what, "-d", size, "-c", clients,
                     "-P", depth, "-n", n, "-r", keys, "--csv")
    found = re.search(rf'"{what.upper()}","([0-9.]+)"', text)
    if not found:
        sys.exit(f"bench: redis-benchmark said: {text}")
    return float(found[1])


def case_samples(peers, ceiling, rounds, case):
    size, clients, depth = case
    n = max(400, min(40000, MEMORY // size))
    samples = {}
    for _ in range(rounds):
        samples.setdefault("socket loop", []).append(float(bench.run(
            ceiling, "socket", size, bench.SET_BYTES, bench.SET_BYTES, 1, 2)))
        for port, login in peers.values():          # what SET evicted comes back
            operations_per_s(port, login, "set", size, clients, 1, KEYS * 12, KEYS)
        for what, keys in (("get", KEYS), ("set", 1 << 40)):
            for name, (port, login) in peers.items():
                rate = operations_per_s(port, login, what, size, clients, depth, n, keys)
                samples.setdefault(f"{name} {what}", []).append(rate * size / 1e9)
    return samples


def measure(a, case):
    """Everybody starts anew: a key of a case before has other bytes, which Larder refuses."""
    size, clients, depth = case
    node = bench.Node(a.bin, MEMORY, {"listen.resp": "127.0.0.1:0",
                                      **dict(s.split("=", 1) for s in a.set)})
    opened = [node]
    peers = {"larder": (node.resp_port, ["--user", "demo", "-a", node.secret])}
    try:
        for program in filter(shutil.which, PEERS):
            opened.append(Redis(program))
            peers[program.split("-")[0]] = (opened[-1].port, [])
        samples = case_samples(peers, a.ceiling, a.rounds, case)
    finally:
        for o in opened:
            o.close()
    rows = []
    base = statistics.median(samples["socket loop"])
    for name, s in samples.items():
        median = statistics.median(s)
        rows.append({"size_bytes": size, "clients": clients, "pipeline": depth, "what": name,
                     "gb_per_s": round(median, 3), "per_s": round(median * 1e9 / size),
                     "ratio": round(median / base, 3), "samples": [round(x, 3) for x in s]})
        print(f"{size >> 10:>6} KiB x{clients} -P {depth:<2} {name:<14} {median:6.2f} GB/s"
              f" {median * 1e9 / size:10.0f}/s  {median / base:5.2f} of the loop", flush=True)
    return rows


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--bin", type=pathlib.Path, required=True)
    p.add_argument("--ceiling", type=pathlib.Path, required=True)
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--set", action="append", default=[], help="setting of the node, KEY=VALUE")
    a = p.parse_args()
    if not shutil.which("redis-benchmark"):
        sys.exit("bench: redis-benchmark is not there: apt install redis-tools")
    a.out.mkdir(parents=True, exist_ok=True)
    for program in PEERS:
        if not shutil.which(program):
            print(f"bench: no {program} here")
    rows = [row for case in CASES for row in measure(a, case)]
    with open(a.out / "resp.json", "w") as f:
        json.dump({"rounds": a.rounds, "rows": rows}, f, indent=1)
    print(f"bench: {a.out}/resp.json")


if __name__ == "__main__":
    main()
