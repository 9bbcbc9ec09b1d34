#!/usr/bin/env python3
"""Checks the project's own models: valid, small, and finite in fp32 on every sample.

Each model passes onnx.checker and runs in ONNX Runtime at no and at full optimisation, except where
it exists to be refused (see REFUSED). Development only; needs numpy, onnx and onnxruntime:
    python models/check.py
"""
import glob
import os
import sys

import numpy as np
import onnx
import onnxruntime

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 60_000
LEVELS = (onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
          onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)
REFUSED = {"unsorted": {"checker"}, "constants": {"inference"}, "duplicate_node_names": {"engine"}}


def samples_of(path):
    folder, name = os.path.split(path)
    shared = os.path.join(folder, "samples")
    own = os.path.join(shared, name[:-5])
    return sorted(glob.glob(os.path.join(own if os.path.isdir(own) else shared, "*.npz")))


def outputs(path, samples, level):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    for sample in samples:
        feed = dict(np.load(sample))
        labels = {name[6:]: feed.pop(name) for name in list(feed) if name.startswith("label:")}
        yield dict(zip(names, session.run(names, feed))), labels


def check(path):
    """A line about the model; raises what is wrong with it."""
    model, refused = onnx.load(path, load_external_data=False), set()
    assert model.producer_name == "narrowcast-models" and os.path.getsize(path) <= LIMIT
    try:
        onnx.checker.check_model(path)
        onnx.checker.check_model(path, full_check=True)
    except onnx.checker.ValidationError:
        refused.add("checker")
    except onnx.shape_inference.InferenceError:
        refused.add("inference")
    right = total = 0
    samples = samples_of(path)
    assert samples
    try:
        for level in LEVELS:
            for results, labels in outputs(path, samples, level):
                for name, array in results.items():
                    assert np.isfinite(array).all(), name
                for name, truth in labels.items():
                    right, total = right + (results[name].argmax(-1)
                                            == truth).sum(), total + len(truth)
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
        refused.add("engine")
    name = os.path.basename(path)[:-5]
    assert refused == REFUSED.get(name, set()), refused
    accuracy = f", {100 * right / total:.2f} % right" if total else ""
    return f"{os.path.getsize(path)} bytes, {len(samples)} samples{accuracy}"


def main():
    failed = 0
    for path in sorted(glob.glob(os.path.join(HERE, "*", "*.onnx"))):
        try:
            line = check(path)
        except Exception as error:
            failed, line = 1, f"FAILED: {type(error).__name__}: {error}"
        print(f"{os.path.relpath(path, HERE)}: {line}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
