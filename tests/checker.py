#!/usr/bin/python3
"""Checks converted models with onnx.checker, a reader that is not ours.

Reads lines 'source<TAB>result' from standard input and writes one line for each:
'source<TAB>result<TAB>verdict<TAB>reason'. Verdicts:

  valid    the checker passes the result
  invalid  it passes the source and not the result
  unknown  it passes neither: this version of it does not know the model, or the source is at fault

Both checks count, the plain one and the full one with shape inference. Debian 12's onnx is 1.12,
which knows opsets up to 17 and IR versions up to 8.
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
    after = fault(result, False)
    if after:
        before = fault(source, False)
        return ("unknown", before) if before else ("invalid", after)
    after = fault(result, True)
    if after and not fault(source, True):
        return "invalid", "full check: " + after
    return "valid", "plain check" if after else "full check"


for line in sys.stdin:
    source, result = line.rstrip("\n").split("\t")
    print(source, result, *judge(source, result), sep="\t", flush=True)
