#!/usr/bin/env python3
"""Checks every #include of src/ against cmake/layers.txt, and that no includes form a cycle.

Usage: tools/layers.py [--root DIR]
"""
import argparse
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.M)
# Folders of headers that belong to the C library and the kernel.
SYSTEM_FOLDERS = ("sys/", "linux/", "netinet/", "arpa/", "asm/", "sanitizer/")


class Table:
    """cmake/layers.txt, read."""

    def __init__(self, path):
        self.floor, self.folders, self.third, self.sets = {}, {}, {}, {}
        for line in path.read_text().splitlines():
            line = line.split("#")[0].strip()
            if not line:
                continue
            if line.startswith("set "):
                _, name, *prefixes = line.split()
                self.sets[name] = prefixes
                continue
            left, _, right = line.partition("|")
            floor, name, *may = left.split()
            self.floor[name] = None if floor == "-" else int(floor)
            self.folders[name] = {m for m in may if m != "-"}
            self.third[name] = set(right.split())

    def errors(self):
        """What is wrong with the table itself: unknown names, and rows that look upwards."""
        for name, may in self.folders.items():
            for other in sorted(may):
                if other not in self.floor:
                    yield f"cmake/layers.txt: {name} may include {other}, which has no row"
                elif self.floor[other] > self.floor[name]:
                    yield f"cmake/layers.txt: {name} may include {other} of a higher floor"
            for other in sorted(self.third[name] - set(self.sets)):
                yield f"cmake/layers.txt: {name} names the set {other}, which has no line"

    def set_of(self, header):
        for name, prefixes in self.sets.items():
            if any(header == p or (p.endswith("/") and header.startswith(p)) for p in prefixes):
                return name
        return None


def is_test(path):
    return path.stem.endswith("_test")


def for_tests(path):
    """References (x_ref.h) and headers like base/test_paths.h: only tests may include them."""
    is_reference = path.parts[0] in ("kernels", "forward") and path.name.endswith("_ref.h")
    return is_reference or path.name.startswith("test_")


def allowed_folder(table, path, other):
    own = path.parts[0]
    if other == own or other in table.folders[own]:
        return True
    is_for_tests = is_test(path) or for_tests(path)
    return is_for_tests and table.floor[other] <= table.floor[own]


def allowed_set(table, path, name):
    own = path.parts[0]
    third = table.third[own] | table.third["all"]
    if is_test(path) or for_tests(path):
        third |= table.third["test"]
    if is_test(path):  # whatever the floor or those below may use
        for folder, floor in table.floor.items():
            if floor is not None and floor <= table.floor[own]:
                third |= table.third[folder]
    return name in third


def check_quoted(table, src, path, header):
    """The complaint about `#include "header"` in path, or None."""
    if not (src / header).is_file():
        return f'"{header}" is not in src/: quotes are for our own files, by their path from src/'
    target = pathlib.PurePath(header)
    other = target.parts[0]
    if other not in table.folders:
        return f"folder {other}/ has no row in cmake/layers.txt"
    if not allowed_folder(table, path, other):
        return f"{path.parts[0]}/ may not include {other}/"
    if for_tests(target) and not is_test(path) and not for_tests(path):
        return f"{header} is for tests"
    return None


def check_angled(table, path, header):
    """The complaint about `#include <header>` in path, or None."""
    name = table.set_of(header)
    if name is not None:
        if not allowed_set(table, path, name):
            return f"{path.parts[0]}/ may not include {name} (<{header}>)"
    elif "/" in header and not header.startswith(SYSTEM_FOLDERS):
        return f"<{header}> belongs to no set of cmake/layers.txt"
    return None


def find_cycle(graph):
    """One cycle of the include graph as a list of files, or None."""
    state, trail = {}, []

    def visit(node):
        state[node] = "open"
        trail.append(node)
        for other in sorted(graph.get(node, ())):
            if state.get(other) == "open":
                return trail[trail.index(other):] + [other]
            if other not in state:
                found = visit(other)
                if found:
                    return found
        trail.pop()
        state[node] = "done"
        return None

    for node in sorted(graph):
        if node not in state:
            found = visit(node)
            if found:
                return found
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root
    src = root / "src"
    table = Table(root / "cmake" / "layers.txt")
    errors, graph = list(table.errors()), {}
    files = sorted(p for p in src.rglob("*") if p.suffix in (".h", ".cc"))
    for file in files:
        path = file.relative_to(src)
        if path.parts[0] not in table.folders:
            errors.append(f"src/{path}: folder {path.parts[0]}/ has no row in cmake/layers.txt")
            continue
        for match in INCLUDE.finditer(file.read_text(encoding="utf-8")):
            quoted, angled = match.groups()
            if quoted:
                complaint = check_quoted(table, src, path, quoted)
                graph.setdefault(str(path), set()).add(quoted)
            else:
                complaint = check_angled(table, path, angled)
            if complaint:
                errors.append(f"src/{path}: {complaint}")
    cycle = find_cycle(graph)
    if cycle:
        errors.append("includes form a cycle: " + " -> ".join(cycle))
    for error in errors:
        print(error)
    print(f"{len(files)} files, {len(errors)} errors")
    return 1 if errors or not files else 0


if __name__ == "__main__":
    sys.exit(main())
