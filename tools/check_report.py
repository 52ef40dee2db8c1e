#!/usr/bin/env python3
"""Counts what a run of ctest did: GoogleTest cases one by one, other tests as one each.

Usage: tools/check_report.py JUNIT_XML CASES_DIR
  JUNIT_XML  written by `ctest --output-junit`
  CASES_DIR  the folder that GTEST_OUTPUT=xml:CASES_DIR/ named, with NAME_test.xml for test NAME
Prints "PASSED FAILED SKIPPED".
"""
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def count_cases(path):
    """(passed, failed, skipped) of the GoogleTest report at `path`."""
    passed = failed = skipped = 0
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None:
            failed += 1
        elif case.get("result") == "skipped":
            skipped += 1
        elif case.get("status") == "run":
            passed += 1
    return passed, failed, skipped


def tally(junit, cases):
    """(passed, failed, skipped) of a run. A program that failed counts at least one failure."""
    passed = failed = skipped = 0
    for test in ElementTree.parse(junit).getroot().iter("testcase"):
        name, fine = test.get("name"), test.get("status") == "run"
        report = cases / f"{name}_test.xml"
        if test.get("status") in ("notrun", "disabled"):
            skipped += 1
        elif report.is_file():
            ok, bad, left_out = count_cases(report)
            passed, skipped = passed + ok, skipped + left_out
            failed += bad if fine else max(bad, 1)
        else:
            passed, failed = passed + fine, failed + (not fine)
    return passed, failed, skipped


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    print(*tally(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
