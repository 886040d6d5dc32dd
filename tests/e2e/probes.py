#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the probes of built binaries against <larder/probes.h>.

probes.py HEADER BINARY...: each probe of a binary is in the header's table, described there with
the same number of arguments, has a semaphore, and plain operands (a register or a constant); each
of the table is in one of the binaries. Ends with "N passed, N failed, N skipped".
"""
import collections
import re
import subprocess
import sys

# what every libbpf from 1.1 on can parse; a memory operand is none of it
OPERAND = re.compile(r'^-?[1248]@(%[a-z][a-z0-9]*|x[0-9]+|\$?-?[0-9]+)$')
ARGUMENTS_MAX = 6
passed = failed = 0


def check(good, what):
    global passed, failed
    if good:
        passed += 1
    else:
        failed += 1
        print(f'FAILED: {what}')


def header_probes(path):
    """{name: (arguments by the table, by the description or None)}"""
    with open(path, encoding='utf-8') as f:
        text = f.read()
    table = dict(re.findall(r'\bX\((\w+), (\d)\)', text.replace('X(name, number', '')))
    described = {name: len(args.split(',')) for name, args in
                 re.findall(r'^ \* (\w+)\(([a-z_0-9, ]+)\)', text, re.M)}
    return {name: (int(n), described.get(name)) for name, n in table.items()}


def notes(path):
    """[(name, semaphore, [operands])] of the provider larder"""
    out = subprocess.run(['readelf', '-n', '-W', path], stdout=subprocess.PIPE, check=True)
    found = []
    for note in out.stdout.decode().split('Provider: ')[1:]:
        provider = note.split('\n', 1)[0].strip()
        field = dict(re.findall(r'(Name|Semaphore|Arguments): ?([^\n,]*)', note))
        if provider == 'larder':
            found.append((field['Name'], int(field['Semaphore'], 16),
                          field.get('Arguments', '').split()))
    return found


def main():
    header = header_probes(sys.argv[1])
    sites = collections.Counter()
    check(len(header) > 10, 'the header has a table of probes')
    for name, (table, described) in header.items():
        check(table == described and table <= ARGUMENTS_MAX,
              f'{name}: {table} arguments by the table, {described} described')
    for path in sys.argv[2:]:
        found = notes(path)
        check(found, f'{path}: has no probe (built without sys/sdt.h?)')
        for name, semaphore, operands in found:
            sites[name] += 1
            check(name in header, f'{path}: {name} is not in the header')
            check(semaphore, f'{path}: {name} has no semaphore')
            check(len(operands) == header.get(name, (None,))[0] and
                  all(OPERAND.match(o) for o in operands), f'{path}: {name}: {operands}')
    for name in header:
        check(sites[name] > 0, f'{name}: in none of the binaries')
    print(f'{passed} passed, {failed} failed, 0 skipped')
    return failed != 0


sys.exit(main())
