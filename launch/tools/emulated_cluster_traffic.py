#!/usr/bin/env python3
"""Traffic between the hosts of an emulated cluster: counters of their cards, and the rates that
plain sockets reach. Started by emulated-cluster, which knows the hosts:

    emulated_cluster_traffic.py status|measure OPTION... SWITCH HOST=ADDRESS..."""

import argparse
import ctypes
import json
import multiprocessing
import os
import selectors
import signal
import socket
import statistics
import subprocess
import sys
import time

from emulated_cluster_background import (OUTSIDE, describe_phases, describe_traffic,
                                         enter_namespace, phases_of, traffic_from, varied)

HEADER_BYTES = 66  # Ethernet 14, IP 20, TCP 20 and its timestamps 12
PATIENCE = 60  # seconds without a byte after which a measurement gives up
PIECE = 256 << 10
PR_SET_PDEATHSIG = 1


def queue_of(namespace, device):
    """The token bucket of a device. It counts the frames of the wire; the device counts what the
    kernel hands it, up to 64 KiB at once."""
    result = subprocess.run(["tc", "-n", namespace, "-s", "-j", "qdisc", "show", "dev", device],
                            capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"emulated-cluster: error: no counters of {device} in {namespace}: "
                 f"{result.stderr.strip()}")
    return next(queue for queue in json.loads(result.stdout) if queue["kind"] == "tbf")


def direction(queue):
    return {"bytes": queue["bytes"], "frames": queue["packets"],
            "payload_bytes": max(0, queue["bytes"] - HEADER_BYTES * queue["packets"]),
            "dropped_frames": queue["drops"]}


def rate_mbit(queue):
    return queue["options"]["rate"] * 8 / 1e6


def status(arguments):
    cluster = arguments.switch.removesuffix("-switch")
    places = [OUTSIDE] + [f"h{number}" for number in range(1, len(arguments.hosts) + 1)]
    report, phases = [], {}
    for place, (host, address) in zip(places[1:], arguments.hosts):
        phases[host] = [phases_of(process.words[3]) for process in varied(cluster, place)]
        out = queue_of(host, "eth0")
        into = queue_of(arguments.switch, f"port{place[1:]}")
        report.append({"host": host, "address": address, "rate_mbit": rate_mbit(out),
                       "varies": [{"rate_mbit": bits / 1e6, "seconds": seconds}
                                  for bits, seconds in sum(phases[host], [])],
                       "sent": direction(out), "received": direction(into)})
    traffic = [process.words[2:] for place in places for process in traffic_from(cluster, place)]
    if arguments.json:
        flows = [{"from": source, "to": target, "rate_mbit": int(bits) / 1e6,
                  "on_seconds": int(on) / 1e3, "off_seconds": int(off) / 1e3}
                 for source, target, bits, on, off in traffic]
        print(json.dumps({"hosts": report, "traffic": flows}, indent=1))
        return
    print_counters(report)
    for host, found in phases.items():
        for one in found:
            print(f"{host} varies: {describe_phases(one)}")
    for source, target, *pace in traffic:
        print(f"{source} sends to {target}: {describe_traffic(*pace)}")


def print_counters(report):
    print(f"{'host':<14} {'Mbit/s':>8} {'':<9} {'MB':>11} {'payload MB':>11} {'frames':>11} "
          f"{'dropped':>8}")
    for host in report:
        for name in ("sent", "received"):
            values = host[name]
            first = f"{host['host']:<14} {host['rate_mbit']:>8g}" if name == "sent" else " " * 23
            print(f"{first} {name:<9} {values['bytes'] / 1e6:>11.3f} "
                  f"{values['payload_bytes'] / 1e6:>11.3f} {values['frames']:>11,} "
                  f"{values['dropped_frames']:>8,}")


