"""A cut by another package in a process of its own: `python -m atoll._cut_process REQUEST.json`. So its
memory can be measured, it can be stopped, and it can't take its caller down."""

import json
import os
import sys

import numpy as np

from atoll import _structure
from atoll._errors import InputError
from atoll._other_cuts import METHODS, Task


def main(request):
    """Makes the cut that a file asks for; writes its parts, and how long the package took."""
    with open(request, encoding="utf-8") as file:
        asked = json.load(file)
    dataset = asked["dataset"]
    row_ptr, col_idx = (np.load(os.path.join(dataset, f"{name}.npy"), mmap_mode="r")
                        for name in ("row_ptr", "col_idx"))
    weights = _structure.node_weights(row_ptr, col_idx, asked["directed"], asked["balance"])
    # Files lie in a folder of the caller, who removes it also if this process is killed.
    task = Task(row_ptr, col_idx, asked["directed"], weights, asked["parts"], asked["shares"],
                asked["imbalance"], asked["objective"], asked["preset"], asked["seed"],
                asked["threads"], asked["folder"])
    parts, seconds = METHODS[asked["method"]].cut(task)
    with open(asked["out"], "wb") as file:
        np.save(file, np.asarray(parts, np.int32))
    # Not on standard output, where packages write, too.
    with open(asked["said"], "w", encoding="utf-8") as file:
        json.dump({"package_seconds": seconds}, file)


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except InputError as error:
        print(f"atoll: error: {error}", file=sys.stderr)
        sys.exit(2)
