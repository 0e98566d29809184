"""Collects what Atoll's programs need on a host that can't build them, for gpu-pack.sh: the programs
with the shared libraries they name and OpenMPI, all found by where they lie; what linking them anew
takes; and the headers that the CUDA kernels include.

gpu_pack.py BUILD FOLDER PROGRAM...   (BUILD: a folder that CMake and Ninja have built)"""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

# The C and C++ libraries are the host's: another copy of them in one process breaks more than it
# mends, and a host's PyTorch has been built for its own.
OF_THE_HOST = re.compile(r"(ld-linux.*|linux-vdso|lib(c|m|dl|pthread|rt|util|resolv|stdc\+\+|gcc_s))\.so.*")
KERNELS = "kernels/cuda/libatoll_kernels_cuda.a"
RPATH = r"-Wl,--disable-new-dtags,-rpath,\$ORIGIN/lib"

ENVIRONMENT = """\
# Source this (bash) to use the OpenMPI that lies beside it.
_here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PATH=$_here/openmpi/bin:$PATH OPAL_PREFIX=$_here/openmpi OPAL_SYSCONFDIR=$_here/openmpi/etc
export OMPI_MCA_plm=isolated  # ranks start on this host alone, without ssh
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp  # plugins for fabrics were left behind
unset _here
"""

# Plugins name some libraries by folders of the machine they were built on.
MPIRUN = """\
#!/usr/bin/env bash
top=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)
export LD_LIBRARY_PATH=$top/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PMIX_MCA_mca_base_component_path=$top/openmpi/pmix
exec "$top/openmpi/bin/orterun" "$@"
"""


def fail(message):
    sys.exit(f"gpu-pack.sh: {message}")


def output_of(*words, **options):
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True, **options).stdout
    except FileNotFoundError:
        fail(f"{words[0]} is not installed")
    except subprocess.CalledProcessError as error:
        fail(f"{shlex.join(words)}: {error.stderr.strip()}")


def libraries_of(path):
    """Name -> file of the shared libraries that a program or library loads with it."""
    found = {}
    for line in output_of("ldd", str(path)).splitlines():
        match = re.fullmatch(r"\s*(\S+) => (\S+|not found)( \(0x\w+\))?", line)
        if match and not OF_THE_HOST.fullmatch(match[1]):
            if match[2] == "not found":
                fail(f"{path} needs {match[1]}, which is not found")
            found[match[1]] = match[2]
    return found


def copy(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)
    target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)


def last_command(build, target):
    """The words of the command that makes one target of the build."""
    lines = output_of("ninja", "-C", str(build), "-t", "commands", "-s", target).splitlines()
    words = shlex.split(lines[-1])
    return words[words.index("&&") + 1:words.index("&&", words.index("&&") + 1)] \
        if "&&" in words else words


def pack_program(build, pack, name, libraries):
    """Files that linking the program takes, and the words that do it, relative to the pack."""
    words = []
    for word in last_command(build, name):
        path = build / word  # an absolute word stays what it is
        if word.endswith((".o", ".a")):
            if not path.resolve().is_relative_to(build.resolve()):
                if path.stat().st_size < 100:  # an empty archive, as of libraries that libc holds
                    continue
                word = f"system/{path.name}"
            copy(path, pack / "link" / word)
            words.append(f"link/{word}")
        elif re.search(r"\.so[.0-9]*$", word):
            soname = re.search(r"SONAME\s+(\S+)", output_of("objdump", "-p", str(path)))[1]
            libraries[soname] = str(path)
            words.append(f"lib/{soname}")
        elif word in ("-ldl", "-lrt", "-lpthread"):
            words.append(word)
    # A library with search folders of its own (libmpi has) ignores the program's: named by the
    # program, what it needs is there before it asks.
    closure = libraries_of(build / name)
    libraries.update(closure)
    words += ["-Wl,--no-as-needed"] + [f"lib/{soname}" for soname in sorted(closure)]
    (pack / "link" / f"{name}.words").write_text("\n".join([*words, RPATH]) + "\n",
                                                 encoding="utf-8")


