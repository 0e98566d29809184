#!/usr/bin/env python3
"""Processes that change the network of an emulated cluster while programs run on it: a card's rate
that varies, and traffic of others. Each lives inside a namespace of the cluster, so it ends with
it; its command line says all about it, so nothing is kept anywhere else. Started by
emulated-cluster:

    emulated_cluster_background.py vary CLUSTER HOST BITS:MILLISECONDS,...
    emulated_cluster_background.py traffic CLUSTER FROM TO BITS ON OFF   (milliseconds; 0 0: always)
    emulated_cluster_background.py stop-vary CLUSTER HOST
    emulated_cluster_background.py stop-traffic CLUSTER FROM [TO]

Hosts are h1, h2, ...; FROM or TO may be `outside`, other hosts on the same switch."""

import collections
import contextlib
import ctypes
import errno
import itertools
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time

CLONE_NEWNET = 0x40000000
OUTSIDE = "outside"
ETHERTYPE = b"\x88\xb5"  # for experiments (IEEE 802): whoever receives such a frame drops it
# Numbers of linux/netlink.h, rtnetlink.h and pkt_sched.h.
NETLINK_HEADER_BYTES, NEW_QDISC, REQUEST_WITH_ANSWER, ROOT = 16, 36, 0x5, 0xffffffff
QDISC_KIND, QDISC_OPTIONS, TBF_PARAMETERS, TBF_RATE, TBF_BURST = 1, 2, 1, 4, 6
ETHERNET_LAYER = 1
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SO_SNDBUFFORCE = 32
HIGHEST_PRIORITY = -20
PATIENCE = 3  # seconds for a process to end by itself
LEAST_SLEEP = 0.001
MOST_ARREARS = 0.1  # seconds of sending that a busy machine may let slip and still be made up for
LARGEST_SHARE = 0.05  # of a phase that may pass at once when it starts, before a warning says so

Process = collections.namedtuple("Process", "id words")  # words after the program's name


class Refusal(Exception):
    """The state of the cluster or the machine does not allow a command."""


def enter_namespace(namespace):
    """Moves this thread into the network of a namespace."""
    with open(f"/run/netns/{namespace}", "rb") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")


def namespace_of(cluster, place):
    return f"{cluster}-switch" if place == OUTSIDE else f"{cluster}-{place}"


def identity(path):
    status = os.stat(path)
    return status.st_dev, status.st_ino


def presence(cluster, place):
    """A function that tells whether the namespace is still there: sockets and processes keep its
    network alive even after that."""
    path = f"/run/netns/{namespace_of(cluster, place)}"
    before = identity(path)

    def is_up():
        with contextlib.suppress(FileNotFoundError):
            return identity(path) == before
        return False

    return is_up


def running(namespace):
    """The processes of this file in a namespace."""
    here, found = identity(f"/run/netns/{namespace}"), []
    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it has just ended
            if identity(f"/proc/{process}/ns/net") != here:
                continue
            with open(f"/proc/{process}/cmdline", encoding="utf-8", errors="replace") as file:
                words = file.read().split("\0")[:-1]
            if len(words) > 2 and os.path.basename(words[1]) == os.path.basename(__file__):
                found.append(Process(int(process), words[2:]))
    return sorted(found, key=lambda process: process.words)


def phases_of(text):
    """(bits per second, seconds) of each."""
    pairs = (phase.split(":") for phase in text.split(","))
    return [(int(bits), int(milliseconds) / 1e3) for bits, milliseconds in pairs]


def varied(cluster, host):
    """The processes that vary a card's rate: one at most."""
    return [process for process in running(namespace_of(cluster, host))
            if process.words[0] == "vary"]


def traffic_from(cluster, source, target=None):
    """The processes that send from `source`, to one target or to all."""
    return [process for process in running(namespace_of(cluster, source))
            if process.words[0] == "traffic" and target in (None, process.words[3])]


def describe_phases(phases):
    return ", ".join(f"{bits / 1e6:g} Mbit/s for {seconds:g} s" for bits, seconds in phases)


def describe_traffic(bits, on, off):
    return f"{int(bits) / 1e6:g} Mbit/s" + (
        f", {int(on) / 1e3:g} s on, {int(off) / 1e3:g} s off" if int(on) else "")


def settings_of(cluster, host):
    """The settings that `up` gave a card: rate, burst, queue and mtu, in bits per second and bytes.
    They are the alias of the card."""
    result = subprocess.run(["ip", "-n", f"{cluster}-{host}", "-o", "link", "show", "dev", "eth0"],
                            capture_output=True, text=True, check=False)
    found = dict(re.findall(r"\b(rate|burst|queue|mtu)=([0-9]+)\b", result.stdout))
    if len(found) != 4:
        raise Refusal(f"the card of {cluster}-{host} does not say how it was made; make the "
                      "cluster anew: emulated-cluster up --replace")
    return {name: int(value) for name, value in found.items()}


