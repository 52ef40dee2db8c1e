#!/usr/bin/env python3
"""Small rules of the house, checked over the sources as text.

  getenv    only in src/cli/ (and src/base/test_paths.h): the environment is no interface
  todo      a TODO carries the number of an issue: TODO(#12)
  names     no utils, helpers, common, misc, manager among the file and folder names
  paths     README.md and docs/ name only files that exist
  packages  tools/packages.txt is the only list of packages

Usage: tools/source_rules.py [--root DIR] [RULE]...
"""
import argparse
import pathlib
import re
import sys

# Folders whose files are looked at, and files of the root.
FOLDERS = ("src", "tests", "fuzz", "tools", "docs", "cmake", ".ci")
ROOT_FILES = ("README.md", "CHANGELOG.md", "CMakeLists.txt", "check", "demo")
PICTURES = {".png"}  # not text
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc", "manager"}
TODO = re.compile(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))")
# In documents: `src/...`, `tools/...` and so on in code quotes, and links to files.
QUOTED_PATH = re.compile(r"`((?:\./)?(?:src|tools|docs|tests|fuzz|cmake|\.ci)/[\w./*<>{},-]*)`")
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
TOUR_PATH = re.compile(r"`(\w+/\w[\w./]*\.(?:h|cc))`")


def files_of(root):
    """Text files under the rules, by their path from root."""
    found = [root / name for name in ROOT_FILES if (root / name).is_file()]
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            relative = path.relative_to(root)
            if path.is_file() and path.suffix not in PICTURES and relative.parts[:2] != ("tests", "data") \
                    and "corpus" not in relative.parts and "__pycache__" not in relative.parts:
                found.append(path)
    return found


def check_getenv(root):
    for path in files_of(root):
        relative = path.relative_to(root)
        if path.suffix not in (".h", ".cc") or relative.parts[:2] == ("src", "cli") \
                or str(relative) == "src/base/test_paths.h":
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if re.search(r"\b(secure_)?getenv\b|\benviron\b", line.split("//")[0]):
                yield f"{relative}:{number}: getenv belongs into src/cli/"


def check_todo(root):
    for path in files_of(root):
        if path.name == "source_rules.py" or path.name == "structure_test.py":
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if TODO.search(line):
                yield f"{path.relative_to(root)}:{number}: a TODO needs an issue: TODO(#12)"


def check_names(root):
    for path in files_of(root):
        relative = path.relative_to(root)
        words = {w for part in relative.parts for w in re.split(r"[^a-z]+", part.lower())}
        if words & VAGUE:
            yield f"{relative}: say what it is, not '{(words & VAGUE).pop()}'"


def expand(pattern):
    """`a.{h,cc}` as a.h and a.cc."""
    found = re.search(r"\{([^{}]*)\}", pattern)
    if not found:
        return [pattern]
    return [e for choice in found.group(1).split(",")
            for e in expand(pattern[:found.start()] + choice + pattern[found.end():])]


def check_paths(root):
    documents = [root / "README.md"] + sorted((root / "docs").glob("*.md"))
    for document in documents:
        if not document.is_file():
            yield f"{document.relative_to(root)} is missing"
            continue
        name = document.relative_to(root)
        text = document.read_text(encoding="utf-8")
        wanted = [(root, p) for p in QUOTED_PATH.findall(text) if "<" not in p]
        wanted += [(root / "src", p) for p in TOUR_PATH.findall(text)
                   if p.split("/")[0] not in FOLDERS]
        wanted += [(document.parent, p) for p in LINK.findall(text)]
        for base, pattern in wanted:
            for path in expand(pattern):
                if not any(base.glob(path.removeprefix("./").rstrip("/"))) \
                        and not (base / path).exists():
                    yield f"{name}: there is no {path}"


def check_packages(root):
    listed = {line.split()[1] for line in (root / "tools/packages.txt").read_text().splitlines()
              if line.strip() and not line.startswith("#")}
    telling = {p for p in listed if p.endswith("-dev")}
    for path in files_of(root):
        if path.name == "packages.txt" or path.suffix not in ("", ".md", ".sh", ".py", ".yml"):
            continue
        words = set(re.findall(r"[\w.+-]+", path.read_text(encoding="utf-8")))
        for package in sorted(words & telling):
            yield f"{path.relative_to(root)}: names the package {package}; " \
                  "tools/packages.txt is the only list"


RULES = {"getenv": check_getenv, "todo": check_todo, "names": check_names,
         "paths": check_paths, "packages": check_packages}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("rules", nargs="*", metavar="RULE", help="of those above; default all")
    arguments = parser.parse_args()
    errors = 0
    for name in arguments.rules or RULES:
        for complaint in RULES[name](arguments.root):
            print(f"{name}: {complaint}")
            errors += 1
    print(f"{len(files_of(arguments.root))} files, {errors} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
