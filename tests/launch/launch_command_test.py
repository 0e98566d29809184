#!/usr/bin/env python3
"""`atoll launch`: runs that lose ranks end with the same model, what is wrong with the words is said
before anything starts, and a run that can't succeed is given up."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli_support import (ATOLL, MPIEXEC, TIMEOUT, OneFolderTest, environment, first_nodes,
                         is_open_mpi, needs_open_mpi, run, write)

TRAINING = ["--hidden", "32", "--norm", "batch", "--dropout", "0.4", "--threads", "1",
            "--eval-every", "5", "--checkpoint-every", "0", "--snapshot-dir", "memory"]


def ranks_of(run_dir):
    """Processes of the job that works in run_dir, by rank."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            with open(f"/proc/{name}/environ", "rb") as file:
                variables = file.read().split(b"\0")
        except OSError:
            continue
        # Other jobs of these tests, which run at the same time, have the word elsewhere.
        if (b"--run-dir", run_dir.encode()) not in zip(words, words[1:]):
            continue
        for variable in variables:
            if variable.startswith(b"OMPI_COMM_WORLD_RANK="):
                found[int(variable.split(b"=")[1])] = int(name)
    return found


@needs_open_mpi
class LaunchTest(OneFolderTest):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.folder = cls.place.name
        cls.succeed("generate", "sbm", "--nodes", "20000", "--features", "32", "--out", "data")
        os.mkdir(os.path.join(cls.folder, "memory"))
        cls.succeed("partition", "data", "--parts", "2")

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    def launch(self, run_dir, epochs, *options, ranks=2, more=(),
               mpirun=f"{MPIEXEC} --bind-to none"):
        segments = self.path(f"segments-{run_dir}")
        os.makedirs(segments, exist_ok=True)
        return subprocess.Popen(
            [os.path.abspath(ATOLL), "launch", "--ranks-per-host", str(ranks),
             "--mpirun", mpirun, *options, "--",
             "train", "data", "--run-dir", run_dir, "--epochs", str(epochs), *TRAINING, *more],
            cwd=self.folder, env={**environment(), "OMPI_MCA_btl_vader_backing_directory": segments},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def epochs(self, run_dir):
        try:
            with open(self.path(run_dir, "metrics.jsonl"), encoding="utf-8") as file:
                return file.read().count("\n")
        except OSError:
            return 0

    def wait_until(self, happened, job):
        deadline = time.monotonic() + TIMEOUT
        while not happened():
            if job.poll() is not None:
                self.fail(f"the job has ended too early: {job.communicate()[0]}")
            self.assertLess(time.monotonic(), deadline, "nothing happened")
            time.sleep(0.005)

    def kill_rank(self, rank, run_dir, job):
        self.wait_until(lambda: rank in ranks_of(run_dir), job)
        os.kill(ranks_of(run_dir)[rank], signal.SIGKILL)

    def events(self, run_dir):
        with open(self.path(run_dir, "events.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def read(self, *names):
        with open(self.path(*names), "rb") as file:
            return file.read()

    def test_ranks_that_are_killed_cost_an_epoch(self):
        whole = run(["train", "data", "--run-dir", "whole", "--epochs", "150", *TRAINING],
                    self.folder, ranks=2)
        self.assertEqual(whole.returncode, 0, whole.stderr)
        job = self.launch("cut", 150)
        self.wait_until(lambda: self.epochs("cut") >= 8, job)
        self.kill_rank(1, "cut", job)
        # On a busy machine the killed attempt may have got that far, too: the next one is meant.
        self.wait_until(lambda: self.epochs("cut") >= 30 and
                        self.events("cut")[-1]["event"] == "recovered", job)
        self.kill_rank(0, "cut", job)
        output, _ = job.communicate(timeout=TIMEOUT)
        self.assertEqual(job.returncode, 0, output)
        self.assertEqual(self.read("cut", "model.safetensors"),
                         self.read("whole", "model.safetensors"))
        self.assertEqual(self.epochs("cut"), 150)
        events = self.events("cut")
        self.assertEqual([event["event"] for event in events],
                         ["started"] + 2 * ["failed", "started", "recovered"] + ["done"])
        self.assertGreaterEqual(events[1]["epoch"], 7)
        self.assertEqual(events[-1]["failures"], 2)
        self.assertEqual(os.listdir(self.path("segments-cut")), [])  # what killed ranks have left
        identity = json.loads(self.read("cut", "snapshots.json"))["id"]
        self.assertNotIn("atoll-" + identity, os.listdir(self.path("memory")))

    def test_ranks_of_a_group_have_their_messages_back(self):
        more = ["--group-ranks", "2", "--exchange", "stale"]
        whole = run(["train", "data", "--run-dir", "whole-groups", "--epochs", "40", *TRAINING,
                     *more], self.folder, ranks=4)
        self.assertEqual(whole.returncode, 0, whole.stderr)
        job = self.launch("groups", 40, ranks=4, more=more)
        self.wait_until(lambda: self.epochs("groups") >= 5, job)
        self.kill_rank(2, "groups", job)
        output, _ = job.communicate(timeout=TIMEOUT)
        self.assertEqual(job.returncode, 0, output)
        self.assertNotIn("starts anew", output)
        self.assertEqual(self.tensors("groups"), self.tensors("whole-groups"))
        self.assertEqual([event["event"] for event in self.events("groups")],
                         ["started", "failed", "started", "recovered", "done"])

    def test_a_rank_that_stands_still_and_a_launcher_that_is_killed(self):
        job = self.launch("odd", 400, "--silence", "2")
        self.wait_until(lambda: self.epochs("odd") >= 5 and len(ranks_of("odd")) == 2, job)
        os.kill(ranks_of("odd")[1], signal.SIGSTOP)
        stopped = ranks_of("odd")[1]
        self.wait_until(lambda: ranks_of("odd").get(1, stopped) != stopped, job)
        before = self.epochs("odd")
        self.wait_until(lambda: self.epochs("odd") > before, job)
        launchers = subprocess.run(["pgrep", "-P", str(job.pid)], capture_output=True, text=True,
                                   check=True).stdout.split()
        self.assertEqual(len(launchers), 1)
        os.kill(int(launchers[0]), signal.SIGKILL)
        output, _ = job.communicate(timeout=TIMEOUT)
        self.assertEqual(job.returncode, 0, output)
        self.assertEqual(self.epochs("odd"), 400)
        failed = [event["text"] for event in self.events("odd") if event["event"] == "failed"]
        self.assertEqual(len(failed), 2, output)
        self.assertIn("has been silent for", failed[0])

    def test_cuts_are_made_beforehand(self):
        # More than are done before the cut on a busy machine.
        job = self.launch("spare", 100000, "--spare-partitions", "2", ranks=3,
                          more=["--parts-dir", "cuts", "--partition-seed", "3", "--objective", "cut"])
        self.wait_until(lambda: os.path.exists(self.path("spare", "events.jsonl")) and
                        "cut" in [event["event"] for event in self.events("spare")], job)
        job.send_signal(signal.SIGTERM)
        job.communicate(timeout=TIMEOUT)
        cut = next(event for event in self.events("spare") if event["event"] == "cut")
        self.assertEqual(cut["parts"], 2)
        self.assertTrue([name for name in os.listdir(self.path("cuts")) if name.startswith("2-")])
        # The spare cut serves a training on two ranks.
        resumed = run(["train", "--config", "spare/config.toml", "--resume", "--epochs",
                       str(self.epochs("spare") + 5)], self.folder, ranks=2)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertNotIn("partitioning", resumed.stderr)

    def test_a_signal_ends_the_run_in_good_order(self):
        job = self.launch("stopped", 2000)
        self.wait_until(lambda: self.epochs("stopped") >= 3, job)
        job.send_signal(signal.SIGTERM)
        output, _ = job.communicate(timeout=TIMEOUT)
        self.assertEqual(job.returncode, 128 + signal.SIGTERM, output)
        self.assertTrue(os.listdir(self.path("stopped", "checkpoint")))
        self.assertEqual(ranks_of("stopped"), {})
        self.assertEqual(output.count("SIGTERM: stopping after this epoch; again to stop now"), 1)
        self.assertEqual(output.count("again to stop now"), 1, output)
        again = re.search(r"go on with\n    (.*)\n", output)[1]
        self.assertTrue(again.startswith(os.path.abspath(ATOLL) + " launch --ranks-per-host 2 "))
        self.assertTrue(again.endswith(" --snapshot-dir memory --resume"), again)
        self.assertEqual(output.count("go on with"), 1)

    def test_a_signal_also_ends_a_run_that_stands_still(self):
        job = self.launch("still", 2000, "--silence", "2")
        self.wait_until(lambda: self.epochs("still") >= 3 and len(ranks_of("still")) == 2, job)
        os.kill(ranks_of("still")[1], signal.SIGSTOP)
        job.send_signal(signal.SIGTERM)
        output, _ = job.communicate(timeout=TIMEOUT)
        self.assertEqual(job.returncode, 128 + signal.SIGTERM, output)
        self.assertNotIn("attempt 2", output)

    def test_a_run_that_never_gets_on_is_given_up(self):
        job = self.launch("hopeless", 2000, "--snapshot-every", "0")
        for _ in range(3):
            self.wait_until(lambda: ranks_of("hopeless").keys() == {0, 1}, job)
            if not self.epochs("hopeless"):
                self.wait_until(lambda: self.epochs("hopeless") >= 1, job)
            self.kill_rank(1, "hopeless", job)
            while job.poll() is None and 1 in ranks_of("hopeless"):
                time.sleep(0.005)
        output, _ = job.communicate(timeout=TIMEOUT)
        self.assertEqual(job.returncode, 1, output)
        self.assertIn("given up", output)
        self.assertEqual(self.events("hopeless")[-1]["event"], "gave_up")

    def test_a_supervisor_that_is_killed_takes_the_job_with_it(self):
        job = self.launch("orphan", 2000)
        self.wait_until(lambda: self.epochs("orphan") >= 2, job)
        job.kill()
        job.communicate(timeout=TIMEOUT)
        deadline = time.monotonic() + TIMEOUT
        while ranks_of("orphan"):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def test_what_is_wrong_is_said_before_anything_starts(self):
        for words, text in ((["partition", "data"], "allowed is train"),
                            (["train", "data"], "needs --run-dir"),
                            (["train", "data", "--run-dir", "none"], "needs --run-dir"),
                            (["train", "data", "--run-dir", "r", "--hiden", "3"], "--hiden"),
                            (["train", "data", "--run-dir", "r", "--hidden", "x"], "--hidden"),
                            (["train", "data", "--run-dir", "r", "--blocks-until", "3"],
                             "behind --: --blocks-until 3: found without --blocks"),
                            (["train", "data", "--run-dir", "r", "--transport", "local"],
                             "--transport local")):
            self.assertIn(text, self.refuse("launch", "--", *words))
        # Short options are options of train, too: the next check finds what is wrong.
        self.assertIn("nowhere: no such folder",
                      self.refuse("launch", "--", "train", "nowhere", "-q", "--run-dir", "never"))
        self.assertIn("words", self.refuse("launch"))
        spare = ["launch", "--ranks-per-host", "4", "--spare-partitions"]
        train = ["--", "train", "data", "--run-dir", "never"]
        for value, words in (("4", ["4", "2 to 3"]), ("3,1", ["1", "2 to 3"]), ("few", ["few"])):
            message = self.refuse(*spare, value, *train)
            for word in ["--spare-partitions", *words]:
                self.assertIn(word, message)
        self.assertIn("allowed are 3 to 3", self.refuse(*spare, "2", "--min-ranks", "3", *train))
        self.assertIn("'partition' behind --", self.refuse("launch", "--hosts", "a,b", "--", "partition"))
        self.assertIn("--mpirun", self.refuse("launch", "--mpirun", " ", "--", "train", "data",
                                              "--run-dir", "r"))

    def test_wrong_hosts_and_folders_are_said_before_anything_starts(self):
        train = ["--", "train", "data", "--run-dir", "never"]
        for options, words in ((["--min-ranks", "5", "--ranks-per-host", "2"],
                                ["--min-ranks 5", "1 host with --ranks-per-host 2", "1 to 2"]),
                               (["--hosts", "a,b", "--min-ranks", "3"], ["--min-ranks 3", "1 to 2"]),
                               (["--hosts", "a,b,a"], ["--hosts a,b,a", "a twice"]),
                               (["--hosts", f"a,localhost,{socket.gethostname()}"],
                                ["--hosts a,localhost,", " and ", "are this machine"]),
                               (["--hosts", "a,b", "--spare", "c,b"], ["--spare c,b", "--hosts a,b"]),
                               (["--hosts", "a", "--spare", "c,c"], ["--spare c,c", "c twice"])):
            message = self.refuse("launch", *options, *train)
            for word in words:
                self.assertIn(word, message)
        self.assertIn("nowhere: no such folder",
                      self.refuse("launch", "--", "train", "nowhere", "--run-dir", "never"))
        self.assertIn("launch: behind --: --group-ranks 3: 4 ranks can't be divided into groups of "
                      "3; allowed are 1, 2, 4",
                      self.refuse("launch", "--ranks-per-host", "4", *train, "--group-ranks", "3"))
        first_nodes(self.path("data"), 3, self.path("tiny"))
        message = self.refuse("launch", "--ranks-per-host", "4", "--", "train", "tiny", "--run-dir",
                              "never")
        for word in ("--ranks-per-host 4 on 1 host", "tiny has 3 nodes", "1 to 3"):
            self.assertIn(word, message)

    def agent(self):
        """Starts commands on a host by its name: all are this machine, but one is lost at first, and
        any other may be later. Each command is written down."""
        place = self.path("agent")
        write(place, f"""#!/bin/sh
cd {self.folder}
host=$1
shift
echo "$*" >> "words-$host"
case $host in nowhere) echo "no route to $host" >&2; exit 255;; esac
[ ! -e "lost-$host" ] || exit 255
mkdir -p "tmp-$host"
TMPDIR="{self.folder}/tmp-$host" FAKE_HOST="{self.folder}/$host" exec sh -c "$*"
""")
        os.chmod(place, 0o755)
        loopback = "--mca btl_tcp_if_include lo --mca oob_tcp_if_include lo"
        return {"mpirun": f"{MPIEXEC} --bind-to none {loopback}"}, ["--rsh", place, "--address",
                                                                    "127.0.0.1"]

    def test_a_host_that_cannot_be_reached_is_named_with_the_reason(self):
        how, options = self.agent()
        job = self.launch("alone", 3, "--hosts", "localhost,nowhere", *options, ranks=1, **how)
        output, _ = job.communicate(timeout=TIMEOUT)
        self.assertEqual(job.returncode, 0, output)
        self.assertIn("host nowhere can't be reached: agent has ended with exit code 255: "
                      "no route to nowhere", output)
        self.assertEqual(self.epochs("alone"), 3)

    def test_a_host_that_was_lost_keeps_no_snapshots(self):
        """Once it can be reached again; the run has ended without it."""
        how, options = self.agent()
        job = self.launch("left", 100000, "--hosts", "localhost,two", *options, ranks=1, **how)
        self.wait_until(lambda: self.epochs("left") >= 5, job)
        write(self.path("lost-two"), "")
        for process in map(int, filter(str.isdigit, os.listdir("/proc"))):
            try:
                with open(f"/proc/{process}/environ", "rb") as file:
                    if f"FAKE_HOST={self.path('two')}".encode() in file.read().split(b"\0"):
                        os.kill(process, signal.SIGKILL)
            except OSError:
                pass
        self.wait_until(lambda: [event["event"] for event in self.events("left")].count("recovered"),
                        job)
        os.remove(self.path("lost-two"))
        self.assertEqual(self.events("left")[-1]["hosts"], ["localhost"])
        job.send_signal(signal.SIGTERM)
        output, _ = job.communicate(timeout=TIMEOUT)
        done = str(self.epochs("left"))
        job = self.launch("left", done, "--hosts", "localhost", *options, ranks=1,
                          more=["--resume"], **how)
        output, _ = job.communicate(timeout=TIMEOUT)
        self.assertEqual(job.returncode, 0, output)
        identity = json.loads(self.read("left", "snapshots.json"))["id"]
        words = self.read("words-two").decode().splitlines()[-1].split()
        self.assertEqual(words[-1], self.path("memory", "atoll-" + identity))
        self.assertNotIn("can't be reached; unless it was restarted", output)

    def test_a_host_that_is_asked_removes_snapshots(self):
        folders = [self.path("memory", name) for name in ("atoll-" + 32 * "a", "atoll-data")]
        for folder in folders:
            write(os.path.join(folder, "host.state.0"), "x")
            os.chmod(folder, 0o700)
        run(["launch-probe", "127.0.0.1:1", "key", "host", "another-key", *folders], self.folder)
        self.assertEqual([os.path.exists(folder) for folder in folders], [False, True])

    def test_an_old_run_is_not_touched_unasked(self):
        self.succeed("train", "data", "--run-dir", "there", "--epochs", "1", "--hidden", "4")
        names = sorted(os.listdir(self.path("there")))
        before = {name: self.read("there", name) for name in names if name != "checkpoint"}
        message = self.refuse("launch", "--", "train", "data", "--run-dir", "there", "--epochs", "9",
                              "--hidden", "4")
        self.assertIn("--run-dir there: holds a run already", message)
        self.assertEqual(sorted(os.listdir(self.path("there"))), names)
        self.assertEqual({name: self.read("there", name) for name in before}, before)

    def test_what_ranks_refuse_is_not_tried_again(self):
        """Also where mpirun takes long to say so: with one rank."""
        for ranks in (1, 2):
            folder = f"foreign{ranks}"
            write(self.path(folder, "notes.txt"), "mine")
            job = self.launch(folder, 5, ranks=ranks)
            output, _ = job.communicate(timeout=TIMEOUT)
            self.assertEqual(job.returncode, 2, output)
            self.assertEqual(output.count("holds notes.txt and no run"), 1, output)
            self.assertNotIn("attempt 2", output)
            self.assertNotIn("failed:", output)

    def test_a_launcher_that_starts_nothing(self):
        """It calls that a success."""
        job = self.launch("nothing", 2, mpirun="true")
        output, _ = job.communicate(timeout=TIMEOUT)
        self.assertEqual(job.returncode, 1, output)
        self.assertIn("exit code 0, but no rank has said that its training is done", output)
        self.assertNotIn("done after", output)
        self.assertFalse(os.path.exists(self.path("nothing")))

    def test_a_signal_at_the_start_leaves_nothing(self):
        """A rank that has not met the others yet: the second one never comes."""
        place = self.path("half.py")
        write(place, "import os, sys, time\nif os.environ['OMPI_COMM_WORLD_RANK'] == '1':\n"
                     "  time.sleep(600)\nos.execv(sys.argv[1], sys.argv[1:])\n")
        mpirun = self.path("half-mpirun.py")
        write(mpirun, "import os, sys\nwords = sys.argv[1:]\n"
                      f"at = words.index({os.path.abspath(ATOLL)!r})\n"
                      f"words[at:at] = [{sys.executable!r}, {place!r}]\n"
                      f"os.execvp({MPIEXEC!r}, [{MPIEXEC!r}, '--bind-to', 'none', *words])\n")
        job = self.launch("early", 2000, mpirun=f"{sys.executable} {mpirun}")
        self.wait_until(lambda: ranks_of("early").keys() == {0, 1}, job)
        time.sleep(0.5)  # rank 0 connects
        job.send_signal(signal.SIGTERM)
        output, _ = job.communicate(timeout=TIMEOUT)
        self.assertEqual(job.returncode, 128 + signal.SIGTERM, output)
        self.assertEqual(ranks_of("early"), {})
        self.assertEqual(os.listdir(self.path("segments-early")), [])
        self.assertFalse(os.path.exists(self.path("early")))
        self.assertNotIn("attempt 2", output)

    def test_what_diverges_is_not_tried_again(self):
        for name, rate in (("wild", "1e6"), ("infinite", "1e30")):
            job = self.launch(name, 20, more=("--lr", rate))
            output, _ = job.communicate(timeout=TIMEOUT)
            self.assertEqual(job.returncode, 1, output)
            self.assertIn("the run has diverged", output)
            self.assertNotIn("attempt 2", output)

    def launcher(self, name, code):
        """The words of a launcher that runs `code` before mpirun."""
        place = self.path(name + ".py")
        write(place, f"import os, sys, time\n{code}\nos.execvp({MPIEXEC!r}, [{MPIEXEC!r}, "
                     "'--bind-to', 'none', *sys.argv[1:]])\n")
        return f"{sys.executable} {place}"

    def test_a_slow_start_is_waited_for(self):
        """One that computes for longer than --start-timeout; but not one that stands still."""
        for pause, code in ((0, 0), (60, 1)):
            mpirun = self.launcher(f"slow{pause}", "end = time.monotonic() + 4\n"
                                   f"while time.monotonic() < end: pass\ntime.sleep({pause})")
            job = self.launch(f"slow{pause}", 3, "--start-timeout", "2s", mpirun=mpirun)
            output, _ = job.communicate(timeout=TIMEOUT)
            self.assertEqual(job.returncode, code, output)
            if pause:
                self.assertIn("waiting: none of 2 ranks has reported after 1 s", output)
                self.assertIn("0 of 2 ranks have started, and there was no sign of others for 2 s",
                              output)

    def test_a_first_attempt_that_makes_no_run_overwrites_later(self):
        """Its rank meets the others, and is lost before it has touched the old run."""
        for more in ([], ["--overwrite"]):
            job = self.launch("anew", 3, ranks=1, more=more)
            output, _ = job.communicate(timeout=TIMEOUT)
            self.assertEqual(job.returncode, 0, output)
            self.assertEqual([event["event"] for event in self.events("anew")], ["started", "done"])
        mpirun = self.launcher("lost-once", f"""import socket
if not os.path.exists({self.path("lost-once")!r}):
    open({self.path("lost-once")!r}, "w").close()
    host, port = os.environ["ATOLL_SUPERVISOR"].rsplit(":", 1)
    link = socket.create_connection((host, int(port)))
    key = os.environ["ATOLL_SUPERVISOR_KEY"]
    link.sendall(f"hello {{key}} 0 1 {{socket.gethostname()}} {{os.getpid()}}\\nready\\n".encode())
    time.sleep(1)
    sys.exit(1)""")
        job = self.launch("anew", 3, ranks=1, mpirun=mpirun, more=["--overwrite"])
        output, _ = job.communicate(timeout=TIMEOUT)
        self.assertEqual(job.returncode, 0, output)
        self.assertIn("attempt 2", output)
        self.assertIn("epoch 1/3 ", output)
        self.assertEqual(self.epochs("anew"), 3)
        self.assertEqual([event["event"] for event in self.events("anew")][:3],
                         ["started", "failed", "started"])

    def test_a_launcher_that_does_not_end_with_its_ranks(self):
        """As mpirun does whose host is lost just then."""
        place = self.path("lingers.py")
        write(place, f"import subprocess, sys, time\nsubprocess.run([{MPIEXEC!r}, '--bind-to', 'none', "
                     "*sys.argv[1:]])\ntime.sleep(600)\n")
        job = self.launch("lingers", 5, mpirun=f"{sys.executable} {place}")
        output, _ = job.communicate(timeout=TIMEOUT)
        self.assertEqual(job.returncode, 0, output)
        self.assertEqual([event["event"] for event in self.events("lingers")], ["started", "done"])
        self.assertEqual(self.epochs("lingers"), 5)

    def test_a_device_that_is_gone_is_a_failure(self):
        """Exit code 2 of words that have trained before."""
        mark = self.path("gone.mark")
        mpirun = self.launcher("gone", f"if os.path.exists({mark!r}):\n  os.remove({mark!r})\n"
                               "  sys.exit(2)")
        job = self.launch("gone", 400, mpirun=mpirun)
        self.wait_until(lambda: self.epochs("gone") >= 5, job)
        write(mark, "")
        self.kill_rank(1, "gone", job)
        output, _ = job.communicate(timeout=TIMEOUT)
        self.assertEqual(job.returncode, 0, output)
        self.assertIn("the job has ended with exit code 2", output)
        self.assertEqual(self.events("gone")[-1]["failures"], 2)

    def test_a_launcher_that_is_not_there(self):
        train = ["--", "train", "data", "--run-dir", "never"]
        for mpirun in ("no-such-launcher", "/nonexistent --bind-to none"):
            self.assertIn(f"--mpirun {mpirun}: '{mpirun.split()[0]}' is no program",
                          self.refuse("launch", "--mpirun", mpirun, *train))
        # One that can't run is only known once it was tried.
        write(self.path("launcher"), "#!/nonexistent/shell\n")
        os.chmod(self.path("launcher"), 0o755)
        result = run(["launch", "--mpirun", self.path("launcher"), *train], self.folder)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("it could not start", result.stderr)
        self.assertFalse(os.path.exists(self.path("never")))


@unittest.skipIf(is_open_mpi(), "needs another MPI than Open MPI")
class OtherMpiTest(unittest.TestCase):
    def test_is_told_what_to_do_instead(self):
        result = run(["launch", "--", "train", "data", "--run-dir", "never"], "/")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("but this program was built with", result.stderr)


if __name__ == "__main__":
    unittest.main()
