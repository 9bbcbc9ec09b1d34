"""A few helpers shared by the scripts that make the project's models.

`Builder` collects nodes, tensors, inputs and outputs of one graph and turns them into a model;
everything is written in the order of the calls, so that the same script gives the same bytes.
Works with Debian's python3-onnx (1.12) and later versions.
"""
import os

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save

PRODUCER = "narrowcast-models"
OPSET, IR = 17, 8
FLOAT, DOUBLE = TensorProto.FLOAT, TensorProto.DOUBLE
INT64, BOOL = TensorProto.INT64, TensorProto.BOOL


def value(name, shape, kind=FLOAT, about=""):
    """A graph input or output: `shape` holds numbers, and names of dynamic dimensions."""
    return helper.make_tensor_value_info(name, kind, shape, about)


def constant(name, array):
    """A tensor with its bytes in `raw_data`; plain numbers become float32."""
    array = np.asarray(array)
    if array.dtype == np.float64:
        array = array.astype(np.float32)
    return numpy_helper.from_array(array, name)


class Builder:
    def __init__(self, name):
        self.name = name
        self.nodes, self.tensors, self.inputs, self.outputs, self.sparse = [], [], [], [], []

    def node(self, operator, inputs, outputs, name=None, domain=None, **attributes):
        """Adds a node, by default named after its first output; returns `outputs`."""
        names = [outputs] if isinstance(outputs, str) else list(outputs)
        name = "/" + names[0].replace(".", "/") if name is None else name
        self.nodes.append(helper.make_node(operator, inputs, names, name=name or None,
                                           domain=domain, **attributes))
        return outputs

    def tensor(self, name, array):
        self.tensors.append(constant(name, array))
        return name

    def input(self, name, shape, kind=FLOAT):
        self.inputs.append(value(name, shape, kind))
        return name

    def output(self, name, shape, kind=FLOAT, about=""):
        self.outputs.append(value(name, shape, kind, about))

    def graph(self):
        return helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, self.tensors,
                                 sparse_initializer=self.sparse)

    def model(self, functions=(), domains=()):
        opsets = [("", OPSET), *((domain, 1) for domain in domains)]
        return helper.make_model(self.graph(), producer_name=PRODUCER, ir_version=IR,
                                 opset_imports=[helper.make_opsetid(*opset) for opset in opsets],
                                 functions=list(functions))


def save_model(model, path, check=True):
    if check:
        checker.check_model(model)
    save(model, path)


def save_samples(folder, samples):
    """One .npz a sample, arrays by input name."""
    os.makedirs(folder, exist_ok=True)
    for i, sample in enumerate(samples):
        np.savez_compressed(os.path.join(folder, f"{i}.npz"), **sample)
