#!/usr/bin/env python3
"""Networks of launch/tools/emulated-cluster that change while programs run: cards whose rate varies
and traffic of others, seen by plain sockets through the cards."""

import contextlib
import glob
import json
import os
import re
import shlex
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "../../launch/tools"))
from emulated_cluster_background import enter_namespace
from emulated_cluster_support import (NAME, NET, TIMEOUT, WHY_NO_CLUSTER, OneClusterTest, Refusals,
                                      delete_namespace, main, namespaces, run, wait_for)

PAGE = os.path.join(HERE, "../../docs/emulated-cluster.md")
SECTION = "## Networks that change"
OTHER_NAME, OTHER_NET = f"{NAME}-other", "198.18.76"
PAYLOAD_SHARE = 1448 / 1514  # of a full frame over TCP with timestamps
ETHERTYPE = 0x88b5  # of traffic
WINDOW = 0.02  # seconds, in which arrivals are counted
TRIES = 3  # other work on the machine may spoil a measurement


def background(*words):
    """Processes that work for a cluster in the background and have these words."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
            line = file.read().split("\0")
            if any(word.endswith("emulated_cluster_background.py") for word in line) and (
                    set(words) <= set(line)):
                found.append(int(path.split("/")[2]))
    return found


def connect(source, target):
    """Two connected sockets of hosts, given as numbers. A thread may be in another namespace than
    its process."""
    made = []

    def work():
        enter_namespace(f"{NAME}-h{target}")
        with socket.create_server((f"{NET}.{target}", 0)) as listener:
            enter_namespace(f"{NAME}-h{source}")
            sender = socket.socket()
            # Less than the default queue, so that it never overflows by this connection alone.
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 << 10)
            sender.connect(listener.getsockname())
            made.extend((sender, listener.accept()[0]))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(TIMEOUT)
    return made


def hurry():
    """Lets this thread see what happens when it does, however busy the machine is."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)


class Flow:
    """Sends from one host to another as fast as it goes, for so many seconds."""

    def __init__(self, source, target, seconds):
        self.sender, self.receiver = connect(source, target)
        self.end = time.monotonic() + seconds
        self.arrivals = []  # (instant, bytes)
        self.threads = [threading.Thread(target=work) for work in (self.send, self.receive)]
        for thread in self.threads:
            thread.start()

    def send(self):
        hurry()
        with self.sender:
            while time.monotonic() < self.end:
                self.sender.send(bytes(16 << 10))

    def receive(self):
        hurry()
        space = bytearray(64 << 10)
        with self.receiver:
            while count := self.receiver.recv_into(space):
                self.arrivals.append((time.monotonic(), count))

    def join(self):
        """The arrivals, once all have come."""
        for thread in self.threads:
            thread.join(TIMEOUT)
        return [arrival for arrival in self.arrivals if arrival[0] < self.end]


def mbit_of(arrivals):
    """From the first arrival, which starts the clock, to the last."""
    return 8e-6 * sum(count for _, count in arrivals[1:]) / (arrivals[-1][0] - arrivals[0][0])


def phases_in(arrivals, border):
    """(begin, length, Mbit/s in the middle) of each while with a rate above or below the border,
    but the first and the last, which may have been cut off."""
    begin = arrivals[0][0]
    windows = [0] * (1 + int((arrivals[-1][0] - begin) / WINDOW))
    for instant, count in arrivals:
        windows[int((instant - begin) / WINDOW)] += 8e-6 * count / WINDOW
    # A single window on the other side of the border is noise.
    sides = [statistics.median(windows[max(0, i - 1):i + 2]) > border for i in range(len(windows))]
    edges = [i for i in range(1, len(sides)) if sides[i] != sides[i - 1]]
    return [(begin + WINDOW * first, WINDOW * (last - first),
             statistics.mean(windows[first + 3:last - 3] or [0]))
            for first, last in zip(edges, edges[1:])]


