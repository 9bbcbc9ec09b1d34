#!/usr/bin/python3
"""Checks converted models with onnx.checker, a reader that is not ours.

Reads lines 'source<TAB>result' from standard input and writes one line for each:
'source<TAB>result<TAB>verdict<TAB>reason'. Verdicts:

  valid    the checker passes the result, as far as it passes the source
  invalid  it passes the source and not the result
  unknown  this version of the checker does not know, or refuses, the source itself

"As far as": first the plain check, then the full one (with strict shape inference), each only if
the source passes it. Debian 12's onnx is 1.12, which knows opsets up to 17 and IR versions up to 8.
"""

import sys

import onnx
import onnx.checker


def fault(path, full):
    """None, or the first line of what the checker says."""
    try:
        onnx.checker.check_model(path, full_check=full)
    except Exception as error:  # the checker raises several kinds, all of them mean "no"
        lines = str(error).strip().splitlines()
        return lines[0] if lines else type(error).__name__
    return None


def judge(source, result):
    before = fault(source, False)
    if before:
        return "unknown", before
    after = fault(result, False)
    if after:
        return "invalid", after
    if fault(source, True):
        return "valid", "plain check; the source does not pass the full one"
    after = fault(result, True)
    if after:
        return "invalid", "full check: " + after
    return "valid", "full check"


for line in sys.stdin:
    source, result = line.rstrip("\n").split("\t")
    print(source, result, *judge(source, result), sep="\t", flush=True)
