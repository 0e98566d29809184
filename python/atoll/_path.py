"""Where a process of Python's own finds what this one has found."""

import os
import sys


def python_path():
    """The variable PYTHONPATH for it, as a dictionary."""
    return {"PYTHONPATH": os.pathsep.join(os.path.abspath(entry or ".") for entry in sys.path)}