def kernel_compiler(build):
    """The build's nvcc and its words for a kernel, less files and folders; nothing if the build has
    no kernels."""
    if not (build / KERNELS).exists():
        return None, []
    query = output_of("ninja", "-C", str(build), "-t", "query", KERNELS)
    objects = [line.strip() for line in query.splitlines() if line.endswith(".cu.o")]
    words = last_command(build, objects[0])
    first = [os.path.basename(word) for word in words].index("nvcc")
    compiler, words = words[first], words[first + 1:]
    kept, skip = [], False
    for word in words:
        if skip or word in ("-c", "-MD"):
            skip = False
        elif word in ("-MT", "-MF", "-o", "-x"):
            skip = True
        elif not word.startswith(("-I", "-isystem")) and not word.endswith(".cu"):
            kept.append(word)
    return compiler, kept


def pack_kernels(build, pack):
    """Packs tools to compile kernels anew: nvcc's words, and headers of other projects that kernels
    include, with those that lie beside them. Returns what they were compiled for."""
    compiler, flags = kernel_compiler(build)
    if not flags:
        return {}
    (pack / "link" / "nvcc.words").write_text("\n".join(flags) + "\n", encoding="utf-8")
    release = re.search(r"release ([0-9]+\.[0-9]+)", output_of(compiler, "--version"))[1]
    (pack / "link" / "cuda.release").write_text(release + "\n", encoding="utf-8")
    folders = set()
    for source in sorted(pathlib.Path("kernels/cuda").glob("*.cu")):
        listed = output_of(compiler, *flags, "-I.", "-M", str(source))
        folders |= set(re.findall(r"/usr/include/(?!c\+\+|linux|asm|x86_64)([^/\s]+)/", listed))
    for folder in sorted(folders - {"c++", "linux", "asm-generic"}):
        shutil.copytree(f"/usr/include/{folder}", pack / "include" / folder)
    code = ",".join(re.findall(r"code=\[([^]]*)\]", " ".join(flags)))
    return {"cuda": release, "code": sorted(code.split(","))}


def plugins_without(folder, known):
    """Plugins that need no library but those known: fabrics and batch systems bring their own."""
    for plugin in sorted(folder.glob("*mca_*.so")):
        if set(libraries_of(plugin)) <= known:
            yield plugin


def pack_openmpi(pack, libraries):
    paths = dict(line.split(":")[1:3] for line in
                 output_of("ompi_info", "--path", "all", "--parsable").splitlines())
    prefix, target = pathlib.Path(paths["prefix"]), pack / "openmpi"
    for program in ("orterun", "orted"):
        found = shutil.which(program) or fail(f"OpenMPI's {program} is not installed")
        copy(os.path.realpath(found), target / "bin" / program)
        libraries.update(libraries_of(found))
    (target / "bin" / "mpirun").write_text(MPIRUN, encoding="utf-8")
    (target / "bin" / "mpirun").chmod(0o755)
    plugins = pathlib.Path(paths["pkglibdir"])
    known = set(libraries)
    for plugin in plugins.glob("mca_pmix_*.so"):  # launchers reach ranks by it
        known |= set(libraries_of(plugin))
    for plugin in plugins_without(plugins, known):
        copy(plugin, target / plugin.relative_to(prefix))
        libraries.update(libraries_of(plugin))
    for name, file in list(libraries.items()):
        if name.startswith("libpmix."):
            own = pathlib.Path(os.path.realpath(file)).parent / "pmix"
            for plugin in plugins_without(own, set(libraries) | {name}):
                copy(plugin, target / "pmix" / plugin.name)
    texts = pathlib.Path(paths["pkgdatadir"])
    shutil.copytree(texts, target / texts.relative_to(prefix))
    shutil.copytree(paths["sysconfdir"], target / "etc")


def main():
    build, pack = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    libraries = {}
    (pack / "link").mkdir(parents=True)
    for name in sys.argv[3:]:
        pack_program(build, pack, name, libraries)
    kernels = pack_kernels(build, pack)
    pack_openmpi(pack, libraries)
    for name, file in sorted(libraries.items()):
        copy(os.path.realpath(file), pack / "lib" / name)
    (pack / "environment.sh").write_text(ENVIRONMENT, encoding="utf-8")
    (pack / "pack.json").write_text(json.dumps(
        {"programs": sys.argv[3:], "libraries": sorted(libraries), **kernels}, indent=1) + "\n",
        encoding="utf-8")


if __name__ == "__main__":
    main()
