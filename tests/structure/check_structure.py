#!/usr/bin/env python3
"""Checks the laws of docs/architecture.md that a compiler doesn't: which folder may include which,
where conditional compilation may stand, that nothing is left out of the build, how comments begin.
Prints every violation as file:line: text and exits with 1 if there is one.
Usage: check_structure.py [ROOT]"""

import os
import re
import sys
import tokenize

# Folder -> folders, or single headers, it may include besides itself and base. Longest matching
# prefix wins.
ALLOWED = {
    "base": [],
    "kernels": [],
    "kernels/reference": ["kernels"],
    "kernels/cpu": ["kernels"],
    "kernels/cuda": ["kernels"],
    "partition": [],
    "datasets": ["partition"],
    "engine/tensor": ["kernels"],
    "engine/comm": ["engine/tensor", "kernels"],
    "engine/comm/mpi": ["engine/comm"],
    "engine/exchange": ["engine/comm", "engine/tensor", "kernels", "partition"],
    "engine/exchange/messages": ["engine/exchange", "engine/comm", "engine/tensor", "kernels"],
    "engine/program": ["engine/exchange", "engine/tensor", "kernels", "partition"],
    "engine/models": ["engine/program", "engine/exchange", "kernels", "partition"],
    "engine/training": ["engine/models", "engine/program", "engine/exchange", "engine/comm", "engine/tensor", "kernels",
                        "datasets", "partition"],
    "engine/trace": ["engine/comm"],
    "engine/plan": ["engine/training", "engine/models", "engine/exchange", "engine/comm", "kernels", "datasets",
                    "partition"],
    "engine/placement": ["partition", "engine/exchange", "engine/plan", "engine/trace", "engine/models",
                         "engine/program", "engine/comm",
                         "engine/tensor", "kernels"],
    "launch/report": ["launch/config_file.hpp", "launch/version.hpp", "launch/schedule/schedule_file.hpp",
                      "launch/schedule/schedule_slots.hpp", "engine/placement/job_schedule.hpp", "engine/training",
                      "engine/models", "kernels"],
    "launch/supervisor": ["launch/run_end.hpp", "engine/training", "engine/comm"],
    "launch/jobs": ["launch/supervisor", "engine/training"],
    "launch": ["launch/report", "launch/supervisor", "launch/jobs", "engine/training", "engine/placement", "engine/plan",
               "engine/trace", "engine/models", "engine/program", "engine/exchange", "engine/comm",
               "engine/tensor", "kernels", "datasets", "partition"],
}
CONDITIONAL_ALLOWED = {"kernels/cuda", "engine/comm", "engine/comm/mpi"}
MPI_ALLOWED = {"engine/comm/mpi"}

SOURCE_SUFFIXES = (".cpp", ".hpp", ".cu", ".cuh")
# Folders in which every comment begins with what it names.
WORDED = ("base", "cmake", "datasets", "engine", "examples", "kernels", "launch", "partition", "python", "tests")
COMMENT_MARKS = {"//": (*SOURCE_SUFFIXES, ".h"), "#": (".py", ".sh", ".cmake", ".toml", ".txt", "")}
SKIPPED_FOLDERS = re.compile(r"^(build.*|\..*|data|runs|__pycache__)$")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
CONDITIONAL = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif)\b.*(CUDA|NCCL|MPI)")
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b")


def list_files(root):
    """All files below root that belong to the project, as paths from root."""
    found = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = sorted(name for name in subfolders if not SKIPPED_FOLDERS.match(name))
        for name in sorted(names):
            found.append(os.path.relpath(os.path.join(folder, name), root))
    return found


def layer_of(path):
    """The longest folder of ALLOWED that holds path; None for tests and unknown folders."""
    folder = os.path.dirname(path)
    while folder:
        if folder in ALLOWED:
            return folder
        folder = os.path.dirname(folder)
    return None


