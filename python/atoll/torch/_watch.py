"""Ends all processes of a job when one of them fails, with a message that names it.

Without it a rank whose neighbour is gone learns of a closed connection at best, and waits for half
an hour at worst. Every rank keeps a connection to rank 0, in a thread of its own, so that a rank
that computes, or waits in a collective, ends as well."""

import atexit
import os
import secrets
import selectors
import socket
import sys
import threading
import time

import torch.distributed as dist

from atoll._errors import AtollError
from atoll._program import log

KEY = "atoll.torch/watch"
ENDED = "its process has ended"
CONNECT_SECONDS = 20
VERDICT_SECONDS = 3  # that a broken connection waits for the news who failed
LAST_SECONDS = 0.5  # until others have heard of a failure


class Watch:
    """One per process of a job of several."""

    def __init__(self, rank, size, store):
        self.rank, self.size = rank, size
        self._lines = {}  # by connection: what has come of a line
        self._rank_of = {}
        self._done = set()
        self._closing = False
        self._verdict = threading.Event()
        self._selector = selectors.DefaultSelector()
        self._waking, self._wakened = socket.socketpair()
        self._selector.register(self._wakened, selectors.EVENT_READ)
        self._lock = threading.Lock()
        self._connect(store)
        self._thread = threading.Thread(target=self._run, name="atoll.torch watch", daemon=True)
        self._thread.start()
        self._hook = sys.excepthook
        sys.excepthook = self._on_exception
        atexit.register(self._on_exit)

    def _connect(self, store):
        if self.rank == 0:
            self._token = secrets.token_hex(8)
            listener = socket.create_server(("", 0), backlog=self.size)
            self._selector.register(listener, selectors.EVENT_READ)
            host = os.environ.get("MASTER_ADDR", socket.gethostname())
            store.set(KEY, f"{host} {listener.getsockname()[1]} {self._token}")
            return
        host, port, token = store.get(KEY).decode().split()
        connection = socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS)
        connection.settimeout(None)
        self._add(connection, 0)
        self._send(connection, f"hello {self.rank} {token}")

    def _add(self, connection, rank=None):
        self._lines[connection] = b""
        self._rank_of[connection] = rank
        self._selector.register(connection, selectors.EVENT_READ)

    def _send(self, connection, line):
        try:
            connection.sendall(line.encode().replace(b"\n", b" ") + b"\n")
        except OSError:  # gone: reading tells
            pass

    def _tell_all(self, line):
        with self._lock:
            connections = [c for c, rank in self._rank_of.items() if rank is not None]
        for connection in connections:
            self._send(connection, line)

    def _run(self):
        while not self._closing:
            for key, _ in self._selector.select():
                if key.fileobj is self._wakened:
                    return
                if key.fileobj not in self._lines:
                    connection, _ = key.fileobj.accept()
                    with self._lock:
                        self._add(connection)
                else:
                    self._read(key.fileobj)

    def _read(self, connection):
        try:
            received = connection.recv(65536)
        except OSError:
            received = b""
        if not received:
            rank = self._rank_of[connection]
            with self._lock:
                self._selector.unregister(connection)
                del self._lines[connection], self._rank_of[connection]
            if rank is not None and rank not in self._done and not self._closing:
                self._fail(rank, ENDED)
            return
        *lines, self._lines[connection] = (self._lines[connection] + received).split(b"\n")
        for line in lines:
            self._hear(connection, line.decode(errors="replace"))

    def _hear(self, connection, line):
        word, rank, *rest = [*line.split(" ", 2), ""]
        if not rank.isdigit():  # a stranger
            return
        rank = int(rank)
        if word == "hello":
            if rest[0] == self._token:
                self._rank_of[connection] = rank
        elif self._rank_of[connection] is None:  # a stranger
            return
        elif word == "done":
            self._done.add(rank)
            if self.rank == 0:
                self._tell_all(line)
        elif word == "failed":
            self._fail(rank, rest[0])

    def _fail(self, rank, text):
        """Another rank has failed: this one ends, too."""
        if self._closing:
            return
        self._verdict.set()
        if self.rank == 0:
            self._tell_all(f"failed {rank} {text}")
        try:
            print(f"atoll.torch: rank {self.rank} ends, because rank {rank} has failed: {text}",
                  file=sys.stderr, flush=True)
            sys.stdout.flush()
        finally:  # whoever read that may have gone
            os._exit(1)

    def _on_exception(self, kind, error, trace):
        # Perhaps another rank failed before, and this one knows nothing but that a connection broke.
        if issubclass(kind, RuntimeError) and not issubclass(kind, AtollError):
            self._verdict.wait(VERDICT_SECONDS)
        self._hook(kind, error, trace)
        gone = f" (ranks {sorted(self._done)} had ended before)" if self._done else ""
        text = f"{kind.__name__}: {error}{gone}"
        print(f"atoll.torch: rank {self.rank} of {self.size} has failed: {text}", file=sys.stderr,
              flush=True)
        self._closing = True
        self._tell_all(f"failed {self.rank} {text[:2000]}")
        time.sleep(LAST_SECONDS)

    def _on_exit(self):
        if self._closing:
            return
        self._closing = True
        self._tell_all(f"done {self.rank}")
        # No thread may run when Python ends: this one, and those of Gloo.
        self._waking.send(b"x")
        self._thread.join(LAST_SECONDS)
        if dist.is_initialized():
            dist.destroy_process_group()


def watch(rank, size, store):
    """A Watch, or None where ranks can't reach rank 0: they end by their time-outs then."""
    try:
        return Watch(rank, size, store)
    except OSError as error:
        log.warning("rank %d can't reach rank 0 (%s): if a rank fails, the others find out by the "
                    "time-out of torch.distributed", rank, error)
        return None
