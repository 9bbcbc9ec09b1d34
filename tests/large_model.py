#!/usr/bin/python3
"""Models of any size for large.sh, and a look at what became of their weights.

large_model.py make FILE MIB [embed] [twice]   a chain of matrix products, 16 MiB of fp32 weights
                                               each, in FILE.weights, or embedded; with "twice",
                                               a second product, named wide_*, reads each weight too
large_model.py check SOURCE RESULT             every 16th weight of RESULT, and the last, is that of
                                               SOURCE rounded to fp16 by numpy; data lies on pages
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.external_data_helper import ExternalDataInfo

SIDE = 2048
BYTES = SIDE * SIDE * 4


def weights(count):
    base = np.random.default_rng(1).standard_normal((SIDE, SIDE)).astype(np.float32) / 45
    for i in range(count):
        yield np.roll(base, i * 7919).tobytes()


def tensor(i, data, out, location):
    t = TensorProto(name=f'w{i}', data_type=TensorProto.FLOAT, dims=[SIDE, SIDE])
    if not out:
        t.raw_data = data
        return t
    t.data_location = TensorProto.EXTERNAL
    for key, value in ('location', location), ('offset', out.tell()), ('length', len(data)):
        t.external_data.add(key=key, value=str(value))
    out.write(data)
    return t


def make(path, mib, *options):
    out = None if 'embed' in options else open(path + '.weights', 'wb')
    nodes, tensors, x = [], [], 'x'
    for i, data in enumerate(weights(int(mib) * 2**20 // BYTES)):
        tensors.append(tensor(i, data, out, os.path.basename(path) + '.weights'))
        nodes.append(helper.make_node('MatMul', [x, f'w{i}'], [f'm{i}'], name=f'm{i}'))
        nodes.append(helper.make_node('Tanh', [f'm{i}'], [f't{i}'], name=f't{i}'))
        x = f't{i}'
        if 'twice' in options:
            nodes.append(helper.make_node('MatMul', [x, f'w{i}'], [f'wide{i}'], name=f'wide_{i}'))
            nodes.append(helper.make_node('Tanh', [f'wide{i}'], [f'u{i}'], name=f'wide_t{i}'))
            x = f'u{i}'
    row = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, SIDE])
    graph = helper.make_graph(nodes, 'large', [row('x')], [row(x)], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)], ir_version=8)
    with open(path, 'wb') as file:
        file.write(model.SerializeToString())


def data_of(path, t):
    if t.data_location != TensorProto.EXTERNAL:
        return t.raw_data
    info = ExternalDataInfo(t)
    assert path.endswith('source.onnx') or info.offset % 4096 == 0, f'{t.name} lies at {info.offset}'
    with open(os.path.join(os.path.dirname(path), info.location), 'rb') as file:
        file.seek(info.offset)
        return file.read(info.length)


def check(source, result):
    wide = onnx.load(source, load_external_data=False).graph.initializer
    narrow = {t.name: t for t in onnx.load(result, load_external_data=False).graph.initializer}
    checked = 0
    for i in [*range(0, len(wide) - 1, 16), len(wide) - 1]:
        x = np.frombuffer(data_of(source, wide[i]), np.float32)
        for t in (narrow.get(wide[i].name), narrow.get(wide[i].name + '__fp16')):
            if t is None:
                continue
            kind = np.float16 if t.data_type == TensorProto.FLOAT16 else np.float32
            data = data_of(result, t)
            assert data == x.astype(kind).tobytes(), f'{t.name} differs'
            checked += kind == np.float16
    assert checked > len(wide) // 16, f'only {checked} weights are narrow'


if __name__ == '__main__':
    {'make': make, 'check': check}[sys.argv[1]](*sys.argv[2:])
