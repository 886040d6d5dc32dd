#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads Prometheus' text format 0.0.4, strictly, from standard input.

prometheus_text.py                    says what is wrong, or "good: N families, N samples"
prometheus_text.py value NAME k=v...  the sum of the samples with these labels

Beyond the grammar: HELP and TYPE before the samples of a family, a family in one piece, no sample
twice, counters that end in _total, histograms whose buckets grow, end with +Inf and agree with
_count, and units spelled out.
"""
import collections
import re
import sys

NAME = r'[a-zA-Z_:][a-zA-Z0-9_:]*'
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
SAMPLE = re.compile(rf'({NAME})(?:\{{(.*)\}})? (\S+)$')
VALUE = re.compile(r'(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|\+Inf|NaN)$')


class Wrong(Exception):
    """What is wrong, with its line."""


def labels_of(text, line):
    found, at = [], 0
    while at < len(text):
        m = LABEL.match(text, at)
        if not m or (m.group(3) == ',' and m.end() == len(text)):
            raise Wrong(f'line {line}: labels {text!r}')
        found.append((m.group(1), m.group(2)))
        at = m.end()
    if len({k for k, _ in found}) != len(found):
        raise Wrong(f'line {line}: a label twice')
    return tuple(sorted(found))


class Page:
    """The samples, by family."""

    def __init__(self, text):
        if text and not text.endswith('\n'):
            raise Wrong('the last line does not end')
        self.kind, self.help, self.samples = {}, set(), collections.OrderedDict()
        self.order = []
        for n, line in enumerate(text.split('\n')[:-1], 1):
            self.take(line, n)
        for family in self.order:
            self.check(family)

    def take(self, line, n):
        m = re.match(rf'# (HELP|TYPE) ({NAME}) (.+)$', line)
        if m:
            word, family, rest = m.groups()
            if word == 'HELP':
                if family in self.help:
                    raise Wrong(f'line {n}: HELP of {family} twice')
                self.help.add(family)
            elif family in self.kind or rest not in ('counter', 'gauge', 'histogram'):
                raise Wrong(f'line {n}: TYPE {family} {rest}')
            else:
                self.kind[family] = rest
                self.order.append(family)
            return
        m = SAMPLE.match(line)
        if not m or not VALUE.match(m.group(3)):
            raise Wrong(f'line {n}: {line!r}')
        family = self.family_of(m.group(1))
        if not self.order or family != self.order[-1] or family not in self.help:
            raise Wrong(f'line {n}: {m.group(1)} is not where its family is')
        key = (m.group(1), labels_of(m.group(2) or '', n))
        if key in self.samples:
            raise Wrong(f'line {n}: {key} twice')
        self.samples[key] = m.group(3)

    def family_of(self, name):
        base = re.sub(r'_(bucket|sum|count)$', '', name)
        return base if self.kind.get(base) == 'histogram' else name

    def check(self, family):
        kind = self.kind[family]
        if (kind == 'counter') != family.endswith('_total'):
            raise Wrong(f'{family} is a {kind}')
        if re.search(r'_(ms|us|ns|milliseconds|kib|mib|percent)(_|$)', family):
            raise Wrong(f'{family}: base units')
        if kind == 'histogram':
            self.check_histogram(family)

    def check_histogram(self, family):
        series = collections.OrderedDict()
        for (name, labels), value in self.samples.items():
            if name == family + '_bucket':
                rest = tuple(kv for kv in labels if kv[0] != 'le')
                series.setdefault(rest, []).append((float(dict(labels)['le']), int(value)))
        for labels, buckets in series.items():
            bounds, counts = zip(*buckets)
            if list(bounds) != sorted(set(bounds)) or list(counts) != sorted(counts):
                raise Wrong(f'{family}{labels}: buckets do not grow')
            if bounds[-1] != float('inf') or \
                    self.samples.get((family + '_count', labels)) != str(counts[-1]) or \
                    (family + '_sum', labels) not in self.samples:
                raise Wrong(f'{family}{labels}: +Inf, _sum and _count')

    def value(self, name, wanted):
        return sum(int(v) if v.isdigit() else float(v) for (n, labels), v in self.samples.items()
                   if n == name and all(kv in labels for kv in wanted))


def main():
    try:
        page = Page(sys.stdin.read())
    except Wrong as e:
        print(f'wrong: {e}')
        return 1
    if sys.argv[1:2] == ['value']:
        print(page.value(sys.argv[2], [tuple(a.split('=', 1)) for a in sys.argv[3:]]))
    else:
        print(f'good: {len(page.order)} families, {len(page.samples)} samples')
    return 0


if __name__ == '__main__':
    sys.exit(main())