class Host:
    """A process inside a host's namespace, with a connection to every other host. It does what its
    pipe says: one transfer per message."""

    def __init__(self, number, hosts, pipe):
        self.number = number
        self.pipe = pipe
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends all
        enter_namespace(hosts[number][0])
        self.peers = self.connect(hosts)

    def connect(self, hosts):
        """Sockets by number of the host: later hosts call earlier ones and say who they are."""
        listener = socket.create_server((hosts[self.number][1], 0), backlog=len(hosts))
        self.pipe.send(listener.getsockname()[1])
        ports = self.pipe.recv()
        peers = {}
        for other in range(self.number):
            peers[other] = socket.create_connection((hosts[other][1], ports[other]), PATIENCE)
            peers[other].sendall(bytes([self.number]))
        listener.settimeout(PATIENCE)
        while len(peers) < len(hosts) - 1:
            caller = listener.accept()[0]
            peers[caller.recv(1)[0]] = caller
        for peer in peers.values():
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.setblocking(False)
        return peers

    def transfer(self, sends, receives):
        """Sends and receives so many bytes per host, all at once; returns when all is done."""
        sends, receives = dict(sends), dict(receives)
        zeros, space = memoryview(bytes(PIECE)), bytearray(PIECE)
        with selectors.DefaultSelector() as selector:

            def wanted(other):
                return (selectors.EVENT_WRITE if sends.get(other) else 0) | (
                    selectors.EVENT_READ if receives.get(other) else 0)

            for other in set(sends) | set(receives):
                selector.register(self.peers[other], wanted(other), other)
            while selector.get_map():
                ready = selector.select(PATIENCE)
                if not ready:
                    raise TimeoutError(f"host {self.number + 1}: nothing moved for {PATIENCE} s")
                for key, events in ready:
                    other, before = key.data, key.events
                    if events & selectors.EVENT_WRITE:
                        sends[other] -= key.fileobj.send(zeros[:min(PIECE, sends[other])])
                    if events & selectors.EVENT_READ:
                        count = key.fileobj.recv_into(space, min(PIECE, receives[other]))
                        if count == 0:
                            raise ConnectionError(f"host {other + 1} is gone")
                        receives[other] -= count
                    if wanted(other) == 0:
                        selector.unregister(key.fileobj)
                    elif wanted(other) != before:
                        selector.modify(key.fileobj, wanted(other), other)

    def all_to_all(self, start, size):
        """Seconds from `start`, which is the same instant for all hosts."""
        everyone = {other: size for other in self.peers}
        time.sleep(max(0.0, start - time.monotonic()))
        self.transfer(everyone, everyone)
        return time.monotonic() - start

    def ping(self, other, size):
        start = time.monotonic()
        self.transfer({other: size}, {})
        self.transfer({}, {other: size})
        return (time.monotonic() - start) / 2

    def pong(self, other, size):
        self.transfer({}, {other: size})
        self.transfer({other: size}, {})

    def serve(self):
        while True:
            operation, values = self.pipe.recv()
            self.pipe.send(getattr(self, operation)(*values))


def run_host(number, hosts, pipe):
    try:
        Host(number, hosts, pipe).serve()
    except (EOFError, BrokenPipeError):
        pass
    except Exception as error:  # whatever it is, the parent reports it
        pipe.send(error)


class Cluster:
    """One process per host, told what to do through pipes, which no emulated cable slows down."""

    def __init__(self, hosts):
        context = multiprocessing.get_context("fork")
        self.pipes = []
        for number in range(len(hosts)):
            pipe, far_end = context.Pipe()
            context.Process(target=run_host, args=(number, hosts, far_end), daemon=True).start()
            self.pipes.append(pipe)
        ports = [self.answer(number) for number in range(len(hosts))]
        for pipe in self.pipes:
            pipe.send(ports)

    def answer(self, number):
        value = self.pipes[number].recv()
        if isinstance(value, Exception):
            sys.exit(f"emulated-cluster: error: the measurement failed: {value}")
        return value

    def all_to_all(self, size):
        """Seconds of every host."""
        start = time.monotonic() + 0.02
        for pipe in self.pipes:
            pipe.send(("all_to_all", (start, size)))
        return [self.answer(number) for number in range(len(self.pipes))]

    def one_way(self, other, size):
        """Seconds from the first host to another: half a round trip."""
        self.pipes[other].send(("pong", (0, size)))
        self.pipes[0].send(("ping", (other, size)))
        seconds = self.answer(0)
        self.answer(other)
        return seconds