class WordsTest(Refusals):
    def test_bad_words(self):
        vary = ["vary", "h1", "--rates"]
        traffic = ["traffic", "h1", "--to", "h2", "--rate", "30mbit"]
        for words, parts in (
                (["vary"], ["host is missing", "h1"]),
                (["vary", "h1"], ["--rates or --stop is missing"]),
                (["vary", "one", "--stop"], ["host 'one'", "h1, h2"]),
                (["vary", "h0", "--stop"], ["host 'h0'", "h1, h2"]),
                (["vary", "outside", "--stop"], ["host 'outside'", "h1, h2"]),
                (["vary", "h1", "h2", "--stop"], ["'h2'", "--rates, --stop, --name"]),
                (["vary", "h1", "--period", "5s"], ["'--period'", "--rates, --stop, --name"]),
                (["vary", "h1", "--rates"], ["--rates needs a value"]),
                ([*vary, "5mbit:1s"], ["--rates '5mbit:1s'", "two rates", "50mbit:4s,5mbit:1s"]),
                ([*vary, "5mbit:1s,"], ["--rates ''", "50mbit:4s,5mbit:1s"]),
                ([*vary, "50mbit,5mbit"], ["--rates '50mbit'", "time", "50mbit:4s,5mbit:1s"]),
                ([*vary, "fast:4s,5mbit:1s"], ["--rates 'fast'", "200mbit"]),
                ([*vary, "50mbit:4s,5kbit:1s"], ["--rates '5kbit'", "100kbit to 100gbit"]),
                ([*vary, "50mbit:4,5mbit:1s"], ["--rates '50mbit:4'", "'4'", "500ms"]),
                ([*vary, "50mbit:4s,5mbit:99ms"], ["'99ms'", "100ms to 3600s"]),
                ([*vary, "50mbit:3601s,5mbit:1s"], ["'3601s'", "100ms to 3600s"]),
                ([*vary, "50mbit:4s,5mbit:1s", "--stop"], ["--stop", "--name"]),
                (["traffic"], ["who sends is missing", "outside"]),
                (["traffic", "h1"], ["--to is missing", "outside"]),
                (["traffic", "h1", "--to", "h2"], ["--rate is missing", "30mbit"]),
                (["traffic", "all", "--stop"], ["FROM 'all'", "h1, h2", "outside"]),
                (["traffic", "h1", "--to", "all"], ["--to 'all'", "h1, h2", "outside"]),
                (["traffic", "h1", "--to", "h1", "--rate", "30mbit"], ["--to 'h1'", "another"]),
                (["traffic", "h1", "--to", "h2", "--rate", "30"], ["--rate '30'", "200mbit"]),
                ([*traffic, "--on", "1s"], ["--on and --off"]),
                ([*traffic, "--on", "1"], ["--on '1'", "500ms"]),
                ([*traffic, "--off", "1.0001s"], ["--off '1.0001s'", "500ms"]),
                ([*traffic, "--on", "9ms", "--off", "1s"], ["--on '9ms'", "10ms to 3600s"]),
                ([*traffic, "--stop"], ["--stop", "--to and --name"]),
                ([*traffic, "--burst", "3"], ["'--burst'", "--on, --off"])):
            with self.subTest(" ".join(words)):
                self.assert_refused(run(*words), *parts)


