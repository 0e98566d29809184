"""Shared by the tests of the `atoll` program: running it, and making small files for it. ctest sets
ATOLL to the program and MPIEXEC to the launcher."""

import functools
import gzip
import itertools
import json
import os
import struct
import subprocess
import tempfile
import unittest

ATOLL = os.environ.get("ATOLL", "build/atoll")
MPIEXEC = os.environ.get("MPIEXEC", "mpirun")
# Environment variables in which launchers leave a process its rank: Open MPI's and MPICH's.
RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK")
TIMEOUT = 120  # seconds; far beyond what any of these commands needs, so that a hang is an error


def environment():
    """This process's environment, with what OpenMPI wants in containers and on few cores."""
    values = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1",
                  OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1")
    for name in list(values):  # a test itself under mpirun must not pass its rank on
        if name.startswith(("OMPI_COMM_WORLD", "PMIX_", "PMI_")):
            del values[name]
    return values


@functools.cache
def is_open_mpi():
    """Whether the launcher is that of Open MPI, which has options of its own."""
    result = subprocess.run([MPIEXEC, "--version"], env=environment(), capture_output=True,
                            text=True, check=False)
    return "(Open" in result.stdout


def needs_open_mpi(test):
    """Decorates what uses options of Open MPI's mpirun."""
    return unittest.skipUnless(is_open_mpi(), "needs Open MPI")(test)


def run(arguments, folder, ranks=0, timeout=TIMEOUT, program=ATOLL):
    """Runs atoll (or a program of the same commands) with arguments in folder, under mpirun if
    ranks > 0; returns the finished process with its stdout and stderr as text."""
    launcher = [MPIEXEC, "--bind-to", "none", "-n", str(ranks)] if ranks else []
    return subprocess.run(launcher + [os.path.abspath(program)] + arguments, cwd=folder,
                          env=environment(), capture_output=True, text=True, errors="replace",
                          timeout=timeout, check=False)


class OneFolderTest(unittest.TestCase):
    """Runs the program in cls.folder, which setUpClass makes."""
    folder = None

    @classmethod
    def succeed(cls, *arguments):
        result = run([*arguments], cls.folder)
        assert result.returncode == 0, f"{arguments}: {result.stderr}"
        return result.stdout

    def refuse(self, *arguments, ranks=0):
        """Its one error message; it leaves nothing behind."""
        before = set(os.listdir(self.folder))
        result = run([*arguments], self.folder, ranks=ranks)
        self.assertEqual(result.returncode, 2, result.stderr + result.stdout)
        self.assertEqual(result.stderr.count("atoll: error:"), 1, result.stderr)
        self.assertEqual(set(os.listdir(self.folder)), before)
        return result.stderr

    def tensors(self, run_dir):
        """The header of a run's model.safetensors, without the metadata that names the
        commit, and the bytes of all tensors."""
        with open(os.path.join(self.folder, run_dir, "model.safetensors"), "rb") as file:
            length, = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
            header.pop("__metadata__")
            return header, file.read()


def list_tree(folder):
    """Every file and folder below `folder`, with sizes of files."""
    found = set()
    for path, folders, files in os.walk(folder):
        found.update(os.path.join(path, name) for name in folders)
        found.update((os.path.join(path, name), os.path.getsize(os.path.join(path, name)))
                     for name in files)
    return found


def write(path, text):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode())


def write_gz(path, text):
    write(path, gzip.compress(text if isinstance(text, bytes) else text.encode()))


def npy(descr, shape, data, fortran=False):
    """The bytes of a .npy file, version 1."""
    sizes = "(" + "".join(f"{length}, " for length in shape) + ")"
    header = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {sizes}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def read_npy(path):
    """The header and the bytes of the data of a .npy file, version 1."""
    with open(path, "rb") as file:
        content = file.read()
    length = struct.unpack("<H", content[8:10])[0]
    return content[10:10 + length].decode(), bytearray(content[10 + length:])


def numbers(path, code):
    """The numbers of a .npy file, of the type that `code` has in struct."""
    _, data = read_npy(path)
    return list(struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data))


def first_nodes(source, nodes, out, **fields):
    """The part of a dataset that has its first nodes, as a folder with these fields."""
    def read(name, code):
        return numbers(os.path.join(source, name + ".npy"), code)

    row_ptr, col_idx, features = read("row_ptr", "q"), read("col_idx", "i"), read("features", "f")
    rows = [[j for j in col_idx[row_ptr[i]:row_ptr[i + 1]] if j < nodes] for i in range(nodes)]
    starts = list(itertools.accumulate(map(len, rows), initial=0))
    edges = list(itertools.chain(*rows))
    columns = len(features) // (len(row_ptr) - 1)
    for name, descr, code, shape, values in (
            ("row_ptr", "<i8", "q", [nodes + 1], starts), ("col_idx", "<i4", "i", [len(edges)], edges),
            ("features", "<f4", "f", [nodes, columns], features[:nodes * columns]),
            ("labels", "<i4", "i", [nodes], read("labels", "i")[:nodes]),
            ("split", "|u1", "B", [nodes], read("split", "B")[:nodes])):
        write(os.path.join(out, name + ".npy"),
              npy(descr, shape, struct.pack(f"<{len(values)}{code}", *values)))
    write(os.path.join(out, "dataset.json"), json.dumps({"directed": False, **fields}))


def replace_npy_data(path, position, data):
    """Overwrites bytes of the data of a .npy file in place."""
    length = os.path.getsize(path)
    _, old = read_npy(path)
    with open(path, "r+b") as file:
        file.seek(length - len(old) + position)
        file.write(data)


def edit_json(path, **changes):
    """Sets fields of a JSON file; None removes one."""
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    document.update(changes)
    kept = {name: value for name, value in document.items() if value is not None}
    write(path, json.dumps(kept))


# A graph of six nodes in OGB's raw layout, in which every node has two features and a class.
OGB = {
    "raw/num-node-list.csv.gz": "6\n",
    "raw/num-edge-list.csv.gz": "7\n",
    "raw/edge.csv.gz": "0,1\n1,2\n2,0\n3,4\n4,5\n5,3\n2,3\n",
    "raw/node-feat.csv.gz": "1,0\n1,0.5\n1,0\n0,1\n0.5,1\n0,1\n",
    "raw/node-label.csv.gz": "0\n0\n0\n1\n1\n1\n",
    "split/time/train.csv.gz": "0\n3\n",
    "split/time/valid.csv.gz": "1\n4\n",
    "split/time/test.csv.gz": "2\n5\n",
}


def make_ogb(folder, **changes):
    """Writes the six-node set into folder; changes replace files by the last word of their name
    (edge="..."), None leaves one out."""
    for path, text in OGB.items():
        word = os.path.basename(path).split(".")[0].replace("-", "_")
        text = changes.get(word, text)
        if text is not None:
            write_gz(os.path.join(folder, path), text)


class Workplace(tempfile.TemporaryDirectory):
    """A temporary folder with a generated dataset in data/."""

    def __enter__(self):
        path = super().__enter__()
        result = run(["generate", "sbm", "--nodes", "200", "--classes", "4", "--features", "8",
                      "--out", "data"], path)
        if result.returncode != 0:
            raise RuntimeError(f"atoll generate failed: {result.stderr}")
        return path
