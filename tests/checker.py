#!/usr/bin/python3
"""Checks converted models with onnx.checker, a reader that is not ours.

Reads lines 'source<TAB>result' from standard input and writes one line for each:
'source<TAB>result<TAB>verdict<TAB>reason'. Verdicts:

  valid    the checker passes the result
  invalid  it passes the source and not the result
  unknown  it passes neither: this version of it does not know the model, or the source is at fault
  newer    the result's opset or IR version is one that this version of it does not know, as that of a
           model that was raised to opset 19

All three checks count: the plain one, the full one with strict shape inference, and strict inference
that follows the values of shapes as well. Debian 12's onnx is 1.12, which knows opsets up to 17 and
IR versions up to 8.
"""

import sys

import onnx
import onnx.checker
import onnx.defs
import onnx.shape_inference


def check(path):
    onnx.checker.check_model(path)


def full_check(path):
    onnx.checker.check_model(path, full_check=True)


def infer(path):
    model = onnx.load(path, load_external_data=False)
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)


def fault(path, test):
    """None, or the first line of what the checker says."""
    try:
        test(path)
    except Exception as error:  # the checker raises several kinds, all of them mean "no"
        lines = str(error).strip().splitlines()
        return lines[0] if lines else type(error).__name__
    return None


def newer(path):
    """None, or what of the model this version of onnx does not know."""
    model = onnx.load(path, load_external_data=False)
    if model.ir_version > onnx.IR_VERSION:
        return f"IR version {model.ir_version}, and {onnx.IR_VERSION} is the last known"
    known = onnx.defs.onnx_opset_version()
    for opset in model.opset_import:
        if opset.domain in ("", "ai.onnx") and opset.version > known:
            return f"opset {opset.version}, and {known} is the last known"
    return None


def judge(source, result):
    unknown = newer(result)
    if unknown:
        return "newer", unknown
    after = fault(result, check)
    if after:
        before = fault(source, check)
        return ("unknown", before) if before else ("invalid", after)
    passed = "plain check"
    for test, name in ((full_check, "full check"), (infer, "inference with values")):
        after = fault(result, test)
        if after and not fault(source, test):
            return "invalid", name + ": " + after
        if not after:
            passed = name
    return "valid", passed


for line in sys.stdin:
    source, result = line.rstrip("\n").split("\t")
    print(source, result, *judge(source, result), sep="\t", flush=True)
