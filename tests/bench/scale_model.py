#!/usr/bin/python3
"""scale_model.py KIND NODES FOLDER: a model with about so many nodes, and a trace of it that is made
up (ONNX Runtime is not asked): values of magnitudes up to 8, the same for all."""
import hashlib
import json
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

kind, count, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
node = helper.make_node
info = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [8])
opsets = [helper.make_opsetid('', 19 if kind == 'products' else 17)]  # fp8 needs 19
nodes, tensors, values, functions = [], [], [], []


def weight(name):
    tensors.append(numpy_helper.from_array(np.full(8, 1.5, np.float32), name))
    return name


def add(op, inputs, scope=None, **attributes):
    name = f'v{len(values)}'
    values.append(('', name))
    made = node(op, inputs, [name], name=f'n{len(values)}', **attributes)
    (nodes if scope is None else scope).append(made)
    return name


def chain(x):
    for i in range(count):
        x = add('Mul', [x, x if i % 2 else 'w'])
    return x


def fan_out(x):
    ends = [add('Mul', [x, 'w']) for _ in range(count)]
    return add('Sum', ends)


def initializers(x):
    for i in range(count):
        x = add('Mul', [x, weight(f'w{i}')])
    return x


def scopes(x):
    for i in range(count // 4):
        branches = {}
        for branch in 'then_branch', 'else_branch':
            name = f'{branch}{i}'
            body = helper.make_graph([node('Mul', [x, 'w'], [name])], name, [], [info(name)])
            branches[branch] = body
        x = add('If', ['yes'], **branches)
        values.extend((f'{nodes[-1].name}.{branch}', f'{branch}{i}') for branch in branches)
        x = add('Mul', [x, 'w'])
    return x


def local_functions(x):
    opsets.append(helper.make_opsetid('f', 1))
    for i in range(count // 3):
        body = [node('Mul', ['a', 'a'], ['b']), node('Mul', ['b', 'a'], ['c'])]
        functions.append(helper.make_function('f', f'F{i}', ['a'], ['c'], body, opsets[:1]))
        values.extend([('', f'v{i}'), *((f'fn:f.F{i}', name) for name in 'abc')])
        nodes.append(node(f'F{i}', [x], [f'v{i}'], domain='f'))
        x = f'v{i}'
    return x


def softmaxes(x):
    for i in range(count // 4):
        top = add('ReduceMax', [x], axes=[0], keepdims=1)
        e = add('Exp', [add('Sub', [x, top])])
        x = add('Div', [e, add('ReduceSum', [e, 'axes'], keepdims=1)])
    return x


def products(x):
    for i in range(count // 3):
        tensors.append(numpy_helper.from_array(np.full((8, 8), 0.125, np.float32), f'w{i}'))
        x = add('Relu', [add('Add', [add('MatMul', [x, f'w{i}']), 'w'])])
    return x


weight('w')
tensors.append(numpy_helper.from_array(np.array(True), 'yes'))
tensors.append(numpy_helper.from_array(np.array([0], np.int64), 'axes'))
end = globals()[kind]('x')
graph = helper.make_graph(nodes, 'g', [info('x')], [info(end)], tensors)
model = helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=8)
data = model.SerializeToString()
with open(f'{folder}/model.onnx', 'wb') as file:
    file.write(data)

half = {'count': 4, 'max': 8.0, 'min': 0.5, 'sum': 16.0, 'sum_squares': 96.0,
        'exponents': {'-1': 1, '3': 3}, 'significands': {'1': 4}}
seen = [{'name': name, 'scope': scope, 'type': 'float', 'runs': 1, 'count': 8, 'zeros': 0, 'nans': 0,
         'positive_infinities': 0, 'negative_infinities': 0, 'sampled': 8, 'shape': [8],
         'positive': half, 'negative': half, 'windows': [[8.0, 0.5, 0]]}
        for scope, name in [('', 'x'), *values]]
trace = {'schema': 1, 'tool': 'made up', 'model': {'file': 'model.onnx',
         'sha256': hashlib.sha256(data).hexdigest()},
         'samples': {'count': 1, 'with_held_out': 2, 'sha256': '0' * 64, 'synthetic': True},
         'engine': 'none', 'window': 16, 'sample': 4096, 'update_sample': 256, 'values': seen, 'updates': []}
with open(f'{folder}/trace.json', 'w') as file:
    json.dump(trace, file)
