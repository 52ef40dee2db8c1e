#!/usr/bin/env python3
"""Checks that objects compiled for one instruction set lend no code to the rest of the program.

An inline function that two objects emit is linked once, from either. If the copy compiled for
AVX-512 wins, an older CPU crashes in code that has nothing to do with kernels. So these objects may
emit such (weak) symbols only inside their own namespace, baton::<instruction set>.

Usage: tools/check_isa_symbols.py OBJECT...
"""
import re
import subprocess
import sys

WEAK = "WVu"
OWN = re.compile(r"^_Z[A-Z]*?N?[KVr]*5baton(8portable|4avx2|8avx_vnni|6avx512)")
HARMLESS = re.compile(r"^DW\.ref\.")  # a pointer for exception tables, no code


def symbols(path):
    """[(kind, mangled name)] of what the object defines."""
    run = subprocess.run(["nm", "--defined-only", "--format=posix", path],
                         capture_output=True, text=True, check=True)
    return [(line.split()[1], line.split()[0]) for line in run.stdout.splitlines() if line]


def demangled(name):
    run = subprocess.run(["c++filt", name], capture_output=True, text=True, check=True)
    return run.stdout.strip()


def main():
    objects, errors = sys.argv[1:], 0
    strong = 0
    for path in objects:
        for kind, name in symbols(path):
            strong += kind in "TDR" and OWN.match(name) is not None
            if kind in WEAK and not OWN.match(name) and not HARMLESS.match(name):
                print(f"{path}: emits {demangled(name)}, which others may link")
                errors += 1
    print(f"{len(objects)} objects, {strong} names of their own, {errors} errors")
    if not objects or not strong:
        print("nothing was checked")
        return 1
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
