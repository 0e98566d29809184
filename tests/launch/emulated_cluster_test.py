#!/usr/bin/env python3
"""Runs launch/tools/emulated-cluster as a user does: refused words everywhere; where this user may
make network namespaces, also a cluster from up to down. Networks that change while a program runs:
emulated_network_test.py."""

import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from emulated_cluster_support import (NAME, NET, PROGRAM, TIMEOUT, OneClusterTest, Refusals,
                                      commands_in, delete_namespace, end, interrupt, main,
                                      namespaces, run, start, wait_for)

QUOTAS = os.path.join(os.path.dirname(PROGRAM), "emulated_cluster_cpu.sh")
CORES = len(os.sched_getaffinity(0))
CONTROLS = ["/proc/sys/net/ipv4/tcp_congestion_control",
            "/proc/sys/net/ipv4/tcp_allowed_congestion_control"]


def quota_groups():
    """Folders of the control groups of this test's cluster."""
    return sorted(glob.glob(f"/sys/fs/cgroup/**/emulated-cluster.{NAME}.*", recursive=True))


def control_settings():
    settings = []
    for path in CONTROLS:
        with open(path, encoding="ascii") as file:
            settings.append(file.read())
    return settings


def read_fields(path):
    """A file of lines `name number`."""
    with open(path, encoding="ascii") as file:
        return {words[0]: int(words[1]) for words in map(str.split, file)}


class WordsTest(Refusals):
    def test_help_has_examples(self):
        result = run("--help")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for command in ("up", "run", "vary", "traffic", "status", "measure", "down"):
            own_help = run(command, "--help")
            self.assertEqual(own_help.returncode, 0)
            self.assertRegex(own_help.stdout, rf"Examples:\n(.*\n)*  emulated-cluster {command}")
            self.assertIn(own_help.stdout, result.stdout)

    def test_bad_words(self):
        for words, parts in (
                ([], ["no command", "up, run, vary, traffic, status, measure, down"]),
                (["start"], ["'start'", "up, run, vary, traffic, status, measure, down"]),
                (["up"], ["number of hosts is missing", "2 to 64"]),
                (["up", "two"], ["'two'", "2 to 64"]),
                (["up", "1"], ["'1'", "2 to 64"]),
                (["up", "65"], ["'65'", "2 to 64"]),
                (["up", "2", "3"], ["'3'", "--rate"]),
                (["up", "2", "--speed", "1gbit"], ["'--speed'", "--rate"]),
                (["up", "2", "--rate"], ["--rate needs a value"]),
                (["up", "3", "--rate", "1gbit,1gbit"], ["2 rates for 3 hosts"]),
                (["up", "2", "--rate", "1gbit,"], ["--rate ''"]),
                (["up", "2", "--rate", "fast"], ["--rate 'fast'", "200mbit"]),
                (["up", "2", "--rate", "100"], ["'100'", "200mbit"]),
                (["up", "2", "--rate", "10mbps"], ["'10mbps'", "200mbit"]),
                (["up", "2", "--rate", "0mbit"], ["--rate '0mbit'", "100kbit to 100gbit"]),
                (["up", "2", "--rate", "99kbit"], ["'99kbit'", "100kbit to 100gbit"]),
                (["up", "2", "--rate", "100.001gbit"], ["100kbit to 100gbit"]),
                (["up", "2", "--mtu", "100"], ["--mtu '100'", "576 to 9000"]),
                (["up", "2", "--burst", "1kb"], ["--burst '1kb'", "1514"]),
                (["up", "2", "--burst", "many"], ["--burst 'many'", "64kb"]),
                (["up", "2", "--queue", "5kb"], ["--queue '5kb'", "6056"]),
                (["up", "2", "--mtu", "9000", "--queue", "32kb"], ["--queue '32kb'", "36056"]),
                (["up", "2", "--net", "10.1.2.3/8"], ["10.1.2.3/8", "10.77.0.0/24"]),
                (["up", "2", "--net", "10.300.0.0/24"], ["10.300.0.0/24", "255"]),
                (["up", "2", "--net", "127.0.0.0/24"], ["127.0.0.0/24"]),
                (["up", "2", "--name", "Big!"], ["'Big!'"]),
                (["run"], ["no program is named"]),
                (["run", "--ranks-per-host", "0", "true"], ["--ranks-per-host '0'", "1 to 1024"]),
                (["run", "--cpu"], ["--cpu needs a value"]),
                (["run", "--cpu", "0", "true"], ["--cpu '0'", "from 1 to", "40,40,40,20"]),
                (["run", "--cpu", str(100 * CORES + 1), "true"],
                 [f"--cpu '{100 * CORES + 1}'", f"from 1 to {100 * CORES}", f"cores here: {CORES}"]),
                (["run", "--cpu", "40,", "true"], ["--cpu ''", "percent of one core"]),
                (["run", "--cpu", "40%", "true"], ["--cpu '40%'", "percent of one core"]),
                (["run", "--cpu", "0.4", "true"], ["--cpu '0.4'", "whole number"]),
                (["run", "--tag-output", "true"], ["'--tag-output'", "--shared-memory", "--"]),
                (["run", "-n", "3", "--", "true"], ["-n", "--ranks-per-host"]),
                (["run", "no/such/program"], ["'no/such/program'"]),
                (["run", "/"], ["'/'"]),
                (["status", "--jsn"], ["'--jsn'", "--json"]),
                (["measure", "--size", "big"], ["--size 'big'", "4mb"]),
                (["measure", "--repeats", "0"], ["--repeats '0'", "1 to 1000"]),
                (["down", "all"], ["'all'", "--name"])):
            with self.subTest(" ".join(words)):
                self.assert_refused(run(*words), *parts)

    def test_missing_tools(self):
        with tempfile.TemporaryDirectory() as folder:
            for tool in ("bash", "realpath", "dirname"):
                os.symlink(shutil.which(tool), os.path.join(folder, tool))
            root = os.path.join(folder, "id")
            with open(root, "w", encoding="ascii") as file:
                file.write("#!/bin/sh\necho 0\n")
            os.chmod(root, 0o755)
            result = run("up", "2", env={"PATH": folder})
            self.assert_refused(result, "ip is not installed", "iproute2")

    def test_other_users(self):
        options = {"user": 65534, "group": 65534} if os.geteuid() == 0 else {}
        for command in (["up", "2"], ["run", "true"], ["vary", "h1", "--stop"],
                        ["traffic", "h1", "--stop"], ["status"], ["measure"], ["down"]):
            with self.subTest(command[0]):
                try:
                    result = run(*command, cwd="/", **options)
                except PermissionError:
                    self.skipTest("other users cannot read this folder")
                if result.returncode == 126:
                    self.skipTest("other users cannot read this folder")
                self.assert_refused(result, "needs root")


