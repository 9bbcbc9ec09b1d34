#!/usr/bin/env python3
"""Measures what a plain conversion does to hazards.onnx, and prints the table of models/README.md.

The plain conversion is emulated: every float value of the graph, loop bodies included, is cast to
the format and back where it is made, so each operator works in fp32 on rounded inputs and rounds
its result; a device with narrow accumulators does worse. Running a converted file on the CPU would
hide most faults, since ONNX Runtime has few fp16 kernels there and none for bf16.

Development only. Needs numpy, onnx and onnxruntime:
    python models/hazards/measure.py
"""
import glob
import os

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, shape_inference

HERE = os.path.dirname(os.path.abspath(__file__))
LOST = 0.01  # relative L2 error from which an output counts as wrong


def round_values(graph, kind):
    """Puts Cast(kind), Cast(float) behind every float value that `graph` makes, bodies included.

    Returns the new names of inputs and initializers."""
    known = [*graph.input, *graph.output, *graph.value_info]
    floats = {v.name for v in known if v.type.tensor_type.elem_type == TensorProto.FLOAT}
    sources = [v.name for v in graph.input if v.name in floats]
    sources += [t.name for t in graph.initializer if t.data_type == TensorProto.FLOAT]
    rounded = {name: name + "__rounded" for name in sources}
    nodes = [cast for name in sources for cast in casts(name, rounded[name], kind)]
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                round_values(attribute.g, kind)
        node.input[:] = [rounded.get(name, name) for name in node.input]
        made = [name for name in node.output if name in floats]
        node.output[:] = [name + "__exact" if name in made else name for name in node.output]
        nodes += [node, *(cast for name in made for cast in casts(name + "__exact", name, kind))]
    del graph.node[:]
    graph.node.extend(nodes)
    return rounded


def casts(source, target, kind):
    narrow = target + "__narrow"
    return [helper.make_node("Cast", [source], [narrow], to=kind),
            helper.make_node("Cast", [narrow], [target], to=TensorProto.FLOAT)]


def run(model, samples):
    """Values by name, all samples in one array; optimisation would drop the pairs of casts."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, ["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    parts = zip(*(session.run(names, sample) for sample in samples))
    return {name: np.stack(part).astype("f8") for name, part in zip(names, parts)}


def everything(model):
    """The model with every float value of its main graph as an output, in graph order."""
    model = shape_inference.infer_shapes(model)
    floats = {v.name: v for v in [*model.graph.value_info, *model.graph.output]
              if v.type.tensor_type.elem_type == TensorProto.FLOAT}
    del model.graph.output[:]
    for node in model.graph.node:
        model.graph.output.extend(floats[name] for name in node.output if name in floats)
    return model


def plain(model, kind, samples):
    """Values of the converted model, constants first."""
    narrow = onnx.ModelProto()
    narrow.CopyFrom(model)
    constants = [t for t in model.graph.initializer if t.data_type == TensorProto.FLOAT]
    rounded = round_values(narrow.graph, kind)
    for t in constants:
        output = helper.make_tensor_value_info(rounded[t.name], TensorProto.FLOAT, t.dims)
        narrow.graph.output.append(output)
    values = run(narrow, samples)
    return {**{t.name: values.pop(rounded[t.name]) for t in constants}, **values}


def verdict(wanted, got):
    for name, bad in (("NaN", np.isnan(got)), ("infinity", np.isinf(got))):
        if bad.any():
            return f"**{name}** in {100 * bad.mean():.0f} %"
    error = np.linalg.norm(wanted - got) / np.linalg.norm(wanted)
    if not got.any():
        return "**all zero**"
    return f"{'**wrong**' if error > LOST else 'right'}, {error:.1e}"


def culprit(branch, wide, narrow):
    """The first tensor of the branch that has left the finite numbers."""
    for name, values in narrow.items():
        mine = name.split(".")[0] == branch
        if mine and np.isfinite(wide[name]).all() and not np.isfinite(values).all():
            return f"`{name}`"
    return "-"


def main():
    model = onnx.load(os.path.join(HERE, "hazards.onnx"))
    paths = sorted(glob.glob(os.path.join(HERE, "samples", "*.npz")))
    samples = [dict(np.load(path)) for path in paths]
    outputs = {output.name: output.doc_string for output in model.graph.output}
    model = everything(model)
    wide = run(model, samples)
    for tensor in model.graph.initializer:
        wide[tensor.name] = onnx.numpy_helper.to_array(tensor)
    assert all(np.isfinite(wide[name]).all() for name in outputs)

    half = plain(model, TensorProto.FLOAT16, samples)
    brain = plain(model, TensorProto.BFLOAT16, samples)
    print("| output | hazard | in fp16 | first not finite in fp16 | in bf16 |")
    print("|---|---|---|---|---|")
    for name, about in outputs.items():
        print(f"| `{name}` | {about} | {verdict(wide[name], half[name])} "
              f"| {culprit(name, wide, half)} | {verdict(wide[name], brain[name])} |")


if __name__ == "__main__":
    main()
