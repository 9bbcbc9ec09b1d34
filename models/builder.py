"""A few helpers shared by the scripts that make the project's models.

`Builder` collects nodes, tensors, inputs and outputs of one graph and turns them into a checked model;
everything is written in the order of the calls, so that the same script gives the same bytes.
Works with Debian's python3-onnx (1.12) and later versions.
"""
import os

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save

PRODUCER = "narrowcast-models"
OPSET, IR = 17, 8
FLOAT, DOUBLE, INT64, BOOL = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.BOOL)


def value(name, shape, kind=FLOAT):
    """A graph input or output: `shape` holds numbers and names of dynamic dimensions, None is unknown."""
    return helper.make_tensor_value_info(name, kind, shape)


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
        """Adds a node, by default called after its first output; returns the output's name (or names)."""
        names = [outputs] if isinstance(outputs, str) else list(outputs)
        name = "/" + names[0].replace(".", "/") if name is None else name
        self.nodes.append(helper.make_node(operator, inputs, names, name=name or None, domain=domain, **attributes))
        return outputs

    def tensor(self, name, array):
        self.tensors.append(constant(name, array))
        return name

    def input(self, name, shape, kind=FLOAT):
        self.inputs.append(value(name, shape, kind))
        return name

    def output(self, name, shape, kind=FLOAT):
        self.outputs.append(value(name, shape, kind))

    def graph(self):
        return helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, self.tensors,
                                 sparse_initializer=self.sparse)

    def model(self, functions=(), domains=()):
        opsets = [helper.make_opsetid("", OPSET), *(helper.make_opsetid(domain, 1) for domain in domains)]
        return helper.make_model(self.graph(), producer_name=PRODUCER, ir_version=IR, opset_imports=opsets,
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
