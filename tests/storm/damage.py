"""Ways to damage one file: each takes its bytes and random numbers, and returns other bytes, or None
where it can't."""

import os
import re
import shutil

NUMBER = re.compile(rb"-?\b\d+(?:\.\d+)?(?:[eE][-+]?\d+)?\b")
STRING = re.compile(rb"\"[^\"\n]*\"|'[^'\n]*'")
TEXT = (".json", ".jsonl", ".toml")
NAN = b"\x00\x00\xc0\x7f"


def flip(content, numbers):
    """One bit."""
    place = numbers.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << numbers.randrange(8)]) + content[place + 1:]


def zero(content, numbers):
    """A range of zeroes, as a lost page leaves."""
    begin = numbers.randrange(len(content))
    length = min(len(content) - begin, numbers.choice([1, 4, 64, 512, 4096]))
    return content[:begin] + bytes(length) + content[begin + length:]


def truncate(content, numbers):
    return content[:numbers.randrange(len(content))]


def append(content, numbers):
    return content + numbers.choice([b"\n", b"\0", b"}", b"{}\n", bytes(4096),
                                     numbers.randbytes(numbers.randint(1, 100))])


def empty(_content, _numbers):
    return b""


def repeat(content, numbers):
    """One range lies over another one, as after a write to the wrong place."""
    if len(content) < 2:
        return None
    length = numbers.randint(1, min(4096, len(content) // 2))
    source, target = (numbers.randrange(len(content) - length + 1) for _ in range(2))
    return content[:target] + content[source:source + length] + content[target + length:]


def not_a_number(content, numbers):
    """Four bytes are a float's NaN."""
    if len(content) < 8:
        return None
    place = numbers.randrange(len(content) // 4) * 4
    return (content[:place] + NAN + content[place + 4:])[:len(content)]


def _edit(content, pattern, numbers, replace):
    found = list(pattern.finditer(content))
    if not found:
        return None
    match = numbers.choice(found)
    return content[:match.start()] + replace(match.group()) + content[match.end():]


def edit_number(content, numbers):
    def replace(old):
        near = [b"%d" % (int(old) + 1), b"%d" % (int(old) - 1)] if old.isdigit() else []
        return numbers.choice([*near, *near, b"-1", b"0", b"1e999", b"4294967296", b"0.5", b"null",
                               b"\"7\"", old + b"0", b"[" + old + b"]"])
    return _edit(content, NUMBER, numbers, replace)


def edit_string(content, numbers):
    def replace(old):
        mark = old[:1]
        return numbers.choice([mark + mark, mark + b"x" + old[1:-1] + mark, b"7", b"null",
                               mark + old[2:] if len(old) > 2 else b"7",
                               mark + b"../" + old[1:], mark + b"\\u001b[2J" + old[1:]])
    return _edit(content, STRING, numbers, replace)


BINARY_KINDS = [flip, flip, flip, zero, zero, truncate, append, repeat, not_a_number, empty]
TEXT_KINDS = [flip, flip, zero, truncate, append, repeat, empty,
              edit_number, edit_number, edit_number, edit_string, edit_string]
# Damage to the file as a whole.
FILE_KINDS = ["delete", "swap", "swap", "folder", "fifo"]


def damage(folder, path, numbers):
    """Damages folder/path and returns how, in words, and the other file that is concerned (of a
    swap; otherwise None)."""
    full = os.path.join(folder, path)
    if numbers.random() < 0.15:
        return damage_whole(folder, path, numbers.choice(FILE_KINDS), numbers)
    with open(full, "rb") as file:
        old = file.read()
    while True:
        kind = numbers.choice(TEXT_KINDS if path.endswith(TEXT) else BINARY_KINDS)
        new = kind(old, numbers)
        if new is not None and new != old:
            break
    with open(full, "wb") as file:
        file.write(new)
    return f"{kind.__name__}: {describe(old, new)}", None


def describe(old, new):
    """Where two contents differ first, and what stands there."""
    place = next((i for i, (a, b) in enumerate(zip(old, new)) if a != b), min(len(old), len(new)))
    show = slice(max(0, place - 20), place + 20)
    return f"{len(old)} to {len(new)} bytes; at {place} {old[show]!r} became {new[show]!r}"


def damage_whole(folder, path, kind, numbers):
    full = os.path.join(folder, path)
    if kind == "swap":
        other = partner(folder, path, numbers)
        if other is not None:
            shutil.move(full, full + ".old")
            shutil.move(os.path.join(folder, other), full)
            shutil.move(full + ".old", os.path.join(folder, other))
            return f"swap with {other}", other
    os.remove(full)
    if kind == "folder":
        os.mkdir(full)
    elif kind == "fifo":
        os.mkfifo(full)
    else:
        kind = "delete"
    return kind, None


def partner(folder, path, numbers):
    """A file of the same name in another part, or of the same type in the same folder."""
    with open(os.path.join(folder, path), "rb") as file:
        mine = file.read()
    found = []
    for place, _, names in os.walk(folder):
        for name in names:
            other = os.path.relpath(os.path.join(place, name), folder)
            same = name == os.path.basename(path) or os.path.dirname(other) == os.path.dirname(path)
            if not same or other == path or os.path.splitext(name)[1] != os.path.splitext(path)[1]:
                continue
            with open(os.path.join(folder, other), "rb") as file:
                if file.read() != mine:
                    found.append(other)
    return numbers.choice(sorted(found)) if found else None
