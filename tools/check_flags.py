#!/usr/bin/env python3
"""Checks the compiler flags: -m only on *_isa.cc, no fast mathematics, warnings are errors.

Usage: tools/check_flags.py BUILD_DIR   (reads its compile_commands.json)
"""
import json
import pathlib
import shlex
import sys

NEVER = {"-ffast-math", "-Ofast", "-funsafe-math-optimizations", "-fassociative-math",
         "-freciprocal-math", "-ffinite-math-only", "-march=native", "-mtune=native"}
ALWAYS = {"-Werror", "-ffp-contract=off"}


def complaints(entry):
    flags = entry.get("arguments") or shlex.split(entry["command"])
    name = pathlib.PurePath(entry["file"]).name
    for flag in flags:
        if flag in NEVER or (flag.startswith("-ffp-contract") and flag not in ALWAYS):
            yield f"carries {flag}"
        elif flag.startswith("-m") and not name.endswith("_isa.cc"):
            yield f"carries {flag}: only *_isa.cc may have -m flags"
    for flag in sorted(ALWAYS - set(flags)):
        yield f"lacks {flag}"


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    entries = json.loads((pathlib.Path(sys.argv[1]) / "compile_commands.json").read_text())
    errors = [f"{e['file']}: {c}" for e in entries for c in complaints(e)]
    for error in errors:
        print(error)
    print(f"{len(entries)} commands, {len(errors)} errors")
    return 1 if errors or not entries else 0


if __name__ == "__main__":
    sys.exit(main())