def read_lines(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read().split("\n")


def check_includes(root, path, lines):
    layer = layer_of(path)
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        bracket, target = match.groups()
        if bracket == "<":
            if target == "mpi.h" and layer is not None and layer not in MPI_ALLOWED:
                yield f"{path}:{number}: mpi.h may be included in {', '.join(sorted(MPI_ALLOWED))}"
            continue
        if not os.path.exists(os.path.join(root, target)):
            yield f"{path}:{number}: \"{target}\" is no path from the repository root"
            continue
        target_layer = layer_of(target)
        if layer is None or target_layer in (layer, "base"):
            continue
        if target_layer not in ALLOWED[layer] and target not in ALLOWED[layer]:
            allowed = ", ".join([layer, "base"] + ALLOWED[layer])
            yield f"{path}:{number}: {layer} may not include \"{target}\"; it may include {allowed}"


def check_text(path, lines):
    layer = layer_of(path)
    for number, line in enumerate(lines, 1):
        if CONDITIONAL.match(line) and layer not in CONDITIONAL_ALLOWED:
            yield (f"{path}:{number}: conditional compilation on CUDA, NCCL or MPI; an absent part "
                   "is a stub file chosen by CMake")
        if UNFINISHED.search(line):
            yield f"{path}:{number}: unfinished work"
    if path.endswith((".hpp", ".cuh")):
        if not lines[0].startswith("//"):
            yield f"{path}:1: a header starts with a sentence that says what it is for"
        if "#pragma once" not in lines:
            yield f"{path}:1: #pragma once is missing"


def check_build_lists(root, files):
    """Every source is named in a CMakeLists.txt of its folder or of a folder above."""
    texts = {os.path.dirname(path): "\n".join(read_lines(root, path))
             for path in files if os.path.basename(path) == "CMakeLists.txt"}
    for folder, text in sorted(texts.items()):
        if re.search(r"file\s*\(\s*GLOB", text):
            yield f"{os.path.join(folder, 'CMakeLists.txt')}:1: list sources instead of globbing"
    for path in files:
        if not path.endswith((".cpp", ".cu")):
            continue
        folder = os.path.dirname(path)
        while folder and folder not in texts:
            folder = os.path.dirname(folder)
        name = os.path.relpath(path, folder) if folder else path
        if not re.search(r"(^|[\s(\"/])" + re.escape(name) + r"($|[\s)\"])", texts.get(folder, "")):
            yield f"{path}:1: is in no CMakeLists.txt, so it is never built"


def comments_of(path, lines):
    """(line number, column, text) of comments to the end of a line, and of Python's docstrings."""
    if path.endswith(".py"):
        yield from python_comments(lines)
        return
    suffix = os.path.splitext(path)[1]
    for mark, suffixes in COMMENT_MARKS.items():
        for number, line in enumerate(lines if suffix in suffixes else [], 1):
            match = re.search(rf"(?:^|\s)({mark}+)(?:\s|$)", line)
            if match:
                yield number, match.start(1), line[match.end(1):]


def python_comments(lines):
    stands_alone = True  # so a string is a docstring, or does nothing
    for token in tokenize.generate_tokens(iter([line + "\n" for line in lines]).__next__):
        if token.type == tokenize.COMMENT or token.type == tokenize.STRING and stands_alone:
            yield (*token.start, token.string.lstrip("#\"r"))
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            stands_alone = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def check_first_words(path, lines):
    """No comment, and no paragraph of one, begins with "Of" or "What": a noun says what it is about,
    where these two leave it to the code below."""
    above = None  # where a comment stands that this one may go on with
    for number, column, text in comments_of(path, lines):
        begins = above != (number - 1, column) or lines[number - 1][:column].strip()
        if begins and re.match(r"\s*(Of|What)\b", text):
            text = text.strip().splitlines()[0]
            yield f"{path}:{number}: a comment begins with {text.split()[0]}: {text}"
        above = (number, column) if text.strip() else None


# A definition at the beginning of a line, which is namespace scope in formatted code.
NAMED_TYPE = re.compile(r"^(?:template <.*> )?(?:struct|class|union|enum class|enum) (\w+)\b(?!.*;$)")
NAMED_VALUE = re.compile(r"^(?![}#/ ])(?!using |namespace |typedef |friend ).*?(?<!:)\b(\w+)(?:\(|\[\w*\]| ?=|\{|;)")
CUDA_ATTRIBUTE = re.compile(r"\b__\w+__\([^)]*\) ?")
MACRO_CALL = re.compile(r"^(?:[A-Z][A-Z0-9_]*|PrintTo)$")  # TEST(...); googletest overloads PrintTo
SOURCE_LIST = re.compile(r"\b(?:atoll_library|atoll_test|add_executable|add_library|set)\s*\(([^)]*)\)")


def hidden_names(lines):
    """(name, line number) of what a source defines in its anonymous namespaces. Functions that differ
    in their parameters count as well: a call may convert to those of the other source."""
    inside = False
    for number, line in enumerate(lines, 1):
        if re.match(r"^namespace \{", line):
            inside = True
        elif re.match(r"^}  // namespace$", line):
            inside = False
        elif inside:
            line = CUDA_ATTRIBUTE.sub("", line)
            named_type, value = NAMED_TYPE.match(line), NAMED_VALUE.match(line)
            if named_type:
                yield named_type.group(1), number
            elif value and not MACRO_CALL.match(value.group(1)) and "operator" not in line:
                yield value.group(1), number


def check_hidden_names(root, files):
    """Sources of one target may be compiled as one (CMAKE_UNITY_BUILD): what they keep to
    themselves needs names of its own."""
    for path in files:
        if os.path.basename(path) != "CMakeLists.txt":
            continue
        folder = os.path.dirname(path)
        for source_list in SOURCE_LIST.findall("\n".join(read_lines(root, path))):
            known = {}
            for word in source_list.split():
                source = os.path.join(folder, word)
                if not word.endswith((".cpp", ".cu")) or source not in files:
                    continue
                for name, number in hidden_names(read_lines(root, source)):
                    first = known.setdefault(name, source)
                    if first != source:
                        yield (f"{source}:{number}: {name} is also a name in the anonymous namespace "
                               f"of {first}, with which this may be compiled as one source")


# Not a member of another one, nor a specialisation.
SHARED_TYPE = re.compile(r"^(?:template <.*> )?(?:struct|class|union|enum class|enum) (\w+)\b(?!::|;|<)")


def shared_types(lines):
    """(name with its namespaces, line number) of the types that a file defines for others to see."""
    namespaces = []
    for number, line in enumerate(lines, 1):
        opened, closed = re.match(r"^namespace ([\w:]*) ?\{", line), re.match(r"^}  // namespace", line)
        if opened:
            namespaces.append(opened.group(1))
        elif closed and namespaces:
            namespaces.pop()
        named = SHARED_TYPE.match(line)
        is_definition = named and ("{" in line or not line.rstrip().endswith(";"))
        if is_definition and namespaces and all(namespaces):
            yield "::".join([*namespaces, named.group(1)]), number


def check_one_definition(root, sources):
    """Two types of one name in a program are undefined behaviour that no compiler reports."""
    known = {}
    for path in sources:
        for name, number in shared_types(read_lines(root, path)):
            first = known.setdefault(name, path)
            if first != path:
                yield f"{path}:{number}: {name} is defined in {first} too; a name has one definition"


def check_tree(root):
    files = list_files(root)
    sources = [path for path in files if path.endswith(SOURCE_SUFFIXES)]
    problems = []
    for path in sources:
        lines = read_lines(root, path)
        problems += check_includes(root, path, lines)
        problems += check_text(path, lines)
    for path in files:
        has_comments = os.path.splitext(path)[1] in sum(COMMENT_MARKS.values(), ())
        if has_comments and path.split(os.sep)[0] in WORDED:
            problems += check_first_words(path, read_lines(root, path))
    problems += check_build_lists(root, files)
    problems += check_hidden_names(root, set(files))
    problems += check_one_definition(root, sources)
    return sources, problems


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    sources, problems = check_tree(root)
    if not sources:
        problems.append(f"{root}: no source files found")
    for problem in problems:
        print(problem)
    print(f"{len(sources)} files checked, {len(problems)} violations")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
