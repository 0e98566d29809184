"""Shared by tests of launch/tools/emulated-cluster: its command as a user gives it, and a cluster
with a name and addresses of its own, so that it stands beside clusters that are up and beside other
runs of the tests."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

PROGRAM = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                       "../../launch/tools/emulated-cluster"))
NAME = f"test{os.getpid()}"
NET = "198.18.77"  # of the range for benchmarks, which no machine should use
TIMEOUT = 60  # seconds, far beyond what any of these commands needs


def start(*arguments, **options):
    """In a process group of its own, as a terminal would."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([PROGRAM, *arguments], text=True, start_new_session=True,
                            **{**pipes, **options})


def end(process):
    """Kills a command, and what it started on the hosts of this test, which would otherwise outlive
    it and hold its pipes open. Returns what was printed."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    subprocess.run([PROGRAM, "down", "--name", NAME], stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=TIMEOUT, check=False)
    return process.communicate(timeout=TIMEOUT)


def run(*arguments, text=None, **options):
    """`text` is its standard input."""
    process = start(*arguments, stdin=subprocess.PIPE if text else subprocess.DEVNULL, **options)
    try:
        output, error = process.communicate(text, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        output, error = end(process)
        raise AssertionError(f"{' '.join(arguments)} ran for {TIMEOUT} s and printed:\n"
                             f"{output}{error}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, output, error)


def interrupt(process):
    """Ctrl-C; returns the exit code."""
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=TIMEOUT)
    return process.returncode


def namespaces(name):
    """Those of the cluster `name`."""
    with contextlib.suppress(FileNotFoundError):
        return [found for found in os.listdir("/run/netns") if found.startswith(f"{name}-")]
    return []


def commands_in(namespace):
    """Names of the programs that run in a namespace."""
    result = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True,
                            check=False)
    names = []
    for process in result.stdout.split():
        with contextlib.suppress(OSError), open(f"/proc/{process}/comm", encoding="utf-8") as file:
            names.append(file.read().strip())
    return names


def wait_for(condition, what):
    limit = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > limit:
            raise AssertionError(f"waited in vain for {what}, {TIMEOUT} s")
        time.sleep(0.05)


def delete_namespace(name):
    """And the mount that `ip` made for the first one, once there is none."""
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    with contextlib.suppress(OSError):
        if not os.listdir("/run/netns"):
            subprocess.run(["umount", "/run/netns"], capture_output=True, check=False)


def why_no_cluster():
    """A thing that this user or machine lacks for a cluster; None if nothing."""
    if os.geteuid() != 0:
        return "this user is not root"
    for tool in ("ip", "tc", "bridge", "unshare"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    probe = f"{NAME}-probe"
    try:
        for command in (["ip", "netns", "add", probe],
                        ["ip", "-n", probe, "link", "add", "end1", "type", "veth"],
                        ["ip", "-n", probe, "link", "add", "switch", "type", "bridge"],
                        ["tc", "-n", probe, "qdisc", "add", "dev", "end1", "root", "tbf", "rate",
                         "1mbit", "burst", "10kb", "limit", "1mb"]):
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if result.returncode != 0:
                return f"{' '.join(command)}: {result.stderr.strip()}"
    finally:
        delete_namespace(probe)
    return None


WHY_NO_CLUSTER = why_no_cluster()


class Refusals(unittest.TestCase):
    def assert_refused(self, result, *parts):
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        self.assertEqual(result.stderr.count("emulated-cluster: error:"), 1, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)


@unittest.skipIf(WHY_NO_CLUSTER, f"no cluster can be made here: {WHY_NO_CLUSTER}")
class OneClusterTest(Refusals):
    """Each test may have one cluster."""

    def setUp(self):
        self.addCleanup(run, "down", "--name", NAME)

    def own(self, command, *arguments, **options):
        """Runs a command on the cluster of this test."""
        if command == "up":
            arguments = ("--net", f"{NET}.0/24", *arguments)
        return run(command, "--name", NAME, *arguments, **options)

    def done(self, command, *arguments):
        """Standard output of a command that must do its work."""
        result = self.own(command, *arguments)
        if "needs mpirun of Open MPI 4" in result.stderr:
            self.skipTest(result.stderr.strip())
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def status(self):
        return json.loads(self.done("status", "--json"))["hosts"]


def main():
    """Runs the tests of the script that calls; 77 where no cluster can be made."""
    # Whoever starts this in the background may have it ignore Ctrl-C, which commands would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ran = unittest.main(module="__main__", verbosity=2, exit=False).result
    sys.exit(1 if not ran.wasSuccessful() else 77 if WHY_NO_CLUSTER else 0)
