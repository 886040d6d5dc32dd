#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What listening to probes costs: 4 KiB GETs with nobody, and with each tool attached.

    tests/bench/probes.py --bin DIR [--rounds N] [--duration TIME]

The states take turns, round by round, in one run against one node; each figure is the median of its
rounds. Wants root. Prints a line a state, then one JSON document: operations a second, and the
nanoseconds that an operation takes longer than with nobody.
"""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bench  # noqa: E402  pylint: disable=wrong-import-position

TOOLS = {'nobody': None, 'larder-oplat': [], 'larder-acct': [], 'larder-evict': [],
         'larder-slow': ['--min', '1000000'], 'larder-connlife': []}


class Listener:
    """A tool that listens while the block runs."""

    def __init__(self, bin_dir, name, pid):
        self.argv = [bin_dir / name, '-p', str(pid), *TOOLS[name]] if TOOLS[name] is not None \
            else None

    def __enter__(self):
        if not self.argv:
            return
        self.process = subprocess.Popen(self.argv, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if 'listening' in line:
                return
        sys.exit(f'{self.argv[0]} does not listen: BPF wants root')

    def __exit__(self, *_):
        if self.argv:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(30)
            self.process.stderr.close()


def main():
    args = argparse.ArgumentParser()
    args.add_argument('--bin', required=True, type=pathlib.Path)
    args.add_argument('--rounds', type=int, default=7)
    args.add_argument('--duration', default='1s')
    args = args.parse_args()
    node = bench.Node(args.bin, 256 * bench.MIB)
    rates = {}
    try:
        for _ in range(args.rounds):
            for transport in ('tcp', 'shm'):
                for name in TOOLS:
                    with Listener(args.bin, name, node.process.pid):
                        row = node.bench('get', transport, 4096, 'on', args.duration, depth=16,
                                         keys=1000, small=True)
                    rates.setdefault((transport, name), []).append(
                        row['operations_per_s']['median'])
    finally:
        node.close()
    result = {}
    for transport in ('tcp', 'shm'):
        alone = statistics.median(rates[transport, 'nobody'])
        for name in TOOLS:
            rate = statistics.median(rates[transport, name])
            more = 1e9 / rate - 1e9 / alone
            result[f'{transport} {name}'] = {'operations_per_s': round(rate),
                                             'more_ns': round(more)}
            print(f'{transport} 4 KiB GET, {name:16} {rate:10.0f}/s {more:+8.0f} ns')
    print(json.dumps(result))


if __name__ == '__main__':
    main()