def median_of(repeats, run):
    """All results but the first, in which connections still find their speed."""
    return [run() for _ in range(repeats + 1)][1:]


def default_size(rates, peers):
    """Half a second of the slowest card, but well above the burst."""
    return int(min(16 << 20, max(1 << 20, min(rates) * 1e6 / 8 / 2 / peers)))


def measure(arguments):
    hosts = arguments.hosts
    rates = [rate_mbit(queue_of(host, "eth0")) for host, _ in hosts]
    peers = len(hosts) - 1
    size = arguments.size or default_size(rates, peers)
    cluster = Cluster(hosts)
    tiny = statistics.median(median_of(20, lambda: cluster.one_way(1, 1)))
    ping_pong = [None] + [
        statistics.median(median_of(arguments.repeats, lambda: cluster.one_way(other, size)))
        for other in range(1, len(hosts))]
    rounds = median_of(arguments.repeats, lambda: cluster.all_to_all(size))
    totals = sorted(max(times) for times in rounds)
    out = [statistics.median(times[number] for times in rounds) for number in range(len(hosts))]

    def mbit(count, seconds):
        return count * 8 / seconds / 1e6

    report = {
        "size_bytes": size, "repeats": arguments.repeats, "one_byte_us": tiny * 1e6,
        "hosts": [{"host": host, "rate_mbit": rate,
                   "ping_pong_mbit": mbit(size, seconds) if seconds else None,
                   "all_to_all_mbit": mbit(size * peers, total)}
                  for (host, _), rate, seconds, total in zip(hosts, rates, ping_pong, out)],
        "all_to_all_ms": {"median": statistics.median(totals) * 1e3, "min": totals[0] * 1e3,
                          "max": totals[-1] * 1e3},
        # The slowest card bounds them all: everyone sends to it and receives from it.
        "all_to_all_share": mbit(size * peers, statistics.median(totals)) / min(rates),
    }
    print(json.dumps(report, indent=1) if arguments.json else table_of(report))


def table_of(report):
    lines = [f"{report['size_bytes'] / 1e6:.3f} MB to each peer, median of {report['repeats']}; "
             "payload in Mbit/s",
             f"{'host':<14} {'rate':>9} {'with h1':>9} {'all-to-all':>11}"]
    for host in report["hosts"]:
        ping_pong = f"{host['ping_pong_mbit']:.1f}" if host["ping_pong_mbit"] else "-"
        lines.append(f"{host['host']:<14} {host['rate_mbit']:>9g} {ping_pong:>9} "
                     f"{host['all_to_all_mbit']:>11.1f}")
    times = report["all_to_all_ms"]
    lines += [f"all-to-all: {times['median']:.1f} ms ({times['min']:.1f} - {times['max']:.1f}), "
              f"{report['all_to_all_share']:.2f} of the slowest rate",
              f"one byte: {report['one_byte_us']:.0f} us"]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    for command in (status, measure):
        options = commands.add_parser(command.__name__)
        options.set_defaults(command=command)
        options.add_argument("--json", action="store_true")
        if command is measure:
            options.add_argument("--size", type=int)
            options.add_argument("--repeats", type=int, default=5)
        options.add_argument("switch")
        options.add_argument("hosts", nargs="+", type=lambda text: tuple(text.split("=")))
    arguments = parser.parse_args()
    try:
        arguments.command(arguments)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
