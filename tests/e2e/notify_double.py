#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A service manager's end of sd_notify(3): notify_double.py SOCKET FILE

Writes each message to FILE, a line each: milliseconds since the start, then its assignments,
separated by " | ".

notify_double.py --hold TID SECONDS: stops that one thread for so long, and no other of its
process."""
import ctypes
import os
import socket
import sys
import time


def hold(tid, seconds):
    libc = ctypes.CDLL(None, use_errno=True)
    seize, interrupt, detach, resume = 0x4206, 0x4207, 17, 0
    for request in (seize, interrupt):
        if libc.ptrace(request, tid, resume, resume):
            sys.exit(77)
    os.waitpid(tid, 0x40000000)		# __WALL
    time.sleep(seconds)
    libc.ptrace(detach, tid, resume, resume)


def listen(path, log):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.bind(path)
    begin = time.monotonic()
    with open(log, 'w', buffering=1, encoding='utf-8') as f:
        while True:
            text = s.recv(65536).decode().strip().replace('\n', ' | ')
            f.write(f'{int((time.monotonic() - begin) * 1000)} {text}\n')


if sys.argv[1] == '--hold':
    hold(int(sys.argv[2]), float(sys.argv[3]))
else:
    listen(sys.argv[1], sys.argv[2])
