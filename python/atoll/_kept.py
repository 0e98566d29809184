"""Things that runs need and that have no place of their own: datasets and files that would end with
the process. It is kept in a folder beside the runs, so that a run can go on in another process."""

import hashlib
import json
import os
import shutil
import tempfile

FOLDER = ".atoll"  # hidden: `atoll report runs/*` takes runs alone


class KeptPlace:
    """RUNS/.atoll/NAME-MARK. The same content, which `what` stands for, has the same place, and is
    kept once."""

    def __init__(self, run_dir, name, what, suffix=""):
        mark = hashlib.sha256(json.dumps(what).encode()).hexdigest()[:8]
        self._folder = os.path.join(os.path.dirname(os.path.abspath(run_dir)), FOLDER)
        self.path = os.path.join(self._folder, f"{name}-{mark}{suffix}")

    def fill(self, make):
        """Calls make(path) if nothing is there yet. It is there complete or not at all."""
        if os.path.exists(self.path):
            return
        os.makedirs(self._folder, exist_ok=True)
        part = tempfile.mkdtemp(prefix="part-", dir=self._folder)
        try:
            make(os.path.join(part, "new"))
            try:
                os.rename(os.path.join(part, "new"), self.path)
            except OSError:
                if not os.path.exists(self.path):
                    raise
                # Another process was first.
        finally:
            shutil.rmtree(part, ignore_errors=True)
