#!/usr/bin/env python3
"""The CPU image installs every library that the program links: its last stage has no compilers and
headers, by which libraries come along elsewhere."""

import pathlib
import re
import shutil
import subprocess
import unittest

from cli_support import ATOLL

DOCKERFILE = pathlib.Path(__file__).resolve().parents[2] / "launch" / "packaging" / "Dockerfile"
# Packages of every Debian system: dpkg and apt need them.
BASE = {"libc6", "libgcc-s1", "libstdc++6", "zlib1g"}


def output(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def debian_of(text):
    """The codename in the last FROM line, or in /etc/os-release."""
    return re.findall(r"^(?:FROM debian:|VERSION_CODENAME=)([a-z]+)", text, re.M)[-1:]


def installed_packages(dockerfile):
    """The packages that the last stage installs."""
    stage = dockerfile.replace("\\\n", " ").split("\nFROM ")[-1]
    words = re.search(r"apt-get install ([^&]*)", stage)[1].split()
    return {word for word in words if not word.startswith("-")}


def linked_packages(program):
    """Library that the program itself asks for -> the packages that have one of its name."""
    libraries = re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "-d", program))
    return {library: {line.split(":")[0] for line in output("dpkg", "-S", f"*/{library}").splitlines()}
            for library in libraries}


class PackagingTest(unittest.TestCase):
    def test_the_image_has_what_the_program_links(self):
        dockerfile = DOCKERFILE.read_text(encoding="utf-8")
        release = pathlib.Path("/etc/os-release")
        here = release.read_text(encoding="utf-8") if release.exists() else ""
        if not shutil.which("dpkg") or debian_of(here) != debian_of(dockerfile):
            self.skipTest("this is not the Debian of the image")
        linked = linked_packages(ATOLL)
        if not any(library.startswith("libmpi.so") for library in linked):
            self.skipTest("the program has not the MPI library of the image")
        there = installed_packages(dockerfile) | BASE
        missing = {library: owners for library, owners in linked.items() if not owners & there}
        self.assertEqual(missing, {}, f"{DOCKERFILE} must install them")


if __name__ == "__main__":
    unittest.main(verbosity=2)