class QuotaFilesTest(unittest.TestCase):
    """Written files, against folders that stand for the two kinds of cgroup file systems."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for name in ("v1", "v2", "rank"):
            os.mkdir(os.path.join(self.folder, name))
        for name, text in (("v2/cgroup.controllers", "cpuset cpu io"),
                           ("v2/cgroup.subtree_control", "memory io")):
            self.write(name, text)

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="ascii") as file:
            file.write(text + "\n")

    def read(self, name):
        with open(os.path.join(self.folder, name), encoding="ascii") as file:
            return file.read().strip()

    def shell(self, words):
        """Runs `words` after the script that they test; standard output."""
        result = subprocess.run(
            ["bash", "-c", f"set -euo pipefail; name=x; . {QUOTAS}; {words}"],
            capture_output=True, text=True, check=False, cwd=self.folder,
            env={**os.environ, "cgroup_mounts": "mounts"})
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout.strip()

    def test_the_controller_is_found(self):
        for mounts, found in (
                ("cgroup v1 cgroup rw,cpuset 0 0\ncgroup v1 cgroup rw,cpu,cpuacct 0 0", "1 v1"),
                ("none v1 cgroup2 rw 0 0\ncgroup v1 cgroup rw,cpu 0 0", "1 v1"),  # not in version 2
                ("none v2 cgroup2 rw,nsdelegate 0 0", "2 v2"),
                ("none v1 tmpfs rw,cpu 0 0\ncgroup v1 cgroup rw,cpuacct 0 0", "none")):
            with self.subTest(mounts):
                self.write("mounts", mounts)
                self.assertEqual(self.shell("find_cpu_controller && echo $cpu_version $cpu_folder "
                                            "|| echo none"), found)

    def test_quotas(self):
        # Percent, and microseconds of quota and period: 10 ms, more where 1 ms is the least quota.
        for share, quota, period in ((40, 4000, 10000), (20, 2000, 10000), (10, 1000, 10000),
                                     (200, 20000, 10000), (5, 1000, 20000), (3, 1000, 33333),
                                     (1, 1000, 100000)):
            with self.subTest(share):
                self.shell(f"cpu_version=1; set_quota rank {share}")
                self.assertEqual((self.read("rank/cpu.cfs_quota_us"),
                                  self.read("rank/cpu.cfs_period_us")), (str(quota), str(period)))
                self.shell(f"cpu_version=2; set_quota rank {share}")
                self.assertEqual(self.read("rank/cpu.max"), f"{quota} {period}")

    def test_version_2_is_asked_for_the_controller_once(self):
        self.shell("cpu_folder=v2; allow_cpu_quotas")
        self.assertEqual(self.read("v2/cgroup.subtree_control"), "+cpu")
        self.write("v2/cgroup.subtree_control", "cpu io")
        self.shell("cpu_folder=v2; allow_cpu_quotas")
        self.assertEqual(self.read("v2/cgroup.subtree_control"), "cpu io")

    def test_groups_of_others_are_not_listed(self):
        for name in (f"x.{os.getpid()}.0", "x.999999999.12", "xy.1.0", "x.1.0.more", "x.1.a"):
            os.mkdir(os.path.join(self.folder, "v1", f"emulated-cluster.{name}"))
        listed = self.shell("cpu_folder=v1; list_quotas all; echo; list_quotas stale; echo; "
                            "list_quotas own").split("\n\n")
        alive, stale = f"v1/emulated-cluster.x.{os.getpid()}.0", "v1/emulated-cluster.x.999999999.12"
        self.assertEqual([sorted(lines.split()) for lines in listed],
                         [sorted([alive, stale]), [stale]])


class ClusterTest(OneClusterTest):
    def setUp(self):
        super().setUp()
        self.settings = control_settings()

    def tearDown(self):
        self.assertEqual(control_settings(), self.settings, "of the machine")

    def check_payload(self, host, expected):
        for direction in ("sent", "received"):
            self.assertLess(abs(host[direction]["payload_bytes"] / expected - 1), 0.03, host)

    def test_rates_and_counters(self):
        self.done("up", "2", "--rate", "100mbit")
        self.assertEqual(sorted(namespaces(NAME)), [f"{NAME}-h1", f"{NAME}-h2", f"{NAME}-switch"])
        size, repeats = 2 << 20, 2
        report = json.loads(self.done("measure", "--size", "2mb", "--repeats", str(repeats),
                                      "--json"))
        found = [host["all_to_all_mbit"] for host in report["hosts"]]
        found += [report["hosts"][1]["ping_pong_mbit"], 100 * report["all_to_all_share"]]
        for rate in found:
            self.assertTrue(50 < rate < 110, report)
        # Ping-pong and all-to-all, each with a first exchange that isn't measured.
        for host in self.status():
            self.assertEqual(host["rate_mbit"], 100)
            self.check_payload(host, 2 * (repeats + 1) * size)
            for direction in ("sent", "received"):  # headers are no payload
                self.assertGreater(host[direction]["bytes"], 2 * 1.03 * (repeats + 1) * size)
        self.assertIn(f"{NAME}-h2", self.done("status"))
        self.assertIn("all-to-all", self.done("measure", "--size", "1kb", "--repeats", "1"))

    def test_unequal_rates_and_replacement(self):
        self.done("up", "2", "--rate", "100mbit")
        self.assert_refused(self.own("up", "2"), "is up", "down", "--replace")
        self.done("up", "3", "--rate", "100mbit,2.5gbit,10mbit", "--replace")
        self.assertEqual([host["rate_mbit"] for host in self.status()], [100, 2500, 10])
        self.assertEqual([host["address"] for host in self.status()],
                         [f"{NET}.{number}" for number in (1, 2, 3)])
        report = json.loads(self.done("measure", "--size", "256kb", "--repeats", "1", "--json"))
        fast, slow = (host["ping_pong_mbit"] for host in report["hosts"][1:])
        self.assertGreater(fast, 2 * slow)
        # The first host plays ping-pong with every other one.
        for exchanges, host in zip((4, 3, 3), self.status()):
            self.check_payload(host, 2 * exchanges * (256 << 10))

    def test_programs_run_on_every_host(self):
        self.done("up", "2")
        words = ["sh", "-c", "echo $OMPI_COMM_WORLD_RANK $(hostname) $OMP_NUM_THREADS"]
        threads = max(1, len(os.sched_getaffinity(0)) // 4)
        with unittest.mock.patch.dict(os.environ):
            os.environ.pop("OMP_NUM_THREADS", None)
            lines = self.done("run", "--ranks-per-host", "2", *words).splitlines()
            self.assertEqual(sorted(lines), [f"{rank} {NAME}-h{1 + rank // 2} {threads}"
                                             for rank in range(4)])
            os.environ["OMP_NUM_THREADS"] = "3"
            lines = self.done("run", "--shared-memory", "--tag-output", "--", *words).splitlines()
        self.assertEqual(sorted(line.split(":")[1] for line in lines),
                         [f"{rank} {NAME}-h{1 + rank} 3" for rank in range(2)])
        self.assertEqual(self.own("run", "sh", "-c", "exit 7").returncode, 7)

    def test_ctrl_c_ends_all_ranks(self):
        self.done("up", "2")
        process = start("run", "--name", NAME, "sleep", "100")
        self.addCleanup(end, process)
        wait_for(lambda: "sleep" in commands_in(f"{NAME}-h2") or process.poll() is not None,
                 "a rank on the second host")
        if process.poll() is not None:
            self.skipTest(process.stderr.read())
        self.assertNotEqual(interrupt(process), 0)
        for host in ("h1", "h2"):
            wait_for(lambda: not commands_in(f"{NAME}-{host}"), f"{host} to be empty")

    # Every rank computes for three seconds, in so many processes. It writes the seconds passed and
    # the CPU seconds into a file of its own, then waits until it is told to end.
    BUSY = """