class NetworkTest(OneClusterTest):
    def report(self):
        return json.loads(self.done("status", "--json"))

    def buckets(self, number):
        """Options of the token buckets at both ends of a host's cable."""
        found = []
        for namespace, device in ((f"h{number}", "eth0"), ("switch", f"port{number}")):
            result = subprocess.run(["tc", "-n", f"{NAME}-{namespace}", "-r", "-j", "qdisc", "show",
                                     "dev", device], capture_output=True, text=True, check=True)
            found.append(json.loads(result.stdout)[0]["options"])
        return found

    def rates(self, number):
        return [bucket["rate"] * 8 / 1e6 for bucket in self.buckets(number)]

    def tcp_counters(self, number):
        """Those of a host's kernel, by name."""
        names, values = subprocess.run(
            ["ip", "netns", "exec", f"{NAME}-h{number}", "grep", "^Tcp:", "/proc/net/snmp"],
            capture_output=True, text=True, check=True).stdout.splitlines()
        return dict(zip(names.split()[1:], map(int, values.split()[1:])))

    def check_in_tries(self, check):
        """The first that holds counts."""
        for left in reversed(range(TRIES)):
            try:
                return check()
            except AssertionError:
                if left == 0:
                    raise


class VaryTest(NetworkTest):
    def check_phases(self, phases, expected):
        """`expected`: seconds of a phase by its rate in Mbit/s, headers included."""
        self.assertGreaterEqual(len(phases), 4)
        for _, length, mbit in phases:
            rate = min(expected, key=lambda rate: abs(rate - mbit))
            self.assertLess(abs(mbit / (PAYLOAD_SHARE * rate) - 1), 0.08, phases)
            self.assertLess(abs(length - expected[rate]), 0.07, phases)
        # From one to the next of its kind is a period, however many have passed.
        period = sum(expected.values())
        for first in phases[:2]:
            for begin, _, _ in phases[phases.index(first)::2]:
                periods = (begin - first[0]) / period
                self.assertLess(abs(periods - round(periods)), 0.07, phases)

    def test_phases_through_the_card(self):
        self.done("up", "2", "--rate", "20mbit,80mbit", "--burst", "4kb")
        self.done("vary", "h1", "--rates", "40mbit:0.4s,4mbit:300ms")
        for hosts in ((1, 2), (2, 1)):  # a card has two directions
            self.check_in_tries(lambda hosts=hosts: self.check_phases(
                phases_in(Flow(*hosts, 2.2).join(), 12), {40: 0.4, 4: 0.3}))

    def test_the_rate_of_up_comes_back(self):
        self.done("up", "2", "--rate", "30mbit,20mbit", "--burst", "64kb", "--queue", "512kb")
        before = self.buckets(1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            with self.subTest(number):
                self.assertIn("40 Mbit/s for 30 s", self.done("vary", "h1", "--rates",
                                                              "40mbit:30s,4mbit:30s"))
                self.assertEqual(self.rates(1), [40, 40])
                for bucket, own in zip(self.buckets(1), before):
                    self.assertEqual(bucket["limit"], own["limit"])
                    self.assertLess(abs(bucket["burst"] / own["burst"] - 1), 0.01)
                os.kill(*background("vary", NAME, "h1"), number)
                wait_for(lambda: not background("vary", NAME, "h1"), "the process to end")
                if number == signal.SIGKILL:  # which leaves it as it is
                    self.assertEqual(self.rates(1), [40, 40])
                    self.assertEqual(self.report()["hosts"][0]["varies"], [])
                    self.assertIn("does not vary: 30 Mbit/s", self.done("vary", "h1", "--stop"))
                self.assertEqual(self.buckets(1), before)

    def test_one_card_varies_once_and_others_beside_it(self):
        self.done("up", "2", "--rate", "30mbit")
        result = self.own("vary", "h1", "--rates", "40mbit:30s,4mbit:2.5s")
        self.assertIn("warning: 131072 bytes pass at once after each change, 10 %", result.stderr)
        result = self.own("vary", "h2", "--rates", "5mbit:30s,4mbit:30s")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assert_refused(self.own("vary", "h1", "--rates", "1mbit:1s,2mbit:1s"),
                            "h1 varies already (40 Mbit/s for 30 s, 4 Mbit/s for 2.5 s)", "--stop")
        self.assert_refused(self.own("vary", "h3", "--stop"), "'h3'", "h1 to h2")
        self.assertEqual(self.report()["hosts"][0]["varies"], [
            {"rate_mbit": 40, "seconds": 30}, {"rate_mbit": 4, "seconds": 2.5}])
        self.assertIn(f"{NAME}-h2 varies: 5 Mbit/s for 30 s", self.done("status"))
        self.assertIn("no longer varies: 30 Mbit/s", self.done("vary", "h1", "--stop"))
        self.assertEqual([self.rates(1), self.rates(2)], [[30, 30], [5, 5]])
        self.assertEqual(len(background(NAME)), 1)

    def test_clusters_in_the_making_are_none_of_its_business(self):
        self.done("up", "2", "--rate", "30mbit")
        half_made = f"/run/netns/{OTHER_NAME}-h1"  # as `ip netns add` leaves it for an instant
        with open(half_made, "w", encoding="utf-8"):
            self.addCleanup(os.remove, half_made)
        for command in (("vary", "h1", "--rates", "5mbit:30s,4mbit:30s"), ("down",)):
            result = self.own(*command)
            self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_nothing_outlives_down(self):
        for how in ("down", "deleted namespaces"):
            with self.subTest(how):
                self.done("up", "2", "--burst", "4kb")
                self.done("vary", "h1", "--rates", "40mbit:100ms,4mbit:100ms")
                self.done("traffic", "outside", "--to", "h1", "--rate", "1mbit")
                self.assertEqual(len(background(NAME)), 2)
                if how == "down":
                    self.done("down")
                    self.assertEqual(background(NAME), [])
                for namespace in namespaces(NAME):
                    delete_namespace(namespace)
                wait_for(lambda: not background(NAME), "the processes to end by themselves")

    def test_clusters_do_not_disturb_each_other(self):
        self.done("up", "2", "--rate", "30mbit")
        self.addCleanup(run, "down", "--name", OTHER_NAME)
        run("up", "2", "--name", OTHER_NAME, "--net", f"{OTHER_NET}.0/24", "--rate", "20mbit")
        self.done("traffic", "h1", "--to", "h2", "--rate", "1mbit")
        for name in (NAME, OTHER_NAME):
            result = run("vary", "h1", "--rates", "40mbit:30s,4mbit:30s", "--name", name)
            self.assertEqual(result.returncode, 0, result.stderr)
        for command in ("vary", "traffic"):
            run(command, "h1", "--stop", "--name", OTHER_NAME)
        self.assertEqual((len(background(NAME)), background(OTHER_NAME)), (2, []))
        self.assertEqual(self.rates(1), [40, 40])
        run("down", "--name", OTHER_NAME)
        self.assertEqual(len(background(NAME)), 2)


class TrafficTest(NetworkTest):
    def frames_into(self, number, seconds):
        """(instant, bytes) of the frames of others that a host's card receives."""
        arrivals, end = [], time.monotonic() + seconds

        def work():
            hurry()
            enter_namespace(f"{NAME}-h{number}")
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as frames:
                frames.bind(("eth0", ETHERTYPE))
                frames.settimeout(TIMEOUT)
                while time.monotonic() < end:
                    count = len(frames.recv(1 << 16))
                    arrivals.append((time.monotonic(), count))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join(TIMEOUT)
        return arrivals

    def test_rate_and_pauses(self):
        self.done("up", "2", "--rate", "100mbit")
        self.done("traffic", "h1", "--to", "h2", "--rate", "30mbit", "--on", "0.4s", "--off",
                  "600ms")

        def check():
            phases = phases_in(self.frames_into(2, 2.3), 15)
            self.assertGreaterEqual(len(phases), 3)
            for _, length, mbit in phases:
                rate, seconds = (30, 0.4) if mbit > 15 else (0, 0.6)
                self.assertLess(abs(mbit - rate), 2, phases)
                self.assertLess(abs(length - seconds), 0.07, phases)

        self.check_in_tries(check)
        self.assertEqual(self.report()["traffic"], [{"from": "h1", "to": "h2", "rate_mbit": 30,
                                                     "on_seconds": 0.4, "off_seconds": 0.6}])

    def flow_mbit(self, seconds):
        return mbit_of(Flow(1, 2, seconds).join())

    def test_traffic_from_outside_takes_its_share_and_tcp_loses(self):
        self.done("up", "2", "--rate", "20mbit", "--queue", "16kb")
        self.check_in_tries(lambda: self.assertGreater(self.flow_mbit(0.8), 17))
        sent_again = self.tcp_counters(1)["RetransSegs"]
        self.done("traffic", "outside", "--to", "h2", "--rate", "10mbit")
        self.check_in_tries(lambda: self.assertTrue(7 < (mbit := self.flow_mbit(1.2)) < 11, mbit))
        self.assertGreater(self.tcp_counters(1)["RetransSegs"], sent_again)
        first, second = self.status()
        self.assertGreater(second["received"]["dropped_frames"], 0)
        self.assertEqual(second["sent"]["dropped_frames"] + first["received"]["dropped_frames"], 0)
        self.assertIn("outside no longer sends to h2", self.done("traffic", "outside", "--stop"))
        self.check_in_tries(lambda: self.assertGreater(self.flow_mbit(0.8), 17))

    def test_traffic_ends_where_it_is_told(self):
        self.done("up", "3", "--rate", "20mbit")
        for target in ("h2", "h3", "outside"):
            self.done("traffic", "h1", "--to", target, "--rate", "1mbit")
        self.done("traffic", "h2", "--to", "h3", "--rate", "2mbit", "--on", "20ms", "--off", "1.5s")
        self.assert_refused(self.own("traffic", "h1", "--to", "h3", "--rate", "5mbit"),
                            "h1 sends to h3 already", "--stop")
        self.assert_refused(self.own("traffic", "h2", "--to", "h4", "--rate", "5mbit"), "--to 'h4'",
                            "h1 to h3")
        self.assert_refused(self.own("traffic", "h9", "--stop"), "FROM 'h9'", "h1 to h3")
        text = self.done("status")
        self.assertIn("h1 sends to outside: 1 Mbit/s\n", text)
        self.assertIn("h2 sends to h3: 2 Mbit/s, 0.02 s on, 1.5 s off\n", text)
        report = self.report()
        self.assertEqual([(flow["from"], flow["to"]) for flow in report["traffic"]],
                         [("h1", "h2"), ("h1", "h3"), ("h1", "outside"), ("h2", "h3")])
        one, *others = report["hosts"]
        for other in others:  # also one that has sent nothing gets its frames, and no one else's
            self.assertGreater(other["received"]["bytes"], 0)
            self.assertLess(other["received"]["bytes"], 0.6 * one["sent"]["bytes"])
        self.done("traffic", "h1", "--to", "h3", "--stop")
        self.assertEqual((len(background(NAME)), background(NAME, "h1", "h3")), (3, []))
        self.done("traffic", "h1", "--stop")
        self.assertEqual(background(NAME), background(NAME, "h2", "h3"))
        self.assertIn("h1 sends nothing", self.done("traffic", "h1", "--stop"))


class PageTest(OneClusterTest):
    def test_the_commands_of_the_page(self):
        with open(PAGE, encoding="utf-8") as file:
            section = re.search(rf"^{SECTION}\n.*?(?=^## )", file.read(), re.M | re.S)[0]
        seen = []
        for line in re.findall(r"^    (emulated-cluster .*)", section, re.M):
            words = shlex.split(line)
            if "build/atoll" in words:  # which this test does without
                words[words.index("build/atoll"):] = ["true"]
            self.done(*words[1:])
            seen.append(words[1])
        self.assertEqual(set(seen), {"up", "vary", "run", "traffic", "status", "down"})
        self.assertEqual(background(NAME), [])


if __name__ == "__main__":
    main()
