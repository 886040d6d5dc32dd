#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What clients of the RESP port do, to the byte. resp.py PORT CASE [ARGUMENT]; 0: as it should."""
import os
import socket
import sys
import threading
import time

PORT = int(sys.argv[1])
SECRET = b"secret-of-the-test"
MIB = 1 << 20


def command(*words):
    words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


class Client:
    def __init__(self, auth=True):
        self.s = socket.create_connection(("127.0.0.1", PORT), timeout=30)
        self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if auth:
            self.want(command("AUTH", "demo", SECRET), b"+OK\r\n")

    def exactly(self, n):
        got = bytearray(n)
        view, at = memoryview(got), 0
        while at < n:
            k = self.s.recv_into(view[at:])
            if k == 0:
                raise EOFError("the connection ended after %r" % bytes(got[:min(at, 80)]))
            at += k
        return bytes(got)

    def want(self, say, answer):
        self.s.sendall(say)
        got = self.exactly(len(answer))
        assert got == answer, "%r was answered %r, not %r" % (say[:60], got[:80], answer[:80])

    def line(self, say=b""):
        self.s.sendall(say)
        got = b""
        while not got.endswith(b"\r\n"):
            got += self.exactly(1)
        return got

    def ended(self):
        try:
            while self.s.recv(65536):
                pass
        except ConnectionResetError:
            pass
        return True


def key(worker, i):
    return b"meta-llama/Llama-3.1-8B@8@%d@%016x@bfloat16" % (worker, i)


def lmcache_worker(worker, failed):
    """A connection of its native client: AUTH, then one command in flight, replies to the byte."""
    try:
        c = Client()
        values = [os.urandom(n) for n in (65536, 1, 4 * MIB, 300001)]
        for i, v in enumerate(values):
            k = key(worker, i)
            c.want(command("EXISTS", k), b":0\r\n")
            c.want(command("SET", k, v), b"+OK\r\n")
            c.want(command("EXISTS", k), b":1\r\n")
            c.want(command("GET", k), b"$%d\r\n%s\r\n" % (len(v), v))
            c.want(command("SET", k, v), b"+OK\r\n")    # the same bytes again
        c.want(command("DEL", key(worker, 0)), b":1\r\n")
        c.want(command("DEL", key(worker, 0)), b":0\r\n")
        c.want(command("EXISTS", key(worker, 0)), b":0\r\n")
    except Exception as e:              # told by the main thread
        failed.append("worker %d: %s" % (worker, e))


def lmcache():
    failed = []
    threads = [threading.Thread(target=lmcache_worker, args=(w, failed)) for w in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed, failed


def lmcache_drop():
    """With resp.on_refusal=drop every refusal leaves the client in step."""
    c = Client()
    c.want(command("SET", "drop", "one"), b"+OK\r\n")
    c.want(command("SET", "drop", "two"), b"+OK\r\n")
    c.want(command("GET", "drop"), b"$3\r\none\r\n")
    c.want(command("SET", "huge", bytes(9 * MIB)), b"+OK\r\n")
    c.want(command("EXISTS", "huge"), b":0\r\n")
    c.want(command("GET", "drop"), b"$3\r\none\r\n")


def refused():
    for words in (("AUTH", "wrong"), ("AUTH", "demo", "wrong"), ("AUTH", "ghost", SECRET)):
        assert Client(False).line(command(*words)).startswith(b"-WRONGPASS ")
    c = Client(False)
    assert c.line(command("GET", "a")).startswith(b"-NOAUTH ")
    for text in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00" * 40 + b"\r\n",
                 b"*99999999999\r\n", b"PING\r\n", b"*2\r\n$-7\r\n"):
        c = Client(False)
        assert c.line(text).startswith(b"-"), text
        assert c.ended()


def in_step():
    c = Client()
    c.want(command("SET", "step", "x"), b"+OK\r\n")
    assert c.line(command("LPUSH", "a", bytes(200000))).startswith(b"-ERR unknown command")
    assert c.line(command("SET", "step", "other")).startswith(b"-CONFLICT ")
    assert c.line(command("SET", "huge", bytes(9 * MIB))).startswith(b"-TOO_LARGE ")
    c.want(command("PING"), b"+PONG\r\n")
    n = 2000                                            # pipelined, more than any queue holds
    say = b"".join(command("ECHO", i) + command("GET", "step") for i in range(n))
    threading.Thread(target=c.s.sendall, args=(say,)).start()
    for i in range(n):
        c.want(b"", command(i)[4:] + b"$1\r\nx\r\n")