class Card:
    """The token buckets at both ends of a host's cable. Their changes are messages to the kernel
    (man 7 rtnetlink), because a start of `tc` takes its time while programs keep the cores busy."""

    def __init__(self, cluster, host, settings):
        self.name, self.settings = f"{cluster}-{host}", settings
        self.ends = [self.open(cluster, OUTSIDE, f"port{host[1:]}"),
                     self.open(cluster, host, "eth0")]

    @staticmethod
    def open(cluster, place, device):
        """A socket stays in the namespace that it was made in, and this thread in the last one."""
        enter_namespace(namespace_of(cluster, place))
        kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        kernel.bind((0, 0))
        return kernel, socket.if_nametoindex(device)

    def set_rate(self, bits):
        """The packets that wait stay."""
        for kernel, device in self.ends:
            kernel.send(bucket_message(device, bits // 8, self.settings))
        for kernel, _ in self.ends:
            error, = struct.unpack_from("=i", kernel.recv(4096), NETLINK_HEADER_BYTES)
            if error != 0:
                raise Refusal(f"cannot change the rate of {self.name}: {os.strerror(-error)}")


def attribute(kind, value):
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def bucket_message(device, rate, settings):
    """`tc qdisc change dev DEVICE root tbf rate RATE burst BURST limit QUEUE`, in bytes."""
    speed = struct.pack("=BBHhHI", 0, ETHERNET_LAYER, 0, 0, 0, min(rate, (1 << 32) - 1))
    no_peak, replaced_by_burst = bytes(len(speed)), bytes(8)
    parameters = speed + no_peak + struct.pack("=I", settings["queue"]) + replaced_by_burst
    options = (attribute(TBF_PARAMETERS, parameters) +
               attribute(TBF_RATE, struct.pack("=Q", rate)) +
               attribute(TBF_BURST, struct.pack("=I", settings["burst"])))
    body = (struct.pack("=BxHiIII", socket.AF_UNSPEC, 0, device, 0, ROOT, 0) +
            attribute(QDISC_KIND, b"tbf\0") + attribute(QDISC_OPTIONS, options))
    header = struct.pack("=IHHII", NETLINK_HEADER_BYTES + len(body), NEW_QDISC,
                         REQUEST_WITH_ANSWER, 0, 0)
    return header + body


def sleep_until(instant):
    time.sleep(max(0.0, instant - time.monotonic()))


def told_to_end(instant):
    """Waits until then, or for a signal of `ENDINGS`, which are blocked elsewhere."""
    return signal.sigtimedwait(ENDINGS, max(0.0, instant - time.monotonic())) is not None


def detach(work):
    """Runs `work` in a process that no terminal ends and that holds no pipe of a caller. It gets a
    function to call when it is under way; its errors until then are those of this command."""
    reader, writer = os.pipe()
    if os.fork() != 0:
        os.close(writer)
        with os.fdopen(reader) as pipe:
            error = pipe.read()
        if error != "ready":
            raise Refusal(error or "the process in the background was killed")
        return
    os.setsid()
    with contextlib.suppress(OSError):  # a network does not wait for cores that programs keep busy
        os.setpriority(os.PRIO_PROCESS, 0, HIGHEST_PRIORITY)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    os.closerange(3, writer)
    os.closerange(writer + 1, os.sysconf("SC_OPEN_MAX"))

    def say(text):
        nonlocal writer
        if writer is not None:
            os.write(writer, text.encode())
            os.close(writer)
            writer = None

    try:
        work(lambda: say("ready"))
    except Exception as error:  # whatever it is, the command reports it
        say(str(error))
    os._exit(0)


def warn_of_bursts(phases, settings):
    """A bucket is full after a change, as if the card had been idle."""
    bits, seconds = min(phases, key=lambda phase: phase[0] * phase[1])
    share = settings["burst"] * 8 / (bits * seconds)
    if share > LARGEST_SHARE:
        print(f"emulated-cluster: warning: {settings['burst']} bytes pass at once after each "
              f"change, {100 * share:.0f} % of all that {bits / 1e6:g} Mbit/s carry in "
              f"{seconds:g} s; a smaller --burst of up makes the phase sharper", file=sys.stderr)


def vary(cluster, host, text):
    phases = phases_of(text)
    for process in varied(cluster, host):
        raise Refusal(f"vary: {cluster}-{host} varies already ("
                      f"{describe_phases(phases_of(process.words[3]))}); end that first: "
                      f"emulated-cluster vary {host} --stop")
    settings = settings_of(cluster, host)
    warn_of_bursts(phases, settings)

    def work(ready):
        card, is_up = Card(cluster, host, settings), presence(cluster, host)
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
        try:
            begin = time.monotonic()
            for bits, seconds in itertools.cycle(phases):
                end = begin + seconds
                if time.monotonic() < end:  # a machine that stood still may have missed it
                    card.set_rate(bits)
                    ready()
                if told_to_end(end) or not is_up():
                    break
                begin = end
        finally:
            card.set_rate(settings["rate"])

    detach(work)
    print(f"{cluster}-{host} varies: {describe_phases(phases)}, over and over")


def packet_socket(cluster, place, device):
    """A socket for whole frames of a device, whose address it knows."""
    enter_namespace(namespace_of(cluster, place))
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)  # 0: it receives nothing
    packets.bind((device, 0))
    return packets


def send_frames(packets, frame, bits, begin, seconds, is_up):
    """Sends at a rate from an instant on, as long as the cluster is up. Full queues drop frames."""
    pause = len(frame) * 8 / bits
    sent, passed = 0, 0.0
    while passed < seconds and is_up():
        passed = min(time.monotonic() - begin, seconds)
        due = int(passed / pause)
        for _ in range(sent := max(sent, due - int(MOST_ARREARS / pause) - 1), due):
            try:
                packets.send(frame)
            except OSError as error:
                if error.errno not in (errno.ENOBUFS, errno.EAGAIN):
                    raise
        sent = due
        sleep_until(min(begin + seconds, max(begin + (sent + 1) * pause,
                                             time.monotonic() + LEAST_SLEEP)))


def traffic(cluster, source, target, bits, on, off):
    for _ in traffic_from(cluster, source, target):
        raise Refusal(f"traffic: {source} sends to {target} already; end that first: "
                      f"emulated-cluster traffic {source} --to {target} --stop")
    inside = target if source == OUTSIDE else source
    settings = settings_of(cluster, inside)

    def work(ready):
        far_device = "bridge" if target == OUTSIDE else "eth0"
        with packet_socket(cluster, target, far_device) as far_end:
            address = far_end.getsockname()[4]
        packets = packet_socket(cluster, source,
                                f"port{target[1:]}" if source == OUTSIDE else "eth0")
        packets.setblocking(False)
        # As long as a queue has room, its frames count as the socket's.
        packets.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE,
                           max(1 << 20, 4 * settings["queue"]))
        frame = address + packets.getsockname()[4] + ETHERTYPE + bytes(settings["mtu"])
        is_up, start = presence(cluster, source), time.monotonic()
        ready()
        seconds, period = int(on) / 1e3 or float("inf"), (int(on) + int(off)) / 1e3
        for number in itertools.count():
            sleep_until(start + number * period)
            if not is_up():
                break
            send_frames(packets, frame, int(bits), start + number * period, seconds, is_up)

    detach(work)
    print(f"{source} sends to {target}: {describe_traffic(bits, on, off)}")


