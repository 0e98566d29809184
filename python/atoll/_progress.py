"""Shows how a training goes on: one line that renews itself, on a terminal or in a notebook."""

import html
import json
import os
import secrets
import select
import socket
import sys
import time


class MetricsFollower:
    """The records that a run adds to its metrics.jsonl, as they come."""

    def __init__(self, path):
        self._path = path
        self._file = None

    def skip(self):
        """Past what is there already."""
        self.take()

    def close(self):
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self):
        """The file of that name. It is kept open: a new one (--overwrite) has another number then."""
        try:
            number = os.stat(self._path).st_ino
        except FileNotFoundError:
            return None
        if self._file is None or os.fstat(self._file.fileno()).st_ino != number:
            self.close()
            self._file = open(self._path, "rb")
        return self._file

    def take(self):
        file = self._opened()
        if file is None:
            return []
        start = file.tell()
        data = file.read()
        whole = data[:data.rfind(b"\n") + 1]  # the last line may be half-written
        file.seek(start + len(whole))
        return [json.loads(line) for line in whole.splitlines()]


class Questions:
    """A training's question after each epoch whether it is to go on: the other end of the engine's
    EpochQuestions. So a function that stops a training does so after the epoch that it was called
    for."""

    VARIABLE = "ATOLL_PROGRESS"

    def __init__(self, local):
        """local: the first rank is on this machine."""
        self._key = secrets.token_hex(16)
        self._listener = socket.create_server(("127.0.0.1" if local else "", 0))
        self._listener.setblocking(False)
        host = "127.0.0.1" if local else socket.gethostname()
        self.variables = {self.VARIABLE: f"{host}:{self._listener.getsockname()[1]} {self._key}"}
        self._peer = None
        self._data = b""
        self._pending = False
        self.has_asked = False  # from then on, it says every epoch here

    def connected(self):
        """Whether a training asks at the moment."""
        while self._peer is None:
            try:
                peer, _ = self._listener.accept()
            except BlockingIOError:
                return False
            peer.settimeout(5)
            hello = peer.makefile("rb", buffering=0).readline(100)
            if hello.split() != [b"hello", self._key.encode()]:
                peer.close()  # some other program
                continue
            peer.settimeout(None)
            self._peer, self._data = peer, b""
            self.has_asked = True
        return True

    def next(self, seconds):
        """The record of an epoch, which is to be answered; None if none has come."""
        if not self.connected():
            return None
        while b"\n" not in self._data:
            if not select.select([self._peer], [], [], seconds)[0]:
                return None
            data = self._peer.recv(1 << 16)
            if not data:  # it has ended, or is started again
                self._peer.close()
                self._peer = None
                time.sleep(seconds)
                return None
            self._data += data
        self._pending = True
        line, _, self._data = self._data.partition(b"\n")
        return json.loads(line)

    def answer(self, text):
        if self._peer is None or not self._pending:
            return
        self._pending = False
        try:
            self._peer.sendall(text.encode() + b"\n")
        except OSError:  # it has ended
            pass

    def close(self):
        if self._peer is not None:
            self._peer.close()
        self._listener.close()


class ProgressLine:
    """epoch 120/200  loss 0.512  valid 0.791 (best 0.794)  12 ms per epoch"""

    INTERVAL = 0.2  # seconds

    def __init__(self, epochs, stream=None, before="", best=max):
        """best: max or min, of the metric."""
        self._before = before
        self._better = best
        self._epochs = epochs
        self._stream = stream or sys.stderr
        self._best = None
        self._shown = 0.0
        self._display = _notebook_display()
        self._terminal = self._stream.isatty() if hasattr(self._stream, "isatty") else False
        self._text = ""

    def __call__(self, record):
        valid = record.get("valid")
        if valid is not None:
            self._best = valid if self._best is None else self._better(self._best, valid)
        self._text = f"{self._before}epoch {record['epoch']}" + (f"/{self._epochs}" if self._epochs else "")
        self._text += f"  loss {record['loss']:.4f}"
        if self._best is not None:
            self._text += "" if valid is None else f"  valid {valid:.4f}"
            self._text += f" (best {self._best:.4f})"
        self._text += f"  {record['epoch_ms']:.0f} ms per epoch"
        if time.monotonic() - self._shown >= self.INTERVAL:
            self._show()

    def _show(self):
        self._shown = time.monotonic()
        if self._display is not None:
            self._display.update(_Line(self._text))
        elif self._terminal:
            # A line that wraps could not be wiped.
            room = _columns_of(self._stream) - 1
            self._stream.write(f"\r\033[K{self._text[:room]}")
            self._stream.flush()

    def end(self, why=None):
        """why: text on why it is not the last of all epochs."""
        if not self._text:
            return
        if why and self._display is not None:
            self._text += f"  {why}"
        self._show()
        if self._display is None and self._terminal:
            self._stream.write(f"\n{why}\n" if why else "\n")


def _columns_of(stream):
    """The width of a terminal; 80 where it does not say."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, AttributeError, ValueError):
        return 80


class _Line:
    """Text, for notebooks also as HTML."""

    def __init__(self, text):
        self._text = text

    def __repr__(self):
        return self._text

    def _repr_html_(self):
        return f'<code style="background:none">{html.escape(self._text)}</code>'


def _notebook_display():
    """A place of the cell's output that can be renewed, or None where this is no notebook."""
    shell = sys.modules.get("IPython")
    shell = shell.get_ipython() if shell is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display
    return display(_Line("preparing ..."), display_id=True)
