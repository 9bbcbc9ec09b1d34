#!/usr/bin/python3
"""The tables of tests/README.md, with what became of their tests.

    tests/tables.py RESULTS     prints them, but for tables of which no test ran; RESULTS has lines of
                                SCRIPT, PASS or FAIL, and NAME, with tabs between, as tests/run
                                writes them
    tests/tables.py             prints which names in them are of no test; exit code 1 if there are any

A row of a table is a kind of model or fault, and the tests that show that it is dealt with: names,
names that end in *, and whole scripts (all that they check counts). A test that ran in several steps
counts once, and as failed if it failed in any.
"""
import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = ("conformance/run", "browser/run", "large.sh", "models.sh", "slurm.sh", "zoo.sh")


def tables():
    """(heading, [(kind, [test, ...]), ...]) for each table with a column of tests."""
    found, heading, rows = [], "", None
    for line in open(os.path.join(ROOT, "README.md"), encoding="utf-8"):
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if line.startswith("#"):
            heading = line.lstrip("#").strip()
        elif line.startswith("|") and len(cells) == 2 and cells[1] == "tests":
            rows = []
            found.append((heading, rows))
        elif not line.startswith("|"):
            rows = None
        elif rows is not None and not cells[0].startswith("---"):
            rows.append((cells[0], re.findall(r"`([^`]+)`", cells[1])))
    return found


def matches(name, test, script):
    if name in SCRIPTS:
        return script == name
    return test.startswith(name[:-1]) if name.endswith("*") else test == name


def tests_in_the_sources():
    """The names of all unit tests and of all functions that test the command line."""
    names = set()
    for path in glob.glob(ROOT + "/unit/*.c"):
        names.update(re.findall(r"^static void (\w+)\(void \*\*", open(path).read(), re.M))
    for path in glob.glob(ROOT + "/cli/*.sh"):
        names.update(re.findall(r"^test_(\w+)\(\)", open(path).read(), re.M))
    names.update(re.findall(r'^test\("(\w+)"', open(ROOT + "/browser/report.test.mjs").read(), re.M))
    return names


def unknown():
    known = tests_in_the_sources()
    code = 0
    for heading, rows in tables():
        for kind, names in rows:
            if not names:
                print(f"{heading}: {kind}: names no test")
                code = 1
            for name in names:
                if name not in SCRIPTS and not any(matches(name, test, "") for test in known):
                    print(f"{heading}: {kind}: no test {name}")
                    code = 1
    return code


def outcome(names, results):
    """'12 passed', '11 passed, 1 FAILED', 'not run'; of all tests that the names stand for."""
    said = {}
    for name in names:
        for (script, test), passed in results.items():
            if matches(name, test, script):
                said[script if name in SCRIPTS else "", test] = passed
    good = sum(said.values())
    missing = sum(not any(matches(name, test, script) for script, test in results) for name in names)
    parts = [f"{good} passed"] if good else []
    parts += [f"{len(said) - good} FAILED"] if good < len(said) else []
    parts += [f"{missing} not run"] if missing else []
    return ", ".join(parts)


def show(path):
    results = {}
    for line in open(path, encoding="utf-8"):
        script, verdict, test = line.rstrip("\n").split("\t", 2)
        key = script, test
        results[key] = results.get(key, True) and verdict == "PASS"
    for heading, rows in tables():
        said = [(kind, outcome(names, results)) for kind, names in rows]
        if all(re.fullmatch(r"\d+ not run", text) for _, text in said):
            continue
        wide = max(len(kind) for kind, _ in rows)
        print(f"\n{heading}")
        for kind, text in said:
            print(f"  {kind:{wide}}  {text}")
    print()
    return 0


if __name__ == "__main__":
    sys.exit(show(sys.argv[1]) if len(sys.argv) > 1 else unknown())
