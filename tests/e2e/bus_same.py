#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bus_same.py figures STATS ADDRESS: each number of `larderctl --json stats` is on the bus, too.
bus_same.py description INSTALLED SERVED: the installed interface is the one that is served."""
import json
import subprocess
import sys
import xml.etree.ElementTree as ET

NODE, PATH = 'org.larder.Node1', '/org/larder/Node1'
MOVING = {'scrubbed_bytes', 'scrub_passes'}	# between the two looks


def call(address, *words):
    out = subprocess.check_output(['busctl', '--address=' + address, '--json=short', 'call',
                                   NODE, PATH, *words])
    return json.loads(out)['data'][0]


def figures(stats, address):
    own = call(address, 'org.freedesktop.DBus.Properties', 'GetAll', 's', NODE)
    objects = call(address, 'org.freedesktop.DBus.ObjectManager', 'GetManagedObjects')
    same = 0
    for group in 'memory', 'objects', 'connections':
        for name, value in stats[group].items():
            there = own[''.join(w.capitalize() for w in name.split('_'))]['data']
            if name not in MOVING:
                assert there == value, (name, there, value)
                same += 1
    for tenant, numbers in stats['tenants'].items():
        if tenant == '_view':
            continue
        path = PATH + '/tenant/' + tenant.replace('-', '_2d')
        there = objects[path]['org.larder.Tenant1']['Figures']['data']
        for name, value in numbers.items():
            if isinstance(value, int):
                assert there[name] == value, (tenant, name, there[name], value)
                same += 1
    assert same > 40, same


def flat(e):
    return (e.tag, sorted(e.attrib.items()), [flat(c) for c in e])


def description(installed, served):
    have = ET.parse(installed).getroot().find('interface')
    live = [i for i in ET.parse(served).getroot().findall('interface')
            if i.get('name') == have.get('name')]
    assert live and flat(have) == flat(live[0]), installed + ' is not what is served'


if sys.argv[1] == 'figures':
    with open(sys.argv[2], encoding='utf-8') as f:
        figures(json.load(f), sys.argv[3])
else:
    description(sys.argv[2], sys.argv[3])
