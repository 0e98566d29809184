"""Runs one peer for a measurement, with limits of time and memory, and says how it ended."""

import dataclasses
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from peer_options import SKIPPED

POLL_SECONDS = 0.2  # rarely enough to take nothing from what is measured
SECONDS_TO_END = 10  # after SIGTERM, before SIGKILL


@dataclasses.dataclass
class Outcome:
    """state: ok, skipped or failed. reason: of the last two. output: stdout of the first."""
    state: str
    reason: str = ""
    output: str = ""


def session_members(leader):
    """(process, resident bytes) of every process of the session of `leader`."""
    members = []
    page = os.sysconf("SC_PAGE_SIZE")
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            # The name, in parentheses, may hold anything; state, parent, group, session follow.
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[3]) == leader:
                resident = int((entry / "statm").read_text().split()[1]) * page
                members.append((int(entry.name), resident))
        except (OSError, IndexError, ValueError):
            continue  # it has ended meanwhile
    return members


def end_session(process):
    """Ends a process and what it has started (mpirun gives each rank a process group)."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for member, _ in session_members(process.pid):
            try:
                os.kill(member, number)
            except ProcessLookupError:
                pass
        try:
            process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            continue
        if not session_members(process.pid):
            return


def wait_within(process, seconds, memory_bytes):
    """Waits for its end; None, or the limit that it has reached and that ended it."""
    deadline = time.monotonic() + seconds
    try:
        while True:
            try:
                process.wait(POLL_SECONDS)
                return None
            except subprocess.TimeoutExpired:
                pass
            if time.monotonic() > deadline:
                return f"ended at the limit of {seconds:g} s"
            if sum(resident for _, resident in session_members(process.pid)) > memory_bytes:
                return f"ended at the limit of {memory_bytes / 1e9:.1f} GB of memory"
    finally:
        if process.poll() is None:
            end_session(process)


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if any(map(str.isalnum, line))]
    return lines[-1] if lines else "no message"


def run(words, environment, seconds, memory_bytes):
    """Runs the words in a session of their own."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=errors, env=environment, start_new_session=True)
        except OSError as error:
            return Outcome("failed", f"{words[0]}: {error.strerror}")
        limit = wait_within(process, seconds, memory_bytes)
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    if limit is not None:
        return Outcome("failed", limit)
    code = process.returncode
    if code == 0:
        return Outcome("ok", output=texts[0])
    message = last_line(texts[1])
    if code == SKIPPED:
        return Outcome("skipped", message.removeprefix("skipped: "))
    if code < 0:
        return Outcome("failed", f"ended by {signal.Signals(-code).name}: {message}")
    return Outcome("failed", f"exit code {code}: {message}")
