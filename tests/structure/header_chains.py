"""Which headers can be checked by one run of the compiler: a header that follows others of which it
includes everything itself sees nothing that it would not see alone. Such headers form chains."""

import re

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
CONDITION = re.compile(r"^\s*#\s*(if|ifdef|ifndef|endif)\b")


def includes_of(lines):
    """(project headers, other headers) that these lines include in every case."""
    own, other, depth = [], [], 0
    for line in lines:
        condition = CONDITION.match(line)
        if condition:
            depth += -1 if condition.group(1) == "endif" else 1
        match = INCLUDE.match(line)
        if match and depth == 0:
            (own if match.group(1) == '"' else other).append(match.group(2))
    return own, other


def all_includes(headers, read_lines, files_of_other):
    """Header -> frozenset of all files that it includes, by itself or through others.
    files_of_other(name, header) gives those of a header outside the project."""
    found = {}

    def visit(header):
        if header not in found:
            found[header] = frozenset()  # ends a circle
            own, other = includes_of(read_lines(header))
            files = set(own)
            for name in own:
                files |= visit(name) if name in headers else {name}
            for name in other:
                files |= files_of_other(name, header)
            found[header] = frozenset(files)
        return found[header]

    for header in headers:
        visit(header)
    return found


def make_chains(headers, files, group_of):
    """The fewest lists of headers, together all of them and each of one group, in which every header
    includes its predecessor and all that this includes (a chain cover by bipartite matching)."""
    follows = {a: [b for b in headers if a in files[b] and files[a] <= files[b]
                   and group_of[a] == group_of[b]] for a in headers}
    before = {}  # header -> its predecessor

    def extend(header, seen):
        for follower in follows[header]:
            if follower not in seen:
                seen.add(follower)
                if follower not in before or extend(before[follower], seen):
                    before[follower] = header
                    return True
        return False

    for header in headers:
        extend(header, set())
    after = {first: second for second, first in before.items()}
    chains = []
    for header in headers:
        if header not in before:
            chain = [header]
            while chain[-1] in after:
                chain.append(after[chain[-1]])
            chains.append(chain)
    return chains
