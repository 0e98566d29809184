"""One archive of all results of gpu-check.sh: written whole or not at all, read without trust."""

import importlib.util
import io
import os
import re
import shutil
import tarfile

# The beginning and the end of a longer log are kept, the less the larger all is together: where
# results come back file by file, larger ones may be left there.
LOG_BYTES = (512 * 1024, 128 * 1024, 32 * 1024, 8 * 1024)
ARCHIVE_BYTES = 16 << 20
MEMBER = re.compile(r"checks/[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")


def compression():
    """The best that this Python can write, the program xz or not."""
    return "xz" if importlib.util.find_spec("_lzma") else "gz"


def suffix():
    return f".tar.{compression()}"


def shortened(path, most):
    """The bytes of a file, without the middle of a log of more than `most`."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        if path.suffix != ".txt" or size <= most:
            return file.read()
        start = file.read(most // 2)
        file.seek(size - most // 2)
        middle = f"\n[... {size - most} bytes left out ...]\n".encode()
        return start + middle + file.read()


def write_archive(out, archive):
    """Everything in the folder `out` but data sets, as ARCHIVE."""
    unfinished = archive.with_name(archive.name + ".part")
    for most in LOG_BYTES:
        write_members(out, archive, unfinished, most)
        if unfinished.stat().st_size <= ARCHIVE_BYTES:
            break
    os.replace(unfinished, archive)


def write_members(out, archive, unfinished, most):
    with tarfile.open(unfinished, f"w:{compression()}") as tar:
        for path in sorted(out.rglob("*")):
            inside = path.relative_to(out)
            if inside.parts[0] == "data" or not path.is_file() or path == unfinished:
                continue
            if path.suffix == ".part" or path == archive:
                continue
            content = shortened(path, most)
            member = tarfile.TarInfo(str(inside))
            member.size = len(content)
            member.mtime = int(path.stat().st_mtime)
            tar.addfile(member, io.BytesIO(content))


def read_archive(archive, out):
    """The checks of an earlier call into the folder `out`, unless it has them already; nothing else
    that an archive may hold. Throws OSError or tarfile.TarError."""
    known = {path.name for path in (out / "checks").glob("*")}
    with tarfile.open(archive, "r:*") as tar:
        for member in tar:
            if not member.isfile() or not MEMBER.fullmatch(member.name) or ".." in member.name:
                continue
            target = out / member.name
            if target.parent.name in known:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with tar.extractfile(member) as source, open(target, "wb") as file:
                shutil.copyfileobj(source, file)
