#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ceilings first, then the node, in the same run: ratios that hold on a noisy machine.

    tests/bench/bench.py --bin DIR --ceiling PROGRAM --out DIR [--quick]

For each size the ceilings (memcpy between two shared mappings; a plain socket loop) and the node
(shm and tcp, GET and PUT, checks off and on) take turns, ROUNDS times; each figure is the median of
its rounds. Both sides work on the same amounts: values from a set of 256 MiB (8 times the
last-level cache of the machine that the published figures are from) into buffers of as much, DEPTH
under way. "small" rows use DEPTH buffers only, which stay in the cache. Writes bench.json and,
where gnuplot is, bench.svg.
"""

import argparse
import json
import os
import pathlib
import secrets
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

KIB, MIB = 1 << 10, 1 << 20
SIZES = [64 * KIB, MIB, 4 * MIB, 32 * MIB]
DEPTH = 2
SET_BYTES = 256 * MIB


def run(*argv, **kw):
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, **kw)
    if done.returncode:
        sys.exit(f"bench: {' '.join(map(str, argv))}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


class Node:
    """A larderd of our own, ended by its pid."""

    def __init__(self, bin_dir, size_bytes, more=None):
        self.bin = bin_dir
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="larder-bench."))
        self.memory = pathlib.Path("/dev/shm") / self.work.name
        tenants = self.work / "tenants.d"
        tenants.mkdir()
        secret = tenants / "demo.secret"
        self.secret = secrets.token_hex(32)
        secret.write_text(self.secret)
        secret.chmod(0o400)
        (tenants / "demo.conf").write_text("[tenant]\nsecret_file = demo.secret\n")
        self.log = open(self.work / "log", "w+")
        settings = {
            "memory.dir": self.memory, "memory.size": size_bytes, "listen.tcp": "127.0.0.1:0",
            "listen.shm": self.work / "sock", "tenants.dir": tenants,
            "state.dir": self.work / "state",
            "control.socket": self.work / "control", "bus.address": "", "node.credits": 128,
            **(more or {}),
        }
        argv = [bin_dir / "larderd", "-c", "/dev/null"]
        for key, value in settings.items():
            argv += ["--set", f"{key}={value}"]
        self.process = subprocess.Popen(argv, stderr=self.log)
        self.port = None
        for _ in range(1200):
            text = (self.work / "log").read_text()
            if "ready" in text:
                ports = [int(part.split(")")[0]) for part in text.split("(port ")[1:]]
                self.port, self.resp_port = ports[0], ports[-1]
                break
            if self.process.poll() is not None:
                sys.exit(f"bench: the node did not start:\n{text}")
            time.sleep(0.05)
        self.environment = dict(os.environ, LARDER_TENANT="demo", LARDER_NS="bench",
                                LARDER_SECRET_FILE=str(secret))
        self.urls = {"shm": f"shm://{self.work}/sock", "tcp": f"tcp://127.0.0.1:{self.port}"}

    def bench(self, what, transport, size, checks, seconds, depth=DEPTH, batch=1, keys=None,
              small=False):
        keys = keys or max(2, SET_BYTES // size)
        buffers = 1 if small else max(1, SET_BYTES // (size * depth))
        argv = [self.bin / "larderctl", "--json", "--url", self.urls[transport], "bench", what,
                "--size", size, "--batch", batch, "--depth", depth, "--duration", seconds]
        if what == "get":
            argv += ["--checks", checks]
        if what != "put":
            argv += ["--keys", keys]
        if what != "exists":
            argv += ["--buffers", buffers]
        if transport == "shm":
            argv.append("--region")
        return json.loads(run(*argv, env=self.environment))

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        shutil.rmtree(self.work)
        shutil.rmtree(self.memory, ignore_errors=True)


def gigabytes(result):
    return result["bytes_per_s"]["median"] / 1e9


def measure(node, ceiling, sizes, rounds, seconds):
    rows = []
    for size in sizes:
        few = DEPTH * size
        jobs = {
            "memcpy": lambda: float(run(ceiling, "memcpy", size, SET_BYTES, SET_BYTES, seconds)),
            "memcpy small": lambda: float(run(ceiling, "memcpy", size, SET_BYTES, few, seconds)),
            "socket": lambda: float(
                run(ceiling, "socket", size, SET_BYTES, SET_BYTES, seconds, DEPTH)),
            "socket-put": lambda: float(
                run(ceiling, "socket-put", size, SET_BYTES, SET_BYTES, seconds, DEPTH)),
            "shm get small checks off": lambda: gigabytes(
                node.bench("get", "shm", size, "off", seconds, small=True)),
        }
        for transport in ("shm", "tcp"):
            for what in ("get", "put"):
                for checks in ("off", "on") if what == "get" else ("on",):
                    jobs[f"{transport} {what} checks {checks}"] = (
                        lambda t=transport, w=what, c=checks: gigabytes(
                            node.bench(w, t, size, c, seconds)))
        samples = {name: [] for name in jobs}
        for _ in range(rounds):
            for name, job in jobs.items():
                samples[name].append(job())
        median = {name: statistics.median(s) for name, s in samples.items()}
        for name in jobs:
            base = ("memcpy small" if "small" in name else
                    "memcpy" if name.startswith(("shm", "memcpy")) else
                    "socket-put" if "put" in name else "socket")
            rows.append({"size_bytes": size, "what": name, "gb_per_s": round(median[name], 3),
                         "ceiling": base, "ratio": round(median[name] / median[base], 3),
                         "samples": [round(s, 3) for s in samples[name]]})
            print(f"{size >> 10:>8} KiB  {name:<24} {median[name]:7.2f} GB/s"
                  f"  {median[name] / median[base]:5.2f} of {base}", flush=True)
    return rows


def small_operations(node, rounds, seconds):
    """Round trips and batches: what does not move much."""
    rows = []
    for transport in ("shm", "tcp"):
        one = [node.bench("get", transport, 4096, "on", seconds, depth=1, keys=1000)
               for _ in range(rounds)]
        many = [node.bench("exists", transport, 4096, "on", seconds, depth=4, batch=1000,
                           keys=10000) for _ in range(rounds)]
        p50 = statistics.median(r["p50_ns"]["median"] / 1e3 for r in one)
        p99 = statistics.median(r["p99_ns"]["median"] / 1e3 for r in one)
        keys = statistics.median(r["operations_per_s"]["median"] for r in many)
        rows.append({"transport": transport, "get_4k_p50_us": p50, "get_4k_p99_us": p99,
                     "exists_keys_per_s": keys})
        print(f"{transport}: GET 4 KiB p50 {p50:.1f} us, p99 {p99:.1f} us; "
              f"EXISTS in batches of 1,000: {keys / 1e6:.2f} M keys/s", flush=True)
    return rows


def chart(out, rows):
    if not shutil.which("gnuplot"):
        print("bench: no chart: gnuplot is not installed")
        return
    names = list(dict.fromkeys(r["what"] for r in rows))
    data = out / "bench.dat"
    sizes = list(dict.fromkeys(r["size_bytes"] for r in rows))
    with open(data, "w") as f:
        for size in sizes:
            figures = {r["what"]: r["gb_per_s"] for r in rows if r["size_bytes"] == size}
            f.write(" ".join([str(size >> 10)] + [str(figures[n]) for n in names]) + "\n")
    plots = ", ".join(f"'{data}' using 1:{i + 2} with linespoints title '{n}'"
                      for i, n in enumerate(names))
    script = (f"set terminal svg size 900,560; set output '{out}/bench.svg'; set logscale x 2;"
              "set xlabel 'value, KiB'; set ylabel 'GB/s'; set yrange [0:*]; set key outside;"
              f"set grid; plot {plots}")
    subprocess.run(["gnuplot", "-e", script], check=True)
    print(f"bench: {out}/bench.svg")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--bin", type=pathlib.Path, required=True)
    p.add_argument("--ceiling", type=pathlib.Path, required=True)
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=1)
    p.add_argument("--sizes", help="bytes, comma-separated")
    a = p.parse_args()
    sizes = [int(s) for s in a.sizes.split(",")] if a.sizes else SIZES
    a.out.mkdir(parents=True, exist_ok=True)
    node = Node(a.bin, 4 * SET_BYTES)
    try:
        rows = measure(node, a.ceiling, sizes, a.rounds, a.seconds)
        small = small_operations(node, a.rounds, a.seconds)
    finally:
        node.close()
    with open(a.out / "bench.json", "w") as f:
        json.dump({"set_bytes": SET_BYTES, "depth": DEPTH, "rounds": a.rounds, "rows": rows,
                   "small": small}, f, indent=1)
    chart(a.out, rows)
    print(f"bench: {a.out}/bench.json")


if __name__ == "__main__":
    main()
