"""One archive of all results of gpu-check.sh: written whole or not at all, read without trust."""

import io
import os
import re
import shutil
import tarfile

LOG_BYTES = 512 * 1024  # of a longer log the beginning and the end are kept
MEMBER = re.compile(r"checks/[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")


def shortened(path):
    """The bytes of a file, without the middle of a long log."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        if path.suffix != ".txt" or size <= LOG_BYTES:
            return file.read()
        start = file.read(LOG_BYTES // 2)
        file.seek(size - LOG_BYTES // 2)
        middle = f"\n[... {size - LOG_BYTES} bytes left out ...]\n".encode()
        return start + middle + file.read()


def write_archive(out, archive):
    """Everything in the folder `out` but data sets, as ARCHIVE (.tar.xz)."""
    unfinished = archive.with_name(archive.name + ".part")
    with tarfile.open(unfinished, "w:xz") as tar:
        for path in sorted(out.rglob("*")):
            inside = path.relative_to(out)
            if inside.parts[0] == "data" or not path.is_file() or path == unfinished:
                continue
            if path.suffix == ".part" or path == archive:
                continue
            content = shortened(path)
            member = tarfile.TarInfo(str(inside))
            member.size = len(content)
            member.mtime = int(path.stat().st_mtime)
            tar.addfile(member, io.BytesIO(content))
    os.replace(unfinished, archive)


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
