#!/usr/bin/env python3
"""Turns ctest's JUnit file into the closing line 'N passed, N failed[, N skipped]'.

Only a test that ran and passed counts as passed, and only one that said so itself counts as skipped: a crash, a
time-out, a program that is not there or a broken fixture is a failure. Exit code 1 if any failed or none ran.
"""

import argparse
import os
import sys
import tempfile
import xml.etree.ElementTree as ElementTree


def count(path):
    """Returns (passed, names of failed, skipped); None if there are no readable results."""
    try:
        cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return None
    passed, failed, skipped = 0, [], 0
    for case in cases:
        status = case.get("status")
        note = case.find("skipped")
        if status == "run":
            passed += 1
        elif status == "disabled":
            skipped += 1
        elif status == "notrun" and note is not None and note.get("message", "").startswith("SKIP_"):
            skipped += 1
        else:
            failed.append(case.get("name", "?"))
    return passed, failed, skipped


def summarize(path, ctest_exit, failed_checks, out):
    counted = count(path)
    if counted is None:
        print("== ctest left no readable results", file=out)
        passed, failed, skipped = 0, 1, 0
    else:
        passed, names, skipped = counted
        failed = len(names)
        if names:
            print("== failed: " + " ".join(names), file=out)
        elif passed == 0:
            print("== no test was run", file=out)
        if ctest_exit != 0 and not names and (passed or skipped):
            print(f"== ctest ended with exit code {ctest_exit} beside its tests", file=out)
            failed += 1
    failed += failed_checks
    line = f"{passed} passed, {failed} failed"
    if skipped:
        line += f", {skipped} skipped"
    print(line, file=out)
    return 1 if failed or not passed else 0


def self_test():
    def case(name, status, inner=""):
        return f'<testcase name="{name}" status="{status}">{inner}</testcase>'

    ok = case("a", "run")
    bad = case("b", "fail", '<failure message=""/>')
    skip = case("c", "notrun", '<skipped message="SKIP_RETURN_CODE=77"/>')
    gone = case("d", "notrun", '<skipped message="Unable to find executable"/>')
    disabled = case("e", "disabled")
    table = [
        # cases, ctest's exit code, checks failed before, closing line, exit code
        ([ok, ok], 0, 0, "2 passed, 0 failed", 0),
        ([ok, bad], 8, 0, "1 passed, 1 failed", 1),
        ([ok, skip, disabled], 0, 0, "1 passed, 0 failed, 2 skipped", 0),
        ([ok, gone], 8, 0, "1 passed, 1 failed", 1),
        ([ok], 8, 0, "1 passed, 1 failed", 1),
        ([ok], 0, 2, "1 passed, 2 failed", 1),
        ([skip], 0, 0, "0 passed, 0 failed, 1 skipped", 1),
        ([], 0, 0, "0 passed, 0 failed", 1),
        (None, 139, 0, "0 passed, 1 failed", 1),
    ]
    with tempfile.TemporaryDirectory() as folder:
        for number, (cases, ctest_exit, checks, line, code) in enumerate(table):
            path = os.path.join(folder, f"{number}.xml")
            with open(path, "w", encoding="utf-8") as out:
                out.write("<testsuite>" + "".join(cases) + "</testsuite>" if cases is not None else "<testsuite><te")
            with open(os.path.join(folder, "out"), "w+", encoding="utf-8") as out:
                got_code = summarize(path, ctest_exit, checks, out)
                out.seek(0)
                got_line = out.read().splitlines()[-1]
            if (got_line, got_code) != (line, code):
                sys.exit(f"case {number}: got '{got_line}' and {got_code}, want '{line}' and {code}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="?")
    parser.add_argument("--ctest-exit", type=int, default=0)
    parser.add_argument("--failed-checks", type=int, default=0)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test()
        return 0
    if arguments.results is None:
        parser.error("name ctest's JUnit file")
    return summarize(arguments.results, arguments.ctest_exit, arguments.failed_checks, sys.stdout)


if __name__ == "__main__":
    sys.exit(main())