def fill(k, size):
    block = (b"%s." % k.encode()) * 4096
    return (block * (size // len(block) + 1))[:size]


def big(size):
    """A value near the largest, streamed in and out."""
    c, v = Client(), fill("big", size)
    c.want(command("SET", "big", v), b"+OK\r\n")
    c.want(command("GET", "big"), b"$%d\r\n%s\r\n" % (size, v))
    c.want(command("STRLEN", "big"), b":%d\r\n" % size)
    c.want(command("GETRANGE", "big", -3, -1), b"$3\r\n%s\r\n" % v[-3:])
    c.want(command("DEL", "big"), b":1\r\n")


def stalled():
    """Half commands and slow readers end in their time; a neighbour does not notice."""
    good = Client()
    good.want(command("SET", "s", fill("s", MIB)), b"+OK\r\n")
    half = [Client() for _ in range(4)]
    for i, c in enumerate(half):
        c.s.sendall((b"*3\r\n$3\r\nSET\r\n", b"*3\r\n$3\r\nSET\r\n$1\r\nh\r\n$100000\r\nabc",
                     b"*2\r\n$3\r\nGE", b"*1\r\n$4\r\nPING")[i])
    slow = [Client() for _ in range(4)]
    for c in slow:
        c.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        c.s.sendall(command("GET", "s") * 30)
    until = time.monotonic() + 4
    while time.monotonic() < until:                     # node.stall_timeout is 2 s here
        good.want(command("GET", "s"), b"$%d\r\n%s\r\n" % (MIB, fill("s", MIB)))
        time.sleep(0.05)
    for c in half:
        assert c.ended()
    for c in slow:
        assert c.ended()
    good.want(command("EXISTS", "h"), b":0\r\n")


def hold():
    """Says a line on standard output, waits for one on standard input, then asks again."""
    c = Client()
    c.want(command("SET", "held", "yes"), b"+OK\r\n")
    print("ready", flush=True)
    sys.stdin.readline()
    c.want(command("GET", "held"), b"$3\r\nyes\r\n")


def there():
    """What was put before a restart is there after it."""
    Client().want(command("GET", "held"), b"$3\r\nyes\r\n")


def twenty():
    """For the counters: twenty EXISTS."""
    c = Client()
    for _ in range(20):
        c.want(command("EXISTS", "none"), b":0\r\n")


def draining():
    """Connections that there are read on; what would change something is refused."""
    c = Client()
    print("ready", flush=True)
    sys.stdin.readline()
    c.want(command("GET", "held"), b"$3\r\nyes\r\n")
    assert c.line(command("SET", "late", "x")).startswith(b"-DRAINING ")
    c.want(command("EXISTS", "held"), b":0\r\n")


def handed_start(listener, log):
    """larderd as systemd starts it with a socket: sys.argv[3:] is its command line."""
    pid = os.fork()
    if pid == 0:
        os.dup2(listener.fileno(), 3)
        os.set_inheritable(3, True)             # dup2 of 3 to 3 does not
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
        os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES="resp")
        os.execv(sys.argv[4], sys.argv[4:])
    for _ in range(600):
        if os.path.exists(log) and "ready" in open(log).read():
            return pid
        time.sleep(0.05)
    os.kill(pid, 9)
    raise AssertionError(open(log).read())


def handed_in():
    """A socket that outlives the node: who connects while it is away waits and is served."""
    global PORT
    listener = socket.create_server(("127.0.0.1", 0))
    PORT = listener.getsockname()[1]
    pid = handed_start(listener, sys.argv[3])
    Client().want(command("SET", "handed", "x"), b"+OK\r\n")
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    c = Client(False)
    c.s.sendall(command("AUTH", "demo", SECRET) + command("GET", "handed"))
    os.unlink(sys.argv[3])
    pid = handed_start(listener, sys.argv[3])
    c.want(b"", b"+OK\r\n$1\r\nx\r\n")
    os.kill(pid, 15)
    assert os.waitpid(pid, 0)[1] == 0


def redis_py():
    import redis

    r = redis.Redis(port=PORT, username="demo", password=SECRET.decode(), socket_timeout=30)
    v = os.urandom(2 * MIB)
    assert r.ping() and r.set("py", v) and r.get("py") == v
    assert r.set("py", v, nx=True) is None and r.set("brief", "x", ex=100)
    assert 90 < r.ttl("brief") <= 100 and r.ttl("py") == -1 and r.ttl("none") == -2
    assert r.exists("py", "none") == 1 and r.mget("py", "none") == [v, None]
    assert r.strlen("py") == len(v) and r.getrange("py", 5, 9) == v[5:10]
    with r.pipeline(transaction=False) as p:
        for i in range(100):
            p.set("many:%d" % i, "v%d" % i)
        assert all(p.execute())
    assert set(r.scan_iter(match="many:*", count=7)) == {b"many:%d" % i for i in range(100)}
    assert r.dbsize() >= 102 and r.info("replication")["role"] == "master"
    assert r.delete("py", "none", "brief") == 2 and r.get("py") is None
    try:
        r.lpush("a", "b")
        raise AssertionError("LPUSH was taken")
    except redis.ResponseError as e:
        assert "unknown command" in str(e)
    assert r.echo("x") == b"x"
    try:
        redis.Redis(port=PORT, username="demo", password="no").ping()
        raise AssertionError("a wrong secret was taken")
    except (redis.AuthenticationError, redis.ResponseError) as e:   # by version
        assert "invalid username-password pair" in str(e)


CASES = {f.__name__: f for f in (lmcache, lmcache_drop, refused, in_step, stalled, hold, there,
                                 twenty, draining, handed_in, redis_py)}
if sys.argv[2] == "big":
    big(int(sys.argv[3]))
else:
    CASES[sys.argv[2]]()
