"""Probes for what a host may lack: a check that needs it is skipped with the reason, not failed."""

import os
import shutil
import subprocess

from gpu_check_judge import last_line

IMPORT_TORCH = "import torch, torch_geometric; assert torch.cuda.is_available(), 'no GPU for torch'"
SECONDS = 60  # at most, for any of these to answer


def installed(program):
    return "" if shutil.which(program) else f"{program} is not installed"


def torch(python, seconds):
    try:
        result = subprocess.run([python, "-c", IMPORT_TORCH], capture_output=True, text=True,
                                timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if result.returncode == 0 else f"{python}: {last_line(result.stderr)}"


def sanitizer(build, environment, tool, seconds):
    """A tool that does not know the device says so at the first test."""
    missing = installed("compute-sanitizer")
    if missing:
        return missing
    words = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9",
             f"{build}/test_kernels", "--gtest_filter=*MemoryIsAligned/cuda"]
    try:
        result = subprocess.run(words, capture_output=True, text=True, timeout=seconds, check=False,
                                env={**os.environ, **environment})
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if "[  PASSED  ] 1 test" in result.stdout:
        return ""
    return f"{tool} does not run here: {last_line(result.stdout + result.stderr)}"


class Probes:
    """Answers each question once."""

    def __init__(self, build, python, environment, deadline):
        self.build, self.python, self.environment = build, python, environment
        self.deadline = deadline
        self.answers = {}

    def problem(self, name):
        """Why what `name` stands for can't be used; nothing if it can, or if no name is given."""
        if name and name not in self.answers:
            self.answers[name] = self._ask(name)
        return self.answers.get(name, "")

    def _ask(self, name):
        seconds = self.deadline.limit(SECONDS)
        kind, _, tool = name.partition(":")
        if kind == "torch":
            return torch(self.python, seconds)
        if kind == "sanitizer":
            return sanitizer(self.build, self.environment, tool, seconds)
        return installed(name)
