#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""goofys#350: the node's service time of GET with a crawler over the view against without.

tests/bench/fsview.py --bin build/bin [--rounds 7] [--seconds 4] [--rate 2000] [--objects 3000]

One node; rounds alternate between a client alone and the client beside a crawler that runs
`find -type f -exec cat` over the view without a pause, both at idle priority as the unit has them
(--crawl-priority normal: at the others' priority).
The node runs at real-time priority, so that on two cores neither its own client nor anybody else's
work interrupts it: what is left in the figures is the node's own service (--node-priority normal:
as everybody else, which a kernel that does not preempt system calls makes noisy).
p99 comes from what a round added to the ledger's histogram of clients' GETs. Prints a line a round,
then JSON with the medians and their ratio.
"""
import argparse
import array
import json
import mmap
import os
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import tempfile
import time

OPS, BUCKETS = 4, 160


def bound(i):
    return i if i <= 4 else (5 + (i - 5) % 4) << (i - 5) // 4


class Ledger:
    def __init__(self, control):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(control)
            s.sendall(b'{"cmd":"ledger"}\n')
            _, anc, _, _ = s.recvmsg(4096, socket.CMSG_SPACE(4))
            fds = array.array('i')
            fds.frombytes(anc[0][2][:4])
        self.map = mmap.mmap(fds[0], 0, prot=mmap.PROT_READ)
        os.close(fds[0])
        self.writers = struct.unpack_from('<I', self.map, 8)[0]
        self.usage = struct.unpack_from('<Q', self.map, 16)[0]
        self.offset = struct.unpack_from('<Q', self.map, 16 + 16 * 2)[0]

    def viewed(self):
        """Bytes that viewers read."""
        words = 64 + 32 + 8 + 22 + 32 + 2 + 32
        return sum(struct.unpack_from('<Q', self.map, self.usage + ((w * 64 + 63) * words + 64 +
                                                                   32 + 2) * 8)[0]
                   for w in range(self.writers))

    def gets(self):
        total = [0] * BUCKETS
        for w in range(self.writers):
            at = self.offset + w * (OPS * BUCKETS + OPS) * 8
            for i, v in enumerate(struct.unpack_from(f'<{BUCKETS}Q', self.map, at)):
                total[i] += v
        return total


def quantile(before, after, q):
    """By bucket, linear inside of it: bounds alone are 19 % apart."""
    add = [b - a for a, b in zip(before, after)]
    rank, seen = q * sum(add), 0
    for i, n in enumerate(add):
        if n and seen + n >= rank:
            low = bound(i - 1) if i else 0
            return low + (bound(i) - low) * (rank - seen) / n
        seen += n
    return 0


CRAWL = 'while :; do find "$1" -type f ! -name ".*" -exec cat {} + >/dev/null 2>&1; done'


def start(args, **kw):
    return subprocess.Popen(args, start_new_session=True, **kw)


def stop(process, sig=signal.SIGTERM):
    if process and process.poll() is None:
        os.killpg(process.pid, sig)
        process.wait()


def wait_for(log, what):
    for _ in range(600):
        with open(log, encoding='utf-8') as f:
            if what in f.read():
                return
        time.sleep(0.05)
    raise SystemExit(f'{log}: no "{what}" in 30 s')


def setup(work, memory):
    os.mkdir(f'{work}/tenants.d')
    with open(os.open(f'{work}/tenants.d/demo.secret', os.O_CREAT | os.O_WRONLY, 0o600), 'w',
              encoding='utf-8') as f:
        f.write('a-secret')
    files = {'tenants.d/demo.conf': '[tenant]\nsecret_file = demo.secret\n',
             'larderd.conf': f'[memory]\ndir = {memory}\nsize = 1G\n'
                             f'[listen]\ntcp = 127.0.0.1:0\nshm = {work}/larder.sock\n'
                             f'[tenants]\ndir = {work}/tenants.d\n[state]\ndir = {work}/state\n'
                             f'[control]\nsocket = {work}/control.sock\n[bus]\naddress =\n'}
    for name, text in files.items():
        with open(f'{work}/{name}', 'w', encoding='utf-8') as f:
            f.write(text)
    os.environ.update(LARDER_URL=f'shm://{work}/larder.sock', LARDER_TENANT='demo',
                      LARDER_NS='bench', LARDER_SECRET_FILE=f'{work}/tenants.d/demo.secret',
                      LARDER_CONTROL=f'{work}/control.sock')


def measure(a, work, ledger, crawl):
    crawler = None
    if crawl:
        crawler = start(a.idle + ['sh', '-c', CRAWL, 'sh', f'{work}/fs/demo'])
        time.sleep(0.5)
    bench = start([f'{a.bin}/larderctl', 'bench', 'get', '--size', a.size, '--keys',
                   str(a.objects), '--rate', str(a.rate), '--keep', '--warmup', '500ms',
                   '--duration', f'{a.seconds + 2}s'], stdout=subprocess.DEVNULL)
    time.sleep(2)		# it has put what it lacked, and is warm
    before, seen = ledger.gets(), ledger.viewed()
    time.sleep(a.seconds)
    after, seen = ledger.gets(), ledger.viewed() - seen
    stop(crawler, signal.SIGKILL)
    bench.wait()
    return [quantile(before, after, q) for q in (0.5, 0.99)] + [sum(after) - sum(before), seen]


def run(a, work):
    results = {False: [], True: []}
    log = open(f'{work}/log', 'w', encoding='utf-8')
    node = view = None
    try:
        node = start(a.real_time + [f'{a.bin}/larderd', '-c', f'{work}/larderd.conf'], stderr=log)
        wait_for(f'{work}/log', 'ready')
        os.mkdir(f'{work}/fs')
        view = start(a.idle + [f'{a.bin}/larderfs', '-u', os.environ['LARDER_URL'], '-s',
                      os.environ['LARDER_CONTROL'], f'{work}/fs'], stderr=log)
        wait_for(f'{work}/log', 'shows')
        ledger = Ledger(os.environ['LARDER_CONTROL'])
        measure(a, work, ledger, False)		# puts the objects
        for i in range(a.rounds):
            for crawl in ((False, True), (True, False))[i % 2]:
                p50, p99, n, seen = measure(a, work, ledger, crawl)
                results[crawl].append((p50, p99, n, seen / a.seconds))
                print(f'round {i} {"crawler" if crawl else "alone  "} p50 {p50 / 1e3:8.1f} us  '
                      f'p99 {p99 / 1e3:8.1f} us  {n / a.seconds:8.0f} GETs/s'
                      f'{seen / a.seconds / 2**20:8.1f} MiB/s crawled', flush=True)
    finally:
        stop(view)
        stop(node)
        log.close()
    return results


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    p.add_argument('--bin', required=True)
    p.add_argument('--rounds', type=int, default=7)
    p.add_argument('--seconds', type=float, default=4)
    p.add_argument('--rate', type=int, default=2000)
    p.add_argument('--objects', type=int, default=3000)
    p.add_argument('--size', default='64K')
    p.add_argument('--crawl-priority', choices=['idle', 'normal'], default='idle')
    p.add_argument('--node-priority', choices=['real-time', 'normal'], default='real-time')
    a = p.parse_args()
    a.real_time = ['chrt', '-f', '20'] if a.node_priority == 'real-time' else []
    a.idle = ['chrt', '-i', '0'] if a.crawl_priority == 'idle' else []
    work = tempfile.mkdtemp(prefix='larder-bench.')
    memory = f'/dev/shm/{os.path.basename(work)}'
    try:
        setup(work, memory)
        results = run(a, work)
    finally:
        subprocess.run(['umount', '-l', f'{work}/fs'], stderr=subprocess.DEVNULL, check=False)
        shutil.rmtree(work, ignore_errors=True)
        shutil.rmtree(memory, ignore_errors=True)
    alone, crawled = ([statistics.median(r[i] for r in results[c]) for i in (0, 1)]
                      for c in (False, True))
    print(json.dumps({'get_p50_ns': {'alone': round(alone[0]), 'crawler': round(crawled[0])},
                      'get_p99_ns': {'alone': round(alone[1]), 'crawler': round(crawled[1])},
                      'p99_ratio': round(crawled[1] / alone[1], 3) if alone[1] else None,
                      'p99_ratio_of_pairs': round(statistics.median(
                          c[1] / b[1] for b, c in zip(results[False], results[True]) if b[1]), 3),
                      'crawled_bytes_per_s': round(statistics.median(
                          r[3] for r in results[True])),
                      'rounds': a.rounds, 'rate': a.rate, 'size': a.size}))


if __name__ == '__main__':
    main()
