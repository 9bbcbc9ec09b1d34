#!/usr/bin/python3
"""Writes the tiny models: each holds one kind of structure that converters get wrong.

Every function makes one model and its samples (`tiny/samples/<model>/*.npz`); its docstring says
what the model shows. Arithmetic is small and harmless unless the docstring says otherwise.

Run with Debian's python3-numpy and python3-onnx:
    python3 models/tiny/make.py
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.dont_write_bytecode = True

import numpy as np
from onnx import AttributeProto, TensorProto, helper

from builder import (BOOL, DOUBLE, FLOAT, INT64, OPSET, Builder, constant, save_model, save_samples,
                     value)

SEED = 11
DOMAIN = "narrowcast.models"


def weights(rng, *shape):
    return rng.normal(0, 1 / np.sqrt(shape[0]), shape)


def inputs(rng, *shape):
    return rng.normal(size=shape).astype("f4")


def branch(name, nodes, shape, tensors=()):
    """A graph without inputs, for If: everything it reads is captured or its own."""
    return helper.make_graph(nodes, name, [], [value(f"{name}.out", shape)], list(tensors))


def node(operator, reads, writes, name=None, **attributes):
    return helper.make_node(operator, reads, [writes], name=name, **attributes)


def if_loop(rng):
    """If and Loop: captured values and initializers, one level and two levels down; a float state.

    Sample 0 takes the outer then branch only, 1 and 2 the two ways through the else branch.
    """
    build = Builder("if_loop")
    build.input("go", [], BOOL), build.input("deep", [], BOOL)
    shared = build.tensor("shared.weight", weights(rng, 8, 8))
    hidden = build.node("MatMul", [build.input("x", ["N", 8]), shared], "hidden")

    def inner(name, operator):
        product = f"{name}.product"
        return branch(name, [node("MatMul", [hidden, shared], product, f"/{name}/product"),
                             node(operator, [product], f"{name}.out", f"/{name}/last")], ["N", 8])

    then = branch("then", [node("MatMul", [hidden, shared], "then.shared", "/then/shared"),
                           node("MatMul", ["then.shared", "then.own"], "then.out", "/then/last")],
                  ["N", 8], [constant("then.own", weights(rng, 8, 8))])
    other = branch("else", [node("MatMul", [hidden, shared], "else.shared", "/else/shared"),
                            node("If", ["deep"], "else.chosen", "/else/if",
                                 then_branch=inner("inner_then", "Neg"),
                                 else_branch=inner("inner_else", "Tanh")),
                            node("Add", ["else.shared", "else.chosen"], "else.out", "/else/last")],
                   ["N", 8])
    chosen = build.node("If", ["go"], "chosen", then_branch=then, else_branch=other)

    body = helper.make_graph(
        [node("MatMul", ["state", shared], "body.product", "/body/product"),
         node("Add", ["body.product", hidden], "body.sum", "/body/sum"),
         node("Tanh", ["body.sum"], "new_state", "/body/tanh"),
         node("ReduceMean", ["new_state"], "body.mean", "/body/mean", axes=[1], keepdims=0),
         node("Identity", ["body.go"], "body.go_on", "/body/go")],
        "body",
        [value("iteration", [], INT64), value("body.go", [], BOOL), value("state", ["N", 8])],
        [value("body.go_on", [], BOOL), value("new_state", ["N", 8]), value("body.mean", ["N"])])
    build.node("Loop", [build.tensor("count", np.int64(4)), "", chosen], ["y", "means"], body=body)
    build.output("y", ["N", 8]), build.output("means", [4, "N"])
    ways = [(True, False), (False, True), (False, False)]
    return build.model(), [{"x": inputs(rng, 3, 8), "go": np.bool_(go), "deep": np.bool_(deep)}
                           for go, deep in ways]


def functions(rng):
    """Nested local functions with an attribute parameter, called twice: with small values, and with
    values whose squares leave fp16. One function body must serve both callers, or be split."""
    opset = [helper.make_opsetid("", 17)]
    slope = AttributeProto(name="alpha", ref_attr_name="slope", type=AttributeProto.FLOAT)
    leaky = node("LeakyRelu", ["normal"], "leaky", "leaky")
    leaky.attribute.append(slope)
    square_mean = helper.make_function(
        DOMAIN, "SquareMean", ["v"], ["mean"],
        [node("Mul", ["v", "v"], "square", "square"),
         node("ReduceMean", ["square"], "mean", "mean", axes=[-1], keepdims=1)], opset)
    normalise = helper.make_function(
        DOMAIN, "Normalise", ["v", "weight"], ["result"],
        [helper.make_node("SquareMean", ["v"], ["mean"], name="square_mean", domain=DOMAIN),
         node("Sqrt", ["mean"], "root", "root"),
         node("Div", ["v", "root"], "normal", "normal"),
         leaky,
         node("MatMul", ["leaky", "weight"], "result", "product")],
        [*opset, helper.make_opsetid(DOMAIN, 1)], attributes=["slope"])

    build = Builder("functions")
    weight = build.tensor("shared.weight", weights(rng, 8, 8))
    x = build.input("x", ["N", 8])
    small = build.node("Normalise", [x, weight], "small", domain=DOMAIN, slope=0.1)
    large = build.node("Mul", [x, build.tensor("thousand", np.float32(1000))], "scaled")
    large = build.node("Normalise", [large, weight], "large", domain=DOMAIN, slope=0.3)
    build.node("Add", [small, large], "y")
    build.output("y", ["N", 8])
    model = build.model([square_mean, normalise], [DOMAIN])
    return model, [{"x": inputs(rng, 3, 8)} for _ in range(2)]


def external(rng):
    """Weights in external.data: two tensors over the same bytes, a third at an offset of 4096."""
    build = Builder("external")
    weight, bias = weights(rng, 16, 16).astype("<f4"), rng.normal(size=16).astype("<f4")
    with open(os.path.join(HERE, "external.data"), "wb") as file:
        file.write(weight.tobytes().ljust(4096, b"\0") + bias.tobytes())
    places = (("first.weight", weight, 0), ("second.weight", weight, 0), ("bias", bias, 4096))
    for name, array, offset in places:
        tensor = TensorProto(name=name, data_type=FLOAT, dims=array.shape,
                             data_location=TensorProto.EXTERNAL)
        entries = {"location": "external.data", "offset": offset, "length": array.nbytes}
        for key, entry in entries.items():
            tensor.external_data.add(key=key, value=str(entry))
        build.tensors.append(tensor)
    hidden = build.node("MatMul", [build.input("x", ["N", 16]), "first.weight"], "first")
    hidden = build.node("Relu", [build.node("Add", [hidden, "bias"], "biased")], "relu")
    build.node("MatMul", [hidden, "second.weight"], "y")
    build.output("y", ["N", 16])
    return build.model(), [{"x": inputs(rng, 2, 16)} for _ in range(2)]


def unsorted(rng):
    """Nodes in reverse order, which the standard forbids, onnx.checker refuses, engines accept."""
    build = Builder("unsorted")
    hidden = build.node("MatMul", [build.input("x", ["N", 8]),
                        build.tensor("weight", weights(rng, 8, 8))], "product")
    hidden = build.node("Relu", [hidden], "relu")
    hidden = build.node("Softmax", [hidden], "softmax", axis=-1)
    build.node("MatMul", [hidden, "weight"], "y")
    build.output("y", ["N", 8])
    build.nodes.reverse()
    return build.model(), [{"x": inputs(rng, 2, 8)} for _ in range(2)]


def multi_io(rng):
    """Inputs of four types, one with a default (an initializer of the same name); outputs that are
    read inside, are an input, are an initializer; a double path. Sample 1 overrides the default."""
    build = Builder("multi_io")
    x, indices = build.input("x", ["N", 8]), build.input("indices", ["N"], INT64)
    keep, precise = build.input("keep", ["N", 1], BOOL), build.input("precise", ["N", 1], DOUBLE)
    scale = build.tensor(build.input("scale", [8]), np.linspace(0.5, 2, 8))
    table = build.tensor("table", rng.normal(size=(16, 8)))
    picked = build.node("Gather", [table, indices], "picked", axis=0)
    hidden = build.node("Mul", [build.node("Add", [x, picked], "sum"), scale], "hidden")
    product = build.node("MatMul", [hidden, build.tensor("weight", weights(rng, 8, 8))], "product")
    build.node("Where", [keep, product, hidden], "y")
    total = build.node("ReduceSum", [hidden, build.tensor("axes", np.int64([1]))], "total")
    total = build.node("Cast", [total], "total_as_double", to=DOUBLE)
    build.node("Add", [total, precise], "precise_total")
    build.output("y", ["N", 8]), build.output("hidden", ["N", 8]), build.output("x", ["N", 8])
    build.output("table", [16, 8]), build.output("precise_total", ["N", 1], DOUBLE)

    def sample(**more):
        return {"x": inputs(rng, 3, 8), "indices": rng.integers(0, 16, 3),
                "keep": rng.random((3, 1)) < 0.5, "precise": rng.normal(size=(3, 1)), **more}
    return build.model(), [sample(), sample(scale=np.ones(8, "f4"))]


def output_twice(rng):
    """A graph output that is listed twice, and a branch of the graph that nothing reads."""
    build = Builder("output_twice")
    product = build.node("MatMul", [build.input("x", ["N", 8]),
                         build.tensor("weight", weights(rng, 8, 8))], "y")
    build.node("Relu", [product], "unread")
    build.output("y", ["N", 8]), build.output("y", ["N", 8])
    return build.model(), [{"x": inputs(rng, 2, 8)}]


def constants(rng):
    """A constant in every form: all Constant attributes, rank 0 and zero size, values as raw bytes
    and in `float_data`, ConstantOfShape with and without a value, a sparse initializer.

    Strict shape inference of the onnx package fails on the sparse initializer; engines run it."""
    build = Builder("constants")
    x = build.input("x", ["N", 4])

    def const(name, **form):
        return build.node("Constant", [], name, **form)

    def plus(other, name, operator="Add"):
        nonlocal x
        x = build.node(operator, [x, other], name)

    def sparse(name):
        values = helper.make_tensor(name, FLOAT, [2], [0.5, -1.5])
        return helper.make_sparse_tensor(values, constant("", np.int64([1, 3])), [4])

    plus(const("raw", value=constant("raw", rng.normal(size=4))), "plus_raw")
    listed = helper.make_tensor("listed", FLOAT, [4], [1, 2, 3, 4])
    plus(const("listed", value=listed), "plus_listed")
    plus(const("rank_0", value=constant("rank_0", np.float32(0.25))), "plus_rank_0", "Mul")
    plus(const("one_float", value_float=0.75), "plus_one_float", "Mul")
    plus(const("floats", value_floats=[0.1, 0.2, 0.3, 0.4]), "plus_floats")
    plus(const("sparse_value", sparse_value=sparse("")), "plus_sparse_value")
    for name, form in (("one_int", {"value_int": 3}), ("ints", {"value_ints": [1, 2, 3, 4]})):
        plus(build.node("Cast", [const(name, **form)],
             f"{name}_as_float", to=FLOAT), f"plus_{name}")
    texts = (("one_string", {"value_string": "a"}), ("strings", {"value_strings": ["b", "c"]}))
    for name, form in texts:
        size = build.node("Size", [const(name, **form)], f"{name}_size")
        plus(build.node("Cast", [size], f"{name}_as_float", to=FLOAT), f"plus_{name}")
    plus(build.tensor("initializer_raw", rng.normal(size=4)), "plus_initializer_raw")
    build.tensors.append(helper.make_tensor("initializer_listed", FLOAT, [], [0.125]))
    plus("initializer_listed", "plus_initializer_listed")
    build.sparse.append(sparse("sparse_initializer"))
    plus("sparse_initializer", "plus_sparse_initializer")
    four = build.tensor("four", np.int64([4]))
    plus(build.node("ConstantOfShape", [four], "sevens",
         value=constant("seven", np.float32([7]))), "plus_sevens")
    plus(build.node("ConstantOfShape", [four], "zeros"), "plus_zeros")
    empty = const("empty", value=constant("empty", np.zeros((0, 4), "f4")))
    empty_too = build.tensor("initializer_empty", np.zeros((0, 4), "f4"))
    x = build.node("Concat", [x, empty, empty_too], "joined", axis=0)
    build.node("MatMul", [x, build.tensor("weight", weights(rng, 4, 4))], "y")
    build.output("y", ["N", 4])
    return build.model(), [{"x": inputs(rng, 2, 4)} for _ in range(2)]


def recurrent(rng):
    """LSTM, then GRU, then RNN: empty optional inputs in the middle, several outputs, state."""
    build = Builder("recurrent")
    x, batch, size = build.input("x", ["T", 2, 4]), 2, 6

    def cell(operator, source, width, gates, writes, rest=(), **attributes):
        name = operator.lower()
        rows = gates * size
        shapes = {"input_weight": (1, rows, width), "state_weight": (1, rows, size),
                  "bias": (1, 2 * rows)}
        parts = [build.tensor(f"{name}.{part}", 0.5 * rng.normal(size=shape))
                 for part, shape in shapes.items()]
        build.node(operator, [source, *parts, *rest], writes, hidden_size=size, **attributes)
        return build.node("Squeeze", [writes[0], "direction"], f"{name}.sequence")

    build.tensor("direction", np.int64([1]))
    start = [build.tensor(f"lstm.start_{part}", 0.1 * rng.normal(size=(1, batch, size)))
             for part in "hc"]
    source = cell("LSTM", x, 4, 4, ["lstm.all", "lstm.last", "lstm.cell"], ["", *start])
    source = cell("GRU", source, size, 3, ["gru.all"], linear_before_reset=1)
    source = cell("RNN", source, size, 1, ["rnn.all", "rnn.last"])
    build.node("Identity", [source], "y")
    build.output("y", ["T", batch, size]), build.output("lstm.cell", [1, batch, size])
    return build.model(), [{"x": inputs(rng, steps, batch, 4)} for steps in (5, 9)]


def names(rng):
    """Names: unnamed nodes, one node name in several graphs, values called what a converter would
    call its own, text that needs escaping, one name in both branches, inner names that hide outer
    ones (`w` and `h`)."""
    build = Builder("names")
    weight = build.tensor("w", weights(rng, 4, 4))
    build.tensor("w__fp16", weights(rng, 4, 4)), build.input("go", [], BOOL)
    x = build.node("MatMul", [build.input("x", ["N", 4]), weight], "h", name="")
    taken = ["x__fp16", "x_cast_to_fp16", "x_fp16", "x_cast_0", "graph_input_cast_0", "h__bf16",
             "h__wide", "h_narrow", "h/narrowcast/fp16", "narrowcast_0", "Cast_0", "0",
             "InsertedPrecisionFreeCast_x", "InsertedCast_h", 'größe "x" <b>&amp;\\n']
    for i, name in enumerate(taken):
        x = build.node("Tanh" if i % 2 else "Neg", [x], name, name="" if i % 3 else f"Cast_{i}")
    x = build.node("MatMul", [x, "w__fp16"], "x__fp16__fp16", name="same")

    def side(name, operator):  # both sides make `inner`; `w` is their own tensor, not the outer one
        nodes = [node("MatMul", ["x__fp16__fp16", "w"], "inner", "same"),
                 node(operator, ["inner"], f"{name}.out")]
        return branch(name, nodes, ["N", 4], [constant("w", weights(rng, 4, 4))])

    x = build.node("If", ["go"], "chosen", name="",
                   then_branch=side("then", "Relu"), else_branch=side("else", "Tanh"))
    body = helper.make_graph(  # its state is called `h`, as the outer value is
        [node("Mul", ["h", "x__fp16"], "inner", "same"), node("Add", ["inner", "chosen"], "h_next"),
         node("Identity", ["c"], "c_next")],
        "body", [value("i", [], INT64), value("c", [], BOOL), value("h", ["N", 4])],
        [value("c_next", [], BOOL), value("h_next", ["N", 4])])
    count = build.tensor("count", np.int64(3))
    x = build.node("Loop", [count, "", x], "looped", name="", body=body)
    build.node("Add", [x, "h"], "y", name="")
    build.output("y", ["N", 4])
    return build.model(), [{"x": inputs(rng, 2, 4), "go": np.bool_(go)} for go in (True, False)]


def duplicate_node_names(rng):
    """Two nodes of one graph with the same name: onnx.checker accepts it, ONNX Runtime does not."""
    build = Builder("duplicate_node_names")
    x, weight = build.input("x", ["N", 4]), build.tensor("weight", weights(rng, 4, 4))
    x = build.node("MatMul", [x, weight], "h", name="same")
    build.node("MatMul", [x, weight], "y", name="same")
    build.output("y", ["N", 4])
    return build.model(), [{"x": inputs(rng, 2, 4)}]


def shape_math(rng):
    """Float arithmetic that computes shapes: it must stay wide. Half of 4131 elements, floored, is
    2065; in fp16 4131 is 4132. Also a Resize by computed sizes and one by computed scales."""
    build = Builder("shape_math")
    x = build.input("x", [1, 1, "H", "W"])
    weight = build.tensor("weight", rng.normal(size=(1, 1, 3, 3)))
    features = build.node("Conv", [x, weight], "features", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    half = build.tensor("half", np.float32(0.5))

    def halved(source, name):
        number = build.node("Cast", [source], f"{name}.float", to=FLOAT)
        number = build.node("Mul", [number, half], f"{name}.half")
        number = build.node("Floor", [number], f"{name}.floor")
        return build.node("Cast", [number], f"{name}.int", to=INT64)

    count = halved(build.node("Size", [features], "count"), "count")
    count = build.node("Reshape", [count, build.tensor("one", np.int64([1]))], "count.list")
    flat = build.node("Reshape", [features, build.tensor("minus_one", np.int64([-1]))], "flat")
    front = build.node("Slice", [flat, build.tensor("zero", np.int64([0])), count], "front.flat")
    column = build.node("Concat", [count, "one"], "front.shape", axis=0)
    front = build.node("Reshape", [front, column], "front.column")
    build.node("ReduceMean", [front], "front", axes=[0])

    sides = halved(build.node("Shape", [features], "sides", start=2), "sides")
    sizes = build.node("Concat", ["one", "one", sides], "sizes", axis=0)
    small = build.node("Resize", [features, "", "", sizes], "small", mode="linear")
    actual = build.node("Cast", [build.node("Shape", [small], "small.shape")], "actual", to=FLOAT)
    divisors = build.tensor("divisors", np.float32([1, 1, 5, 10]))
    wanted = build.node("Div", [actual, divisors], "wanted")
    scales = build.node("Div", [build.node("Floor", [wanted], "floored"), actual], "scales")
    build.node("Resize", [small, "", scales], "y", mode="nearest")
    build.output("front", [1, 1]), build.output("y", [1, 1, "h", "w"])
    coarse = [np.round(8 * inputs(rng, 1, 1, *size)) / 8 for size in ((51, 81), (20, 40))]
    return build.model(), [{"x": x} for x in coarse]


def island(rng):
    """A model that is fp16 already, with an fp32 island that its author put around a LayerNorm."""
    build = Builder("island")
    half = TensorProto.FLOAT16
    x = build.input("x", ["N", 8], half)
    weight = build.tensor("weight", weights(rng, 8, 8).astype("f2"))
    x = build.node("Cast", [build.node("MatMul", [x, weight], "product")], "wide", to=FLOAT)
    parameters = [build.tensor("gamma", np.ones(8)), build.tensor("beta", np.zeros(8))]
    x = build.node("LayerNormalization", [x, *parameters], "normal", axis=-1)
    x = build.node("Cast", [x], "narrow", to=half)
    build.node("MatMul", [x, weight], "y")
    build.output("y", ["N", 8], half)
    return build.model(), [{"x": inputs(rng, 2, 8).astype("f2")}]


def quantised(rng):
    """A quantised island between float products: scales and int8 weights must be left alone."""
    build = Builder("quantised")
    scale, zero = build.tensor("scale", np.float32(0.05)), build.tensor("zero", np.uint8(128))
    weight_scale = build.tensor("weight_scale", np.float32(0.01))
    weight_zero = build.tensor("weight_zero", np.int8(0))
    weight = build.tensor("weight", rng.integers(-100, 100, (8, 8)).astype("i1"))
    before = build.tensor("before.weight", weights(rng, 8, 8))
    x = build.node("MatMul", [build.input("x", ["N", 8]), before], "before")
    x = build.node("QuantizeLinear", [x, scale, zero], "quantised")
    parameters = [scale, zero, weight, weight_scale, weight_zero, scale, zero]
    x = build.node("QLinearMatMul", [x, *parameters], "integer")
    x = build.node("DequantizeLinear", [x, scale, zero], "dequantised")
    build.node("MatMul", [x, build.tensor("after.weight", weights(rng, 8, 8))], "y")
    build.output("y", ["N", 8])
    return build.model(), [{"x": inputs(rng, 2, 8)} for _ in range(2)]


def training_step(rng):
    """A step of a training: the updated weight w_new is the w of the next step; gradient 'slope'."""
    build = Builder("training_step")
    x, t = build.input("x", ["N", 8]), build.input("t", ["N", 2])
    w = build.input("w", [8, 2])
    error = build.node("Sub", [build.node("MatMul", [x, w], "y"), t], "error")
    turned = build.node("Transpose", [x], "x.turned", perm=[1, 0])
    slope = build.node("MatMul", [turned, error], "slope")
    change = build.node("Mul", [build.tensor("rate", np.float32(1e-3)), slope], "change")
    build.node("Sub", [w, change], "w_new")
    build.output("w_new", [8, 2])
    truth, first = weights(rng, 8, 2), weights(rng, 8, 2).astype("f4")
    samples = []
    for _ in range(4):
        batch = inputs(rng, 16, 8)
        samples.append({"x": batch, "t": (batch @ truth).astype("f4"), "w": first})
    return build.model(), samples


def detector(rng):
    """Boxes that a NonMaxSuppression chooses by their scores, which are close: fp16 changes their order.

    576 boxes that do not overlap, of which those with a score above a half come out, best first.
    """
    build = Builder("detector")
    x = build.input("image", [1, 3, 24, 24])
    x = build.node("Conv", [x, build.tensor("first.weight", rng.normal(0, 0.2, (8, 3, 3, 3)))],
                   "first", pads=[1, 1, 1, 1])
    x = build.node("Relu", [x], "first.relu")
    x = build.node("Conv", [x, build.tensor("head.weight", rng.normal(0, 0.3, (2, 8, 1, 1)))], "head")
    x = build.node("Sigmoid", [x], "head.scores")
    x = build.node("Reshape", [x, build.tensor("flat", np.array([1, 2, 576]))], "scores.all")
    corners = np.stack(np.meshgrid(np.arange(24.0), np.arange(24.0)), -1).reshape(1, 576, 2) * 8
    boxes = build.tensor("boxes.all", np.concatenate([corners, corners + 7.5], -1))
    limits = [build.tensor("most", np.array([576])), build.tensor("overlap", np.float32([0.5])),
              build.tensor("least", np.float32([0.5]))]
    kept = build.node("NonMaxSuppression", [boxes, x, *limits], "kept")
    zero, one, two = (build.tensor(f"index.{k}", np.array([k])) for k in range(3))
    place = build.node("Squeeze", [build.node("Gather", [kept, two], "place.column", axis=1), one], "place")
    chosen = build.node("Gather", [boxes, place], "boxes.chosen", axis=1)
    build.node("Squeeze", [chosen, zero], "boxes")
    build.node("GatherND", [x, kept], "scores")
    build.node("Squeeze", [build.node("Gather", [kept, one], "class.column", axis=1), one], "classes")
    build.output("boxes", ["N", 4]), build.output("scores", ["N"])
    build.output("classes", ["N"], INT64)
    return build.model(), [{"image": inputs(rng, 1, 3, 24, 24)} for _ in range(4)]


def random(rng):
    """Every operator that draws random numbers: with a seed, without, in a branch, in a function."""
    build = Builder("random")
    x = build.input("x", ["N", 16])
    low = build.node("Less", [build.node("ReduceMax", [x], "top", keepdims=0),
                              build.tensor("bound", np.float32(1e3))], "low")
    h = build.node("MatMul", [x, build.tensor("first.weight", weights(rng, 16, 16))], "first")
    h = build.node("Add", [h, build.node("Noise", [h], "noise", domain=DOMAIN)], "noisy")
    given = build.node("RandomUniform", [], "given", shape=[16], seed=3.0)
    h = build.node("Mul", [h, given], "weighted")
    then = branch("then", [node("RandomNormalLike", [h], "then.drawn"),
                           node("Add", [h, "then.drawn"], "then.out")], ["N", 16])
    other = branch("other", [node("Identity", [h], "other.out")], ["N", 16])
    h = build.node("If", [low], "chosen", then_branch=then, else_branch=other)
    share = [build.tensor("ratio", np.float32(0.25)), build.tensor("training", np.bool_(True))]
    h = build.node("Dropout", [h, *share], "dropped")
    coins = build.node("Bernoulli", [build.tensor("chances", np.full(16, 0.5))], "coins")
    column = build.node("Multinomial", [build.tensor("odds", np.zeros((1, 16)))], "column", sample_size=4)
    h = build.node("Mul", [h, build.node("Add", [coins, build.node("RandomNormal", [], "normal",
                                                                   shape=[16])], "gains")], "gained")
    y = build.node("MatMul", [h, build.tensor("last.weight", weights(rng, 16, 16))], "last")
    build.node("Gather", [y, column], "y", axis=1)
    build.output("y", ["N", 1, 4])
    noise = helper.make_function(DOMAIN, "Noise", ["like"], ["drawn"],
                                 [node("RandomUniformLike", ["like"], "drawn")],
                                 [helper.make_opsetid("", OPSET)])
    return build.model([noise], [DOMAIN]), [{"x": inputs(rng, 32, 16)} for _ in range(4)]


MODELS = (if_loop, functions, external, unsorted, multi_io, output_twice, constants, recurrent,
          names, duplicate_node_names, shape_math, island, quantised, training_step, detector,
          random)


def main():
    for make in MODELS:
        name = make.__name__
        rng = np.random.default_rng([SEED, *name.encode()])  # so that models do not affect others
        model, samples = make(rng)
        save_model(model, os.path.join(HERE, name + ".onnx"), make not in (unsorted, external))
        save_samples(os.path.join(HERE, "samples", name), samples)


if __name__ == "__main__":
    main()
