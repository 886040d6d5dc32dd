#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The ledger of a running node as JSON, in the words of larder-acct --json.

ledger.py CONTROL_SOCKET            prints it
ledger.py CONTROL_SOCKET ACCT.json  holds it against what larder-acct counted (a file whose last
                                    line is its document); each difference is a line, exit 1
Offsets and sizes are taken from the ledger's own header (docs/ledger.md).
"""
import array
import json
import mmap
import socket
import struct
import sys

OPS = {0x01: 'HELLO', 0x02: 'AUTH', 0x03: 'PING', 0x04: 'CANCEL', 0x10: 'NS_CREATE',
       0x11: 'NS_OPEN', 0x12: 'NS_LIST', 0x13: 'NS_FLUSH', 0x14: 'NS_RETIRE', 0x18: 'REGION_ADD',
       0x19: 'REGION_DEL', 0x20: 'PUT', 0x21: 'PUT_BEGIN', 0x22: 'PUT_PART', 0x23: 'PUT_COMMIT',
       0x24: 'PUT_ABORT', 0x28: 'GET', 0x29: 'EXISTS', 0x2a: 'LEASE', 0x2b: 'RELEASE',
       0x2c: 'PIN', 0x2d: 'UNPIN', 0x2e: 'STAT', 0x2f: 'LIST', 0x30: 'DELETE'}
STATUSES = ('OK EXISTS_SAME NOT_FOUND CONFLICT BUSY FILL NO_SPACE QUOTA THROTTLED TOO_LARGE '
            'TOO_SMALL DENIED BAD_REQUEST UNSUPPORTED CHECKSUM LAYOUT_MISMATCH DEADLINE CANCELLED '
            'BUFFER_LOST DRAINING DISCONNECTED IO INTERNAL').split()
LIMITS = ('resident_bytes guarantee_bytes objects namespaces pinned_bytes leased_bytes '
          'in_bytes_per_s out_bytes_per_s ops_per_s in_flight_lookup in_flight_fetch '
          'in_flight_write connections regions region_bytes weight over_cap').split()
LATENCY = ['get', 'put', 'exists', 'other']
BUCKETS = 160
USAGE, GAUGES, SECTION_LATENCY, _, _, NAMES, NODE = range(7)
USAGE_WORDS, NAME_BYTES = 192, 64


def ask(path):
    """A mapping of the ledger, handed over by the daemon."""
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
        s.sendall(b'{"cmd":"ledger"}\n')
        data, fds, _, _ = socket.recv_fds(s, 4096, 4)
        while not data.endswith(b'\n'):
            data += s.recv(4096)
    if len(fds) != 1:
        sys.exit(f'the daemon hands out no ledger: {data}')
    return mmap.mmap(fds[0], 0, mmap.MAP_SHARED, mmap.PROT_READ)


def bound(bucket):
    """The inclusive upper bound of a bucket of service times, ns."""
    if bucket <= 4:
        return max(bucket, 0)
    return (5 + (bucket - 5) % 4) << (bucket - 5) // 4


def counts(values, names):
    return {names[i]: v for i, v in enumerate(values) if v and i in names}


class Ledger:
    def __init__(self, path):
        self.map = ask(path)
        _, _, self.writers, self.tenants = struct.unpack_from('4I', self.map, 0)
        self.sections = [struct.unpack_from('2Q', self.map, 16 + 16 * i) for i in range(7)]

    def words(self, section, at, n):
        """n words of a section from word @at on"""
        a = array.array('Q')
        start = self.sections[section][0] + 8 * at
        a.frombytes(self.map[start:start + 8 * n])
        return a

    def tenant(self, slot):
        sums = [0] * USAGE_WORDS
        for writer in range(self.writers):
            at = (writer * self.tenants + slot) * USAGE_WORDS
            for i, v in enumerate(self.words(USAGE, at, USAGE_WORDS)):
                sums[i] += v
        ops, status, cause, rest = sums[:64], sums[64:96], sums[96:104], sums[104:]
        refused = rest[12 + 10:12 + 10 + 32]
        return {'slot': slot, 'ops': counts(ops, OPS),
                'status': counts(status, dict(enumerate(STATUSES))),
                'refused': counts(refused, dict(enumerate(LIMITS))),
                'bytes_out': cause[0], 'bytes_in': cause[1], 'bytes_view': cause[2],
                'bytes_discarded': cause[7],
                'evicted_objects': rest[6], 'evicted_bytes': rest[7]}

    def all(self):
        found = {}
        for slot in range(self.tenants):
            at = self.sections[NAMES][0] + NAME_BYTES * slot
            name = self.map[at:at + 40].split(b'\0')[0].decode()
            if name:
                found[name] = self.tenant(slot)
        return found

    def latency(self):
        """{class: (sum_ns, buckets)}, of all tenants"""
        words = len(LATENCY) * (BUCKETS + 1)
        sums = [0] * words
        for writer in range(self.writers):
            for i, v in enumerate(self.words(SECTION_LATENCY, writer * words, words)):
                sums[i] += v
        return {name: (sums[len(LATENCY) * BUCKETS + i], sums[i * BUCKETS:(i + 1) * BUCKETS])
                for i, name in enumerate(LATENCY)}


def acct_latency(tenants):
    found = {}
    for name in LATENCY:
        each = [t['latency'][name] for t in tenants.values()]
        found[name] = (sum(e['sum_ns'] for e in each),
                       [sum(e['buckets'][i] for e in each) for i in range(BUCKETS)])
    return found


def main():
    ledger = Ledger(sys.argv[1])
    mine = ledger.all()
    if len(sys.argv) < 3:
        print(json.dumps(mine, indent=1))
        return 0
    with open(sys.argv[2], encoding='utf-8') as f:
        theirs = json.loads(f.read().strip().split('\n')[-1])['tenants']
    bad = 0
    for name, t in mine.items():
        other = theirs.get(name)
        for field, value in t.items():
            if other is None and not value:
                continue
            if other is None and field in ('slot',):
                continue
            if field == 'bytes_discarded':  # no operation's, so no probe tells it
                continue
            if other is None or other[field] != value:
                print(f'{name}: {field}: ledger {value}, acct {other and other[field]}')
                bad += 1
    for name in theirs:
        if name not in mine:
            print(f'{name}: only larder-acct knows it')
            bad += 1
    for name, mine_latency in ledger.latency().items():
        if mine_latency != acct_latency(theirs)[name]:
            print(f'latency of {name} differs')
            bad += 1
    return bad != 0


if __name__ == '__main__':
    sys.exit(main())