import os, sys, time
start, before = time.monotonic(), sum(os.times()[:4])
children = []
while 0 not in children and len(children) + 1 < int(sys.argv[2]): children.append(os.fork())
while time.monotonic() - start < 3: pass
if 0 in children: os._exit(0)
for child in children: os.waitpid(child, 0)
rank = os.path.join(sys.argv[1], os.environ["OMPI_COMM_WORLD_RANK"])
with open(rank + ".part", "w") as file:
    print(time.monotonic() - start, sum(os.times()[:4]) - before, file=file)
os.rename(rank + ".part", rank)
while not os.path.exists(os.path.join(sys.argv[1], "end")): time.sleep(0.05)
"""

    def skip_without_quotas(self, process):
        """Skips the test if a `run --cpu` has ended because quotas are impossible here."""
        if process.poll() is None:
            return
        error = process.stderr.read()
        for reason in ("needs mpirun of Open MPI 4", "cpu controller", "a writable"):
            if reason in error:
                self.skipTest(error.strip())
        self.fail(error)

    def start_limited(self, shares, *program):
        """`run --cpu` as a process whose ranks are in their groups."""
        process = start("run", "--name", NAME, "--cpu", shares, *program)
        self.addCleanup(end, process)
        wait_for(lambda: process.poll() is not None or
                 (len(quota_groups()) == 2 and all(self.members(group) for group in quota_groups())),
                 "ranks in their groups")
        self.skip_without_quotas(process)
        return process

    @staticmethod
    def members(group):
        try:
            with open(os.path.join(group, "cgroup.procs"), encoding="ascii") as file:
                return file.read().split()
        except OSError:
            return []

    def busy_shares(self, quotas, processes):
        """CPU seconds per second of two ranks with quotas, and whether these, rather than other
        work on this machine, were what held them back."""
        with tempfile.TemporaryDirectory() as folder:
            process = self.start_limited(quotas, sys.executable, "-c", self.BUSY, folder,
                                         str(processes))
            shares, held = [], True
            for rank in range(2):
                path = os.path.join(folder, str(rank))
                wait_for(lambda path=path: os.path.exists(path), f"rank {rank} to have computed")
                with open(path, encoding="ascii") as file:
                    seconds, used = map(float, file.read().split())
                shares.append(used / seconds)
            for group in quota_groups():
                counts = read_fields(os.path.join(group, "cpu.stat"))
                held = held and counts["nr_throttled"] > 0.9 * counts["nr_periods"]
            with open(os.path.join(folder, "end"), "w", encoding="ascii"):
                pass
            self.assertEqual(process.wait(TIMEOUT), 0)
            self.assertEqual(quota_groups(), [])
        return *shares, held

    def test_cpu_quotas_hold(self):
        self.done("up", "2")
        for percent in (40, 40, 20, 10):  # less and less, as a busy machine has no more
            first, second, held = self.busy_shares(f"{percent},{percent // 2}", 1)
            self.assertLess(first, 1.3 * percent / 100)  # whatever else the machine does
            self.assertLess(second, 1.3 * percent / 200)
            if held:
                self.assertTrue(1.6 < first / second < 2.4, (percent, first, second))
                return
        self.skipTest("other work on this machine kept the ranks below their quotas")

    def test_all_processes_of_a_rank_share_its_quota(self):
        self.done("up", "2")
        for share in self.busy_shares("20", 3)[:2]:
            self.assertLess(share, 1.3 * 0.20)

    def test_cpu_shares_per_rank(self):
        self.done("up", "2")
        words = ["sh", "-c", "echo $OMPI_COMM_WORLD_RANK $(cut -d: -f3 /proc/self/cgroup)"]
        process = self.start_limited("20", "sleep", "100")
        groups = [os.path.basename(group) for group in quota_groups()]
        self.assertEqual(groups, [f"emulated-cluster.{NAME}.{process.pid}.{rank}"
                                  for rank in range(2)])
        # Another run beside it has groups of its own, and ends without touching the first.
        lines = self.done("run", "--ranks-per-host", "2", "--cpu", "10,20,30,40", *words)
        for rank, line in enumerate(sorted(lines.splitlines())):
            self.assertRegex(line, rf"^{rank} .*/emulated-cluster\.{NAME}\.[0-9]+\.{rank}\b")
        self.assertEqual([os.path.basename(group) for group in quota_groups()], groups)
        self.assertNotEqual(interrupt(process), 0)
        self.assertEqual(quota_groups(), [])

    def test_a_host_starts_ranks_itself(self):
        """As `atoll launch` does on the first host, with some of the others."""
        self.done("up", "3")
        for shares in ([], ["--cpu", "20,10"]):
            words = [PROGRAM, "mpirun", "--name", NAME, *shares, "--mca", "plm", "rsh", "--mca",
                     "plm_rsh_agent", f"'{PROGRAM} agent --name {NAME}'", "--host",
                     f"{NET}.2:1,{NET}.3:1", "-n", "2", "-x", "WORD", "sh", "-c",
                     "'echo $WORD $OMPI_COMM_WORLD_RANK $(hostname) "
                     "$(cut -d: -f3 /proc/self/cgroup)'"]
            with unittest.mock.patch.dict(os.environ, WORD="said"):
                result = run("agent", "--name", NAME, f"{NET}.1", " ".join(words))
            if "cpu controller" in result.stderr or "a writable" in result.stderr:
                self.skipTest(result.stderr.strip())
            self.assertEqual(result.returncode, 0, result.stderr)
            for rank, line in enumerate(sorted(result.stdout.splitlines())):
                group = rf".*/emulated-cluster\.{NAME}\.[0-9]+\.{rank}\b" if shares else ""
                self.assertRegex(line, rf"^said {rank} {NAME}-h{rank + 2} {group}")
            self.assertEqual(quota_groups(), [])
        for words, part in ((["--cpu", "20,10", "-n", "3", "true"], "2 shares for 3 ranks"),
                            (["--bind", "true"], "unknown option '--bind'"), (["-n", "2"], "no program")):
            result = run("agent", "--name", NAME, f"{NET}.1",
                         " ".join([PROGRAM, "mpirun", "--name", NAME, *words]))
            self.assert_refused(result, part)

    def test_a_sum_above_the_machine_is_a_warning(self):
        self.done("up", "2")
        for share, warned in ((100 * CORES, True), (50 * CORES, False)):
            result = self.own("run", "--cpu", str(share), "sh", "-c", "cat; exit 7", text="words\n")
            if "cpu controller" in result.stderr or "a writable" in result.stderr:
                self.skipTest(result.stderr.strip())
            self.assertEqual((result.returncode, result.stdout), (7, "words\n"), result.stderr)
            self.assertEqual(f"{200 * CORES} % together" in result.stderr, warned, result.stderr)
            self.assertEqual(quota_groups(), [])

    def test_cpu_quotas_that_do_not_fit_the_cluster(self):
        self.done("up", "2")
        self.assert_refused(self.own("run", "--cpu", "40,40,20", "true"), "3 shares for 2 ranks")
        self.assert_refused(self.own("run", "--cpu", "40", "true", ":", "true"), "one program")
        with unittest.mock.patch.dict(os.environ, cgroup_mounts="/dev/null"):
            self.assert_refused(self.own("run", "--cpu", "40", "true"), "cpu controller",
                                "CONFIG_CFS_BANDWIDTH")
        self.assertEqual(quota_groups(), [])

    def test_killed_runs_leave_no_quotas(self):
        self.done("up", "2")
        for number in (signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number):
                process = self.start_limited("40,20", "sleep", "100")
                process.send_signal(number)  # to it alone
                self.assertNotEqual(process.wait(TIMEOUT), 0)
                self.assertEqual(quota_groups(), [])

    def test_down_removes_quotas_of_a_run_that_cannot(self):
        self.done("up", "2")
        process = self.start_limited("40,20", "sleep", "100")
        process.kill()
        process.wait(TIMEOUT)
        self.assertEqual(len(quota_groups()), 2)
        self.done("down")
        self.assertEqual(quota_groups(), [])

    def test_the_next_run_removes_quotas_of_one_that_could_not(self):
        self.done("up", "2")
        process = self.start_limited("40,20", "sleep", "100")
        groups = quota_groups()
        process.kill()
        process.wait(TIMEOUT)
        for group in groups:
            for member in self.members(group):
                os.kill(int(member), signal.SIGKILL)
            wait_for(lambda group=group: not self.members(group), "the ranks to end")
        self.done("run", "--cpu", "40", "true")
        self.assertEqual(quota_groups(), [])

    def test_nothing_is_up(self):
        for command in (["run", "true"], ["vary", "h1", "--stop"], ["traffic", "h1", "--stop"],
                        ["status"], ["measure"]):
            self.assert_refused(self.own(*command), f"no cluster '{NAME}' is up")
        self.assertIn("No cluster", self.done("down"))

    def test_down_leaves_nothing(self):
        self.done("up", "2")
        with subprocess.Popen(["ip", "netns", "exec", f"{NAME}-h2", "sleep", "100"]) as left:
            wait_for(lambda: "sleep" in commands_in(f"{NAME}-h2"), "a process inside")
            self.done("down")
            self.assertEqual(left.wait(TIMEOUT), -signal.SIGTERM)
        self.assertEqual(namespaces(NAME), [])

    def test_an_interrupted_start_leaves_nothing(self):
        process = start("up", "64", "--name", NAME, "--net", f"{NET}.0/24")
        self.addCleanup(end, process)
        wait_for(lambda: len(namespaces(NAME)) > 3, "the first hosts")
        self.assert_refused(self.own("status"), "incomplete", "down")
        self.assertEqual(interrupt(process), 128 + signal.SIGINT)
        self.assertEqual(namespaces(NAME), [])

    def test_a_failing_start_leaves_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            tc = os.path.join(folder, "tc")
            with open(tc, "w", encoding="ascii") as file:
                file.write("#!/bin/sh\necho Specified qdisc kind is unknown. >&2\nexit 2\n")
            os.chmod(tc, 0o755)
            with unittest.mock.patch.dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}"):
                self.assert_refused(self.own("up", "2"), "qdisc kind is unknown", "NET_SCH_TBF")
        self.assertEqual(namespaces(NAME), [])

    def test_a_damaged_cluster(self):
        self.done("up", "2")
        subprocess.run(["ip", "netns", "del", f"{NAME}-h2"], check=True)
        self.assert_refused(self.own("run", "true"), "incomplete", "down")
        self.done("down")
        self.assertEqual(namespaces(NAME), [])
        if not os.listdir("/run/netns"):  # of others
            with open("/proc/mounts", encoding="utf-8") as mounts:
                self.assertNotIn(" /run/netns ", mounts.read())

    def test_namespaces_of_others_are_not_touched(self):
        foreign = f"{NAME}-h1"
        subprocess.run(["ip", "netns", "add", foreign], check=True)
        try:
            for command in (["up", "2"], ["up", "2", "--replace"], ["run", "true"],
                            ["vary", "h1", "--stop"], ["status"], ["measure"], ["down"]):
                self.assert_refused(self.own(*command), foreign, "not made by emulated-cluster")
            self.assertEqual(namespaces(NAME), [foreign])
        finally:
            delete_namespace(foreign)

    def test_addresses_of_the_machine(self):
        device = f"t{os.getpid()}"
        subprocess.run(["ip", "link", "add", device, "type", "veth"],
                       check=True)
        try:
            subprocess.run(["ip", "addr", "add", "198.18.78.1/25", "dev", device], check=True)
            subprocess.run(["ip", "link", "set", device, "up"], check=True)
            self.assert_refused(run("up", "2", "--name", NAME, "--net", "198.18.78.0/24"),
                                "198.18.78.0/24", device, "--net")
        finally:
            subprocess.run(["ip", "link", "del", device], check=True)


if __name__ == "__main__":
    main()