def end(processes):
    """Politely first."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.id, number)
        limit = time.monotonic() + PATIENCE
        while processes and time.monotonic() < limit:
            processes = [process for process in processes if is_alive(process)]
            time.sleep(0.01)


def is_alive(process):
    """A process that has ended but waits for its parent has no command line any more."""
    with contextlib.suppress(OSError), open(f"/proc/{process.id}/cmdline", "rb") as file:
        return file.read() != b""
    return False


def stop_vary(cluster, host):
    settings, processes = settings_of(cluster, host), varied(cluster, host)
    end(processes)
    Card(cluster, host, settings).set_rate(settings["rate"])  # also after one that was killed
    print(f"{cluster}-{host} {'no longer varies' if processes else 'does not vary'}: "
          f"{settings['rate'] / 1e6:g} Mbit/s")


def stop_traffic(cluster, source, target=None):
    processes = traffic_from(cluster, source, target)
    end(processes)
    targets = ", ".join(process.words[3] for process in processes)
    print(f"{source} no longer sends to {targets}" if processes else
          f"{source} sends nothing" + (f" to {target}" if target else ""))


def main():
    commands = {"vary": vary, "traffic": traffic, "stop-vary": stop_vary,
                "stop-traffic": stop_traffic}
    try:
        commands[sys.argv[1]](*sys.argv[2:])
    except Refusal as refusal:
        print(f"emulated-cluster: error: {refusal}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
