#!/usr/bin/env python3
"""launch/script_steps.sh: what scripts say while a step runs, and when it fails."""

import os
import pty
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
TIMEOUT = 60
SCRIPT = """set -euo pipefail
. launch/script_steps.sh
progress_seconds=1
ninja() { for i in 1 2 3; do echo "[$i/3] Building CXX object a.o"; sleep 1; done; }
make() { echo "[  7%] Building"; echo "a.cpp:[1/2]: a warning"; sleep 2.5; }
ctest() { echo "1: [3/4] of a test"; echo " 5/117 Test  #9: format ...   Passed"; sleep 2.5; }
silent() { sleep 1.5; }
broken() { echo "[1/2] a.o"; false; echo "after the failure"; }
endless() { echo started >"$1"; sleep 600; }
"""


class ScriptStepsTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.log = os.path.join(place.name, "logs/step.log")
        self.mark = os.path.join(place.name, "mark")

    def words(self, command):
        return ["bash", "-c", f"{SCRIPT}step Working {self.log} {command}\necho next"]

    def run_step(self, command):
        return subprocess.run(self.words(command), cwd=ROOT, capture_output=True, text=True,
                              timeout=TIMEOUT, check=False)

    def test_lines_say_how_far_a_step_is(self):
        for command, progress in (("ninja", r", [1-3]/3"), ("make", ", 7%"), ("ctest", ", 5/117"),
                                  ("silent", "")):
            with self.subTest(command):
                result = self.run_step(command)
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assertRegex(result.stdout, r"\A1\. Working \.\.\.\n"
                                 rf"(1\. Working \.\.\. 0:0\d{progress}\n)+"
                                 r"1\. Working: done in 0:0\d\nnext\n\Z")

    def test_short_steps_do_not_wait(self):
        times = []
        for _ in range(3):  # something else may keep the machine busy
            start = time.monotonic()
            result = self.run_step("true")
            times.append(time.monotonic() - start)
        self.assertLess(min(times), 1)
        self.assertRegex(result.stdout, r"\A1\. Working \.\.\.\n1\. Working: done in 0:0\d\nnext\n\Z")

    def test_a_failure_shows_the_log_and_ends_the_script(self):
        result = self.run_step("broken")
        self.assertEqual(result.returncode, 1)
        self.assertIn("1. Working: FAILED with exit code 1", result.stdout)
        self.assertIn(f"---- end of {self.log} ----\n[1/2] a.o\n", result.stdout)
        self.assertNotIn("after the failure", result.stdout)
        self.assertNotIn("next", result.stdout)

    def start_in_terminal(self, command):
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        # As in a terminal, also where whoever started the test is deaf to Ctrl-C.
        process = subprocess.Popen(self.words(command), cwd=ROOT, stdout=theirs, stderr=theirs,
                                   start_new_session=True,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        os.close(theirs)
        return process, ours

    def shown(self, terminal):
        """All that it shows until nobody writes to it any more."""
        text = b""
        while True:
            try:
                part = os.read(terminal, 4096)
            except OSError:
                part = b""
            if not part:
                return text.decode()
            text += part

    def test_a_terminal_has_one_line_for_a_step(self):
        process, terminal = self.start_in_terminal("ninja")
        shown = self.shown(terminal)
        self.assertEqual(process.wait(TIMEOUT), 0)
        self.assertRegex(shown, r"\r\x1b\[K1\. Working \.\.\. 0:0\d, 2/3")
        self.assertEqual(shown.count("\n"), 2)
        self.assertRegex(shown, r"\r\x1b\[K1\. Working: done in 0:0\d\r\nnext\r\n\Z")

    def test_ctrl_c_ends_the_command(self):
        process, terminal = self.start_in_terminal(f"endless {self.mark}")
        while not os.path.exists(self.mark):
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        self.assertNotIn("done", self.shown(terminal))
        self.assertNotEqual(process.wait(TIMEOUT), 0)
        with self.assertRaises(ProcessLookupError):  # soon nobody of its group is left
            for _ in range(200):
                os.killpg(process.pid, 0)
                time.sleep(0.05)


if __name__ == "__main__":
    unittest.main()
