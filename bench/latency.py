#!/usr/bin/env python3
"""Steps of zest train over ranks between which packets take time, beside the cost model of docs/scaling.md.

    sudo bench/latency.py --delays 0,0.1,1,10,100 --ranks 2

Each rank runs in a network namespace of its own. Their only network is a tun device each, and this program carries the
packets from one to the other, each --delays milliseconds later. So no kernel module is needed, only root, /dev/net/tun,
`ip` and Open MPI. mpirun starts the ranks through this program, too (ZEST_LATENCY_AGENT), and is told to use TCP alone.

Shown are the round trip of a small packet (half of it is the latency), the seconds of a step (the fastest ten in a row), what that is
beyond the step without a delay, and what the model says: one latency for a gathering, however many ranks there are,
because each sends to all others at once. Everything that was made is removed at the end."""
import argparse
import ctypes
import fcntl
import heapq
import json
import os
import select
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

NET, CLONE_NEWNET, TUNSETIFF, IFF_TUN, IFF_NO_PI = "10.77.0.", 0x40000000, 0x400454CA, 1, 0x1000
libc = ctypes.CDLL(None, use_errno=True)


def name(i):
    return f"zest{os.environ['ZEST_LATENCY_ID']}-{i}"


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def enter(path):
    with open(path) as space:
        if libc.setns(space.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), path)


def open_tun(i):
    """A tun device in namespace i, opened from outside of it."""
    enter(f"/run/netns/{name(i)}")
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", b"zest0", IFF_TUN | IFF_NO_PI))
    enter(home)
    ip("-n", name(i), "addr", "add", f"{NET}{i + 1}/24", "dev", "zest0")
    ip("-n", name(i), "link", "set", "zest0", "mtu", "9000", "up")
    ip("-n", name(i), "link", "set", "lo", "up")
    return tun


class Link(threading.Thread):
    """Carries packets; those of one sender stay in order."""

    def __init__(self, tuns):
        super().__init__(daemon=True)
        self.tuns, self.delay, self.ends = tuns, 0.0, False

    def run(self):
        waiting, number = [], 0
        while not self.ends:
            left = max(0.0, waiting[0][0] - time.monotonic()) if waiting else 0.1
            for tun in select.select(self.tuns, [], [], left)[0]:
                packet = os.read(tun, 65536)
                to = packet[19] - 1  # the last byte of an IPv4 destination
                if packet[0] >> 4 == 4 and packet[16:19] == bytes([10, 77, 0]) and to < len(self.tuns):
                    heapq.heappush(waiting, (time.monotonic() + self.delay, number, to, packet))
                    number += 1
            while waiting and waiting[0][0] <= time.monotonic():
                _, _, to, packet = heapq.heappop(waiting)
                os.write(self.tuns[to], packet)


def agent():
    """What mpirun takes for ssh: HOST COMMAND... in the namespace of that host, under a name of its own."""
    number = int(sys.argv[1].rsplit(".", 1)[1]) - 1
    command = f"hostname node{number}; exec " + " ".join(sys.argv[2:])
    os.execvp("ip", ["ip", "netns", "exec", name(number), "unshare", "--uts", "sh", "-c", command])


def fast_step(log):
    """Seconds of a step, of the fastest ten in a row: other work on the machine only makes steps longer. (Single steps
    say nothing: ranks that began at different times take a short and a long one in turn.)"""
    times = [entry["seconds"] for entry in map(json.loads, open(log)) if entry.get("kind") == "step"][2:]
    return min((b - a) / 10 for a, b in zip(times, times[10:]))


def measure(o, work, ranks):
    run = os.path.join(work, "run")
    subprocess.run(["rm", "-rf", run], check=True)
    hosts = ",".join(f"{NET}{i + 1}" for i in range(ranks))
    mca = {"plm_rsh_agent": os.path.abspath(__file__), "btl": "self,tcp", "pml": "ob1", "btl_tcp_if_include": NET + "0/24",
           "oob_tcp_if_include": NET + "0/24", "hwloc_base_binding_policy": "none", "btl_base_warn_component_unused": "0"}
    words = [w for key, value in mca.items() for w in ("--mca", key, value)]
    zest = [os.path.abspath(o.zest), "train", "--model", os.path.abspath(o.model), "--task", os.path.abspath(o.task),
            "--shots", "32", "--batch", str(o.batch), "--k", str(o.k), "--steps", str(o.steps), "--eval-every", "0",
            "--dev-size", "2", "--test-size", "2", "--seed", "1", "--out", run, "--quiet"]
    start = ["ip", "netns", "exec", name(0), "unshare", "--uts", "sh", "-c", 'hostname node0; exec "$@"', "sh"]
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_NUM_THREADS": "1",
                   "ZEST_LATENCY_AGENT": "1"}
    export = ["-x", "OMP_NUM_THREADS"]
    command = start + ["mpirun", "-n", str(ranks), "--host", hosts, *words, *export, *zest]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, timeout=600)
    return fast_step(os.path.join(run, "log.jsonl"))


def open_socket(i):
    enter(f"/run/netns/{name(i)}")
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    enter(home)
    made.bind((NET + str(i + 1), 4444))
    made.settimeout(10)
    return made


def round_trip():
    """Seconds of a small packet there and back, the median of ten."""
    here, there, times = open_socket(0), open_socket(1), []
    for _ in range(10):
        began = time.monotonic()
        here.sendto(b"?", (NET + "2", 4444))
        there.sendto(*there.recvfrom(16))
        here.recv(16)
        times.append(time.monotonic() - began)
    here.close()
    there.close()
    return statistics.median(times)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--delays", default="0,0.1,1,10,100", help="milliseconds, one way")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--zest", default="./zest")
    p.add_argument("--model", default="examples/roberta-tiny")
    p.add_argument("--task", default="examples/reviews/reviews.task")
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--k", type=int, default=5)
    p.add_argument("--steps", type=int, default=40)
    o = p.parse_args()
    os.environ["ZEST_LATENCY_ID"] = str(os.getpid())
    link = None
    try:
        for i in range(o.ranks):
            ip("netns", "add", name(i))
        link = Link([open_tun(i) for i in range(o.ranks)])
        link.start()
        print(f"{'delay ms':>9} {'trip ms':>9} {'step s':>9} {'beyond s':>9} {'model s':>9}", flush=True)
        with tempfile.TemporaryDirectory() as work:
            base = None
            for delay in map(float, o.delays.split(",")):
                link.delay = delay / 1000
                trip, step = round_trip(), measure(o, work, o.ranks)
                if base is None:
                    base, first = step, trip
                expected = (trip - first) / 2
                print(f"{delay:9g} {1000 * trip:9.2f} {step:9.4f} {step - base:9.4f} {expected:9.4f}", flush=True)
    finally:
        if link:
            link.ends = True
            link.join()
        for i in range(o.ranks):
            subprocess.run(["ip", "netns", "del", name(i)], check=False)


if __name__ == "__main__":
    if os.environ.get("ZEST_LATENCY_AGENT"):
        agent()
    home = f"/proc/self/fd/{os.open('/proc/self/ns/net', os.O_RDONLY)}"  # the namespace to come back to
    sys.exit(main())
