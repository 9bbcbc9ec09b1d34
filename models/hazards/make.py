#!/usr/bin/python3
"""Writes hazards.onnx: the known ways in which a model that is right in fp32 breaks when narrowed.

One hazard is one branch of the graph and one output of the same name; `safe`, `infinity_mask`,
`infinity_minimum`, `gelu_by_hand`, `global_average` and `eight_bit_range` come out right in fp16.
Tensors of a branch are named `<output>.<step>`. In fp32 every output is finite on samples/*.npz;
samples_not_finite/0.npz has one input that overflows in fp32 as well (`softmax_by_hand.exp`).
What a plain fp16 conversion does with each branch is in models/README.md, measured by measure.py.

Run with Debian's python3-numpy and python3-onnx:
    python3 models/hazards/make.py
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.dont_write_bytecode = True

import numpy as np
from onnx import helper

from builder import BOOL, FLOAT, INT64, Builder, save_model, save_samples, value

WIDTH, BATCH, SAMPLES, SEED = 64, 4, 4, 7
LOWEST = np.finfo(np.float32).min

ABOUT = {  # becomes the documentation of the outputs, and a column of the table in models/README.md
    "mask_minus_3e38": "mask times -3.4e38 added to scores",
    "mask_1e30": "mask times 1e30 subtracted from scores",
    "mask_1e9": "-1e9 chosen for masked scores, a whole row masked",
    "infinity_mask": "-inf chosen for masked scores: representable, stays",
    "infinity_minimum": "+inf under a minimum: representable, stays",
    "weight_1e6": "weights of 1e6, undone by a factor of 1e-7",
    "weight_1e_minus_9": "weights of 1e-9 become zero",
    "weight_subnormal": "weights of 3e-7 are subnormal in fp16",
    "tiny_sign": "the sign of a product with 1e-9 or -1e-9",
    "layer_norm_1e_minus_12": "LayerNorm by hand, epsilon 1e-12, zero and nearly constant rows",
    "entropy_1e_minus_15": "p log(p + 1e-15) where p is zero",
    "unit_length_1e_minus_8": "v / (length of v + 1e-8) where v is zero",
    "rms_norm_sum": "RMSNorm by hand, standard deviation 100: the sum of squares overflows",
    "rms_norm_square": "RMSNorm by hand, values above 255.9: the squares overflow",
    "instance_norm_by_hand": "InstanceNorm by hand: the squares overflow",
    "variance_in_one_pass": "the root of E[v^2] - E[v]^2: cancellation",
    "gelu_by_hand": "GELU with v^3: overflows, but tanh saturates",
    "softmax_by_hand": "exp(s) / sum exp(s), s up to 12",
    "log_sum_exp_by_hand": "log sum exp(s), s up to 12",
    "wide_sum": "ReduceSum over two negative axes whose result exceeds 65504",
    "einsum_sum": "Einsum whose result exceeds 65504",
    "conv_sum": "Conv whose result exceeds 65504",
    "global_average": "GlobalAveragePool: only an fp16 accumulator overflows",
    "overflow_difference": "2a - 1.5a with a up to 60000: inf - inf",
    "residual_stream": "nine residual blocks, one tied weight, growing beyond 65504",
    "eight_bit_range": "values above 448: only an 8-bit format overflows",
    "position_step": "neighbouring positions up to 4095, their difference",
    "cumulative_step": "CumSum of 512 terms, differences of neighbours",
    "sine": "Sin of arguments up to 4094",
    "cosine": "Cos of arguments up to 4094",
    "swamped_residual": "1000 + u - 1000 with small u",
    "running_sum": "a Loop that adds 512 small steps to a state of 64",
    "safe": "two products and a Relu: nothing wrong",
}


class Hazards(Builder):
    """The graph, one method a family of hazards; `branch` names the output that is being built."""

    def __init__(self, rng):
        super().__init__("hazards")
        self.rng, self.branch = rng, ""
        self.x = self.input("x", ["N", WIDTH])
        self.mask = self.input("mask", ["N", 8])
        self.rows = self.input("rows", ["N", 4, WIDTH])
        self.ids = self.input("position_ids", ["N", 16], INT64)
        shapes = {"scores": [0, 8, 8], "image": [0, 1, 8, 8]}
        self.scores, self.image = (
            self.node("Reshape", [self.x, self.tensor(f"{name}.shape", np.int64(shape))], name)
            for name, shape in shapes.items())

    def named(self, inputs, name):
        """Names of the inputs of a node; numbers and arrays become initializers."""
        return [v if isinstance(v, str) else self.tensor(f"{name}.constant", v) for v in inputs]

    def step(self, operator, inputs, step, **attributes):
        """A node of the current branch."""
        name = f"{self.branch}.{step}"
        return self.node(operator, self.named(inputs, name), name, **attributes)

    def finish(self, operator, inputs, shape, **attributes):
        """The last node of the branch, whose output is the graph output named like the branch."""
        self.node(operator, self.named(inputs, self.branch), self.branch, **attributes)
        self.output(self.branch, ["N", *shape], about=ABOUT[self.branch])

    def scaled(self, source, factor):
        return self.step("Mul", [source, np.float32(factor)], "scaled")

    # Constants out of range

    def masks(self):
        self.branch = "mask_minus_3e38"
        dropped = self.step("Sub", [np.float32(1), self.mask], "dropped")
        penalty = self.step("Mul", [dropped, LOWEST], "penalty")
        penalty = self.step("Unsqueeze", [penalty, np.int64([1])], "penalty_by_key")
        masked = self.step("Add", [self.scores, penalty], "masked")
        self.finish("Softmax", [masked], [8, 8], axis=-1)

        self.branch = "mask_1e30"
        dropped = self.step("Sub", [np.float32(1), self.mask], "dropped")
        penalty = self.step("Mul", [dropped, np.float32(1e30)], "penalty")
        penalty = self.step("Unsqueeze", [penalty, np.int64([1])], "penalty_by_key")
        masked = self.step("Sub", [self.scores, penalty], "masked")
        self.finish("Softmax", [masked], [8, 8], axis=-1)

        self.branch = "mask_1e9"  # a fully masked row: uniform in fp32, all -inf if the constant is
        kept = self.step("Cast", [self.mask], "kept", to=BOOL)
        kept = self.step("Unsqueeze", [kept, np.int64([1])], "kept_by_key")
        masked = self.step("Where", [kept, self.scores, np.float32(-1e9)], "masked")
        self.finish("Softmax", [masked], [8, 8], axis=-1)

    def infinities(self):
        causal = self.tensor("causal", np.tril(np.ones((8, 8), bool)))
        self.branch = "infinity_mask"
        masked = self.step("Where", [causal, self.scores, np.float32(-np.inf)], "masked")
        self.finish("Softmax", [masked], [8, 8], axis=-1)

        self.branch = "infinity_minimum"
        large = self.scaled(self.scores, 10000)
        masked = self.step("Where", [causal, large, np.float32(np.inf)], "masked")
        self.finish("ReduceMin", [masked], [8], axes=[-1], keepdims=0)

    def weights(self):
        self.branch = "weight_1e6"
        weight = self.tensor("weight_1e6.weight", self.rng.normal(0, 1e6, (WIDTH, 8)))
        product = self.step("MatMul", [self.x, weight], "product")
        self.finish("Mul", [product, np.float32(1e-7)], [8])

        self.branch = "weight_1e_minus_9"
        weight = self.tensor("weight_1e_minus_9.weight", self.rng.normal(0, 1e-9, (WIDTH, 8)))
        self.finish("MatMul", [self.scaled(self.x, 20000), weight], [8])

        self.branch = "weight_subnormal"
        weight = self.tensor("weight_subnormal.weight", self.rng.normal(0, 3e-7, (WIDTH, 8)))
        self.finish("MatMul", [self.scaled(self.x, 20000), weight], [8])

        self.branch = "tiny_sign"  # a negative weight that becomes -0 has lost its sign
        slopes = np.float32(1e-9) * np.where(np.arange(WIDTH) % 3, 1, -1)
        product = self.step("Mul", [self.x, slopes], "product")
        self.finish("Sign", [product], [WIDTH])

    # Epsilons that become zero

    def epsilons(self):
        self.branch = "layer_norm_1e_minus_12"
        normal = self.normalised(self.rows, [-1], 1e-12)
        gamma = self.step("Mul", [normal, self.rng.normal(1, 0.1, WIDTH)], "gamma")
        self.finish("Add", [gamma, self.rng.normal(0, 0.1, WIDTH)], [4, WIDTH])

        self.branch = "entropy_1e_minus_15"
        odds = self.step("Softmax", [self.scores], "softmax", axis=-1)
        keep = self.step("Unsqueeze", [self.mask, np.int64([1])], "mask_by_key")
        odds = self.step("Mul", [odds, keep], "kept")
        safe = self.step("Add", [odds, np.float32(1e-15)], "stabilised")
        terms = self.step("Mul", [odds, self.step("Log", [safe], "log")], "terms")
        total = self.step("ReduceSum", [terms, np.int64([-1])], "total", keepdims=0)
        self.finish("Neg", [total], [8])

        self.branch = "unit_length_1e_minus_8"
        length = self.step("ReduceL2", [self.rows], "length", axes=[-1], keepdims=1)
        safe = self.step("Add", [length, np.float32(1e-8)], "stabilised")
        self.finish("Div", [self.rows, safe], [4, WIDTH])

    def normalised(self, source, axes, epsilon):
        """(v - mean) / sqrt(mean((v - mean)^2) + epsilon), node by node."""
        mean = self.step("ReduceMean", [source], "mean", axes=axes, keepdims=1)
        centred = self.step("Sub", [source, mean], "centred")
        square = self.step("Mul", [centred, centred], "square")
        variance = self.step("ReduceMean", [square], "variance", axes=axes, keepdims=1)
        stable = self.step("Add", [variance, np.float32(epsilon)], "stabilised")
        deviation = self.step("Sqrt", [stable], "deviation")
        return self.step("Div", [centred, deviation], "normal")

    # Patterns written out node by node

    def patterns(self):
        self.branch = "rms_norm_sum"  # standard deviation 100: squares fit, their sum does not
        wide = self.scaled(self.x, 100)
        square = self.step("Mul", [wide, wide], "square")
        total = self.step("ReduceSum", [square, np.int64([-1])], "sum", keepdims=1)
        mean = self.step("Mul", [total, np.float32(1 / WIDTH)], "mean")
        root = self.step("Sqrt", [self.step("Add", [mean, np.float32(1e-5)], "stabilised")], "root")
        self.finish("Div", [wide, root], [WIDTH])

        self.branch = "rms_norm_square"  # inputs above 255.9: the squares themselves
        wide = self.scaled(self.x, 200)
        square = self.step("Pow", [wide, np.float32(2)], "square")
        mean = self.step("ReduceMean", [square], "mean", axes=[-1], keepdims=1)
        root = self.step("Sqrt", [self.step("Add", [mean, np.float32(1e-5)], "stabilised")], "root")
        self.finish("Div", [wide, root], [WIDTH])

        self.branch = "instance_norm_by_hand"
        planes = self.step("Reshape", [self.x, np.int64([0, 4, 4, 4])], "planes")
        normal = self.normalised(self.scaled(planes, 250), [-2, -1], 1e-5)
        self.finish("Identity", [normal], [4, 4, 4])

        self.branch = "variance_in_one_pass"  # E[v^2] - E[v]^2: the root of a negative
        shifted = self.step("Add", [self.scaled(self.x, 0.5), np.float32(30)], "shifted")
        squares = self.step("Mul", [shifted, shifted], "square")
        of_squares = self.step("ReduceMean", [squares], "mean_of_squares", axes=[-1], keepdims=1)
        mean = self.step("ReduceMean", [shifted], "mean", axes=[-1], keepdims=1)
        of_mean = self.step("Mul", [mean, mean], "square_of_mean")
        self.finish("Sqrt", [self.step("Sub", [of_squares, of_mean], "variance")], [1])

        self.branch = "gelu_by_hand"  # v^3 overflows, tanh saturates: right only by luck
        wide = self.scaled(self.x, 20)
        cube = self.step("Pow", [wide, np.float32(3)], "cube")
        term = self.step("Mul", [cube, np.float32(0.044715)], "cube_term")
        inner = self.step("Add", [wide, term], "inner")
        inner = self.step("Mul", [inner, np.float32(np.sqrt(2 / np.pi))], "inner_scaled")
        gate = self.step("Add", [self.step("Tanh", [inner], "tanh"), np.float32(1)], "gate")
        half = self.step("Mul", [wide, np.float32(0.5)], "half")
        self.finish("Mul", [half, gate], [WIDTH])

        self.branch = "softmax_by_hand"
        exponential = self.step("Exp", [self.scaled(self.scores, 5)], "exp")
        total = self.step("ReduceSum", [exponential, np.int64([-1])], "sum", keepdims=1)
        self.finish("Div", [exponential, total], [8, 8])

        self.branch = "log_sum_exp_by_hand"
        exponential = self.step("Exp", [self.scaled(self.scores, 5)], "exp")
        total = self.step("ReduceSum", [exponential, np.int64([-1])], "sum", keepdims=0)
        self.finish("Log", [total], [8])

    # Results and accumulators out of range

    def sums(self):
        self.branch = "wide_sum"  # 64 terms over two negative axes; their mean would fit
        large = self.scaled(self.step("Abs", [self.scores], "size"), 2000)
        total = self.step("ReduceSum", [large, np.int64([-1, -2])], "sum", keepdims=0)
        self.finish("Mul", [total, np.float32(1 / WIDTH)], [])

        self.branch = "einsum_sum"
        large = self.scaled(self.scores, 150)
        product = self.step("Einsum", [large, large], "product", equation="nij,nkj->nik")
        self.finish("Mul", [product, np.float32(1e-3)], [8, 8])

        self.branch = "conv_sum"
        kernel = self.tensor("conv_sum.weight", self.rng.normal(0, 16, (2, 1, 3, 3)))
        large = self.scaled(self.image, 5000)
        product = self.step("Conv", [large, kernel], "conv", kernel_shape=[3, 3])
        self.finish("Mul", [product, np.float32(1e-5)], [2, 6, 6])

        self.branch = "global_average"  # the result fits; an fp16 accumulator would not
        large = self.scaled(self.step("Abs", [self.image], "size"), 2000)
        self.finish("GlobalAveragePool", [large], [1, 1, 1])

        self.branch = "overflow_difference"
        large = self.scaled(self.x, 25000)
        twice = self.step("Mul", [large, np.float32(2)], "twice")
        half_more = self.step("Mul", [large, np.float32(1.5)], "half_more")
        difference = self.step("Sub", [twice, half_more], "difference")
        self.finish("Mul", [difference, np.float32(1e-3)], [WIDTH])

        self.branch = "residual_stream"  # nine blocks with one tied weight, each growing fourfold
        hidden = self.step("MatMul", [self.x, self.rng.normal(0, 1 / 8, (WIDTH, 16))], "embedded")
        growth = 3 * np.eye(16) + self.rng.normal(0, 0.1, (16, 16))
        weight = self.tensor("residual_stream.weight", growth)
        for block in range(9):
            update = self.step("MatMul", [hidden, weight], f"{block}.update")
            hidden = self.step("Add", [hidden, update], f"{block}.sum")
        gamma = self.tensor("residual_stream.gamma", np.ones(16))
        beta = self.tensor("residual_stream.beta", np.zeros(16))
        self.finish("LayerNormalization", [hidden, gamma, beta], [16], axis=-1, epsilon=1e-5)

        self.branch = "eight_bit_range"  # above 448: fine in fp16, infinite or saturated in fp8e4m3
        weight = self.tensor("eight_bit_range.weight", self.rng.normal(0, 1 / 8, (WIDTH, 8)))
        self.finish("MatMul", [self.scaled(self.x, 300), weight], [8])

    # Resolution: the range is fine, the steps between numbers are too large

    def resolution(self):
        self.branch = "position_step"  # neighbouring positions differ by one, always
        table = self.tensor("position_step.table", np.arange(4096, dtype=np.float32))
        position = self.step("Gather", [table, self.ids], "position", axis=0)
        position = self.step("Add", [position, np.float32(1)], "next_position")
        self.difference(position, 15)

        self.branch = "cumulative_step"
        terms = self.step("Tile", [self.step("Abs", [self.x], "size"), np.int64([1, 8])], "terms")
        summed = self.step("CumSum", [self.scaled(terms, 50), np.int64(1)], "sum")
        self.difference(summed, 8 * WIDTH - 1)

        angle = self.node("Cast", [self.ids], "angle.position", to=FLOAT)
        axes = self.tensor("angle.axes", np.int64([2]))
        angle = self.node("Unsqueeze", [angle, axes], "angle.column")
        rates = self.tensor("angle.rates", np.float32([1, 0.7, 0.3, 0.05]))
        angle = self.node("Mul", [angle, rates], "angle")
        for self.branch, operator in (("sine", "Sin"), ("cosine", "Cos")):
            self.finish(operator, [angle], [16, 4])

        self.branch = "swamped_residual"  # 1000 + u: every u below a quarter is lost
        large = self.step("Add", [self.scaled(self.x, 0.5), np.float32(1000)], "large")
        update = self.step("Mul", [self.x, np.float32(0.1)], "update")
        total = self.step("Add", [large, update], "sum")
        self.finish("Sub", [total, large], [WIDTH])

        self.branch = "running_sum"  # 512 small steps onto a state of about 64
        size = self.step("Abs", [self.x], "size")
        start = self.step("Add", [size, np.float32(64)], "start")
        self.step("Mul", [size, np.float32(0.01)], "increment")
        count = self.tensor("running_sum.count", np.int64(512))
        go = self.tensor("running_sum.go", np.bool_(True))
        final = self.step("Loop", [count, go, start], "final", body=loop_body())
        self.finish("Sub", [final, start], [WIDTH])

    def difference(self, source, length):
        """Each element less the one before it."""
        axes, one, end = (self.tensor(f"{self.branch}.{name}", np.int64([number]))
                          for name, number in (("axes", 1), ("one", 1), ("end", length + 1)))
        after = self.step("Slice", [source, one, end, axes], "after")
        zero, end = (self.tensor(f"{self.branch}.{name}", np.int64([number]))
                     for name, number in (("zero", 0), ("length", length)))
        before = self.step("Slice", [source, zero, end, axes], "before")
        self.finish("Sub", [after, before], [length])

    def safe(self):
        self.branch = "safe"
        hidden = self.step("MatMul", [self.x, self.rng.normal(0, 1 / 8, (WIDTH, 16))], "first")
        hidden = self.step("Relu", [hidden], "relu")
        self.finish("MatMul", [hidden, self.rng.normal(0, 1 / 4, (16, 8))], [8])


def loop_body():
    """state + running_sum.increment, which is captured from the outer graph."""
    nodes = [helper.make_node("Add", ["running_sum.state", "running_sum.increment"],
                              ["running_sum.new_state"], name="/running_sum/body/add"),
             helper.make_node("Identity", ["running_sum.go_in"], ["running_sum.go_out"],
                              name="/running_sum/body/go")]
    inputs = [value("running_sum.iteration", [], INT64), value("running_sum.go_in", [], BOOL),
              value("running_sum.state", ["N", WIDTH])]
    outputs = [value("running_sum.go_out", [], BOOL), value("running_sum.new_state", ["N", WIDTH])]
    return helper.make_graph(nodes, "running_sum_body", inputs, outputs)


def sample(rng):
    """Normal numbers up to 2.4; rows that normalisations find hard; one fully masked row."""
    x = np.clip(rng.normal(size=(BATCH, WIDTH)), -2.4, 2.4).astype("f4")
    x[:, 0] = 2.4
    mask = (rng.random((BATCH, 8)) < 0.7).astype("f4")
    mask[0], mask[1] = 0, 1
    rows = rng.normal(size=(BATCH, 4, WIDTH))
    rows[:, 0] = 0  # padding
    rows[:, 1] = 0.01 + 1e-6 * rows[:, 1]  # nearly constant
    rows[:, 2] *= 50
    ids = np.int64([0, 300, 2040, 4079])[:, None] + np.arange(16)
    return {"x": x, "mask": mask, "rows": rows.astype("f4"), "position_ids": ids}


def main():
    rng = np.random.default_rng(SEED)
    graph = Hazards(rng)
    for family in (graph.masks, graph.infinities, graph.weights, graph.epsilons, graph.patterns,
                   graph.sums, graph.resolution, graph.safe):
        family()
    save_model(graph.model(), os.path.join(HERE, "hazards.onnx"))
    samples = [sample(rng) for _ in range(SAMPLES)]
    save_samples(os.path.join(HERE, "samples"), samples)
    samples[0]["x"][2, 5] = 20  # exp(5 * 20) is infinite in fp32
    save_samples(os.path.join(HERE, "samples_not_finite"), samples[:1])


if __name__ == "__main__":
    main()
