#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sends RoCE v2 packets that test_witness.sh knows, and some that are none, from an interface."""
import socket
import struct
import sys

ROCE = 4791
HEADS = {0x00: 0, 0x04: 0, 0x05: 4, 0x06: 16, 0x07: 0, 0x08: 0, 0x0a: 16, 0x0d: 4, 0x0e: 0, 0x0f: 4,
         0x10: 4, 0x0c: 16, 0x11: 4}


def roce(opcode, psn, payload, qp=17):
    """BTH, its extended header, the payload padded to four bytes, and a CRC that nobody checks"""
    pad = -payload % 4
    return struct.pack('>BBHII', opcode, 0x40 | pad << 4, 0xffff, qp, psn) + \
        bytes(HEADS[opcode] + payload + pad + 4)


def udp(body, port=ROCE):
    return struct.pack('>HHHH', 49152, port, 8 + len(body), 0) + body


def ipv4(datagram, proto=17):
    head = struct.pack('>BBHHHBBH4s4s', 0x45, 0, 20 + len(datagram), 1, 0, 64, proto, 0,
                       socket.inet_aton('198.51.100.1'), socket.inet_aton('198.51.100.2'))
    return b'\2\0\0\0\0\2\2\0\0\0\0\1\x08\0' + head + datagram


def ipv6(datagram):
    head = struct.pack('>IHBB16s16s', 6 << 28, len(datagram), 17, 64,
                       socket.inet_pton(socket.AF_INET6, '2001:db8::1'),
                       socket.inet_pton(socket.AF_INET6, '2001:db8::2'))
    return b'\2\0\0\0\0\2\2\0\0\0\0\1\x86\xdd' + head + datagram


frames = [ipv4(udp(roce(*p))) for p in (
    (0x06, 100, 4096), (0x07, 101, 4096), (0x08, 102, 100),     # a write of three packets
    (0x0a, 103, 7),                                             # one of one, padded
    (0x07, 101, 4096),                                          # a repetition
    (0x0d, 5, 4096), (0x0e, 6, 4096), (0x0f, 7, 3),             # answers to a read
    (0x04, 104, 200), (0x05, 105, 33),                          # sends, one with immediate data
    (0x11, 9, 0), (0x0c, 106, 0))]                              # acknowledgement, read request
frames += [ipv6(udp(roce(0x10, psn, 1024, qp=0xffffff))) for psn in (0xffffff, 0)]
frames += [ipv4(udp(b'short')),                                 # to the port, and no BTH
           ipv4(udp(roce(0x04, 1, 64), port=4792)),             # another port
           ipv4(udp(roce(0x04, 1, 64)), proto=6),               # no UDP
           ipv4(udp(struct.pack('>BBHII', 0x0a, 0, 0xffff, 17, 1) + bytes(4)))]  # cut short

with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as s:
    s.bind((sys.argv[1], 0))
    for frame in frames:
        s.send(frame.ljust(60, b'\0'))
