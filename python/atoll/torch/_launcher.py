"""Where the launcher's environment says which process this is, and where all of them meet."""

import fcntl
import os
import socket
import struct
import subprocess
import zlib

from atoll._errors import InputError

# Rank, number of ranks, rank on this host, ranks on this host; torchrun first, which may itself run
# inside a job. Of Slurm those of the step: a batch script's own shell has the others, too.
LAUNCHERS = {
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    "mpirun": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
               "OMPI_COMM_WORLD_LOCAL_SIZE"),
    "mpiexec": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    "srun": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""),
}
# Variables by which a program that rank 0 starts is not taken for a rank of the job.
ALONE = {size: "1" for _, size, _, _ in LAUNCHERS.values()}
JOB_NAMES = ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID", "PMI_JOBID")
FIRST_PORT, PORTS = 20000, 12000  # below those that the system hands out
GET_ADDRESS = 0x8915  # SIOCGIFADDR


def number(name):
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else None


def processes():
    """(launcher, rank, size, rank on this host, whether all are on this host); a launcher of None:
    this process is alone."""
    for launcher, (rank, size, local_rank, local_size) in LAUNCHERS.items():
        values = number(rank), number(size)
        if None in values or values[0] >= values[1]:
            continue
        local = number(local_size)
        if launcher == "srun":
            one_host = number("SLURM_STEP_NUM_NODES") == 1
        else:
            one_host = local == values[1]
        return launcher, *values, number(local_rank) or 0, one_host
    return None, 0, 1, 0, True


def _first_host():
    """The first host of a step of Slurm, on which rank 0 is; else None."""
    hosts = os.environ.get("SLURM_STEP_NODELIST")
    if not hosts:
        return None
    try:
        shown = subprocess.run(["scontrol", "show", "hostnames", hosts], check=True, text=True,
                               capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return shown.stdout.split()[0]


def name_meeting_place():
    """Sets MASTER_ADDR and MASTER_PORT, and what else torch.distributed reads, where the launcher
    is not torchrun. Raises InputError where they can't be told."""
    launcher, rank, size, local_rank, one_host = processes()
    if "MASTER_ADDR" not in os.environ:
        address = "127.0.0.1" if one_host else _first_host()
        if address is None:
            raise InputError(f"MASTER_ADDR is not set: {launcher} has started ranks on several hosts "
                             "and does not say where rank 0 is. Set it to the name of that host, as "
                             "in mpirun -x MASTER_ADDR=node1")
        os.environ["MASTER_ADDR"] = address
    if "MASTER_PORT" not in os.environ:
        job = next((os.environ[name] for name in JOB_NAMES if name in os.environ), None)
        if job is None and not one_host:
            raise InputError(f"MASTER_PORT is not set: {launcher} has started ranks on several hosts and "
                             "gives their job no name. Set it to a free port of rank 0's host, such as "
                             "29500")
        job = f"{job or os.getppid()}.{os.environ.get('SLURM_STEP_ID', '')}"
        os.environ["MASTER_PORT"] = str(FIRST_PORT + zlib.crc32(job.encode()) % PORTS)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(local_rank))
    if "GLOO_SOCKET_IFNAME" not in os.environ:
        card = "lo" if one_host else card_towards(os.environ["MASTER_ADDR"])
        if card is not None:
            os.environ["GLOO_SOCKET_IFNAME"] = card


def card_towards(host):
    """Name of the network card by which this host reaches another one, or None. Gloo would take the
    one that the host's name belongs to, which often is that of the loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))  # sends nothing
        except OSError:
            return None
        own = probe.getsockname()[0]
        if own.startswith("127."):  # rank 0's own name
            return None
        for _, name in socket.if_nameindex():
            try:
                found = fcntl.ioctl(probe.fileno(), GET_ADDRESS,
                                    struct.pack("256s", name.encode()[:15]))
            except OSError:  # a card without an address
                continue
            if socket.inet_ntoa(found[20:24]) == own:
                return name
    return None
