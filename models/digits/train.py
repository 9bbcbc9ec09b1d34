#!/usr/bin/python3
"""Trains a small convolutional network on real handwritten digits and writes digits.onnx.

The model is the project's realistic example: trained weights, real images, and held-out images to
prove a conversion on. Its operators meet every class of a policy: Conv and Gemm (narrow), Relu,
Add, MaxPool and Flatten (follow), BatchNormalization and Softmax (pin).

Data: the 1797 images of scikit-learn's `load_digits` (8 by 8 pixels, 0 to 16, here divided by 16,
so inputs are exact in fp16). 360 of them are never trained on; they become samples/*.npz, 45 images
a file, with their true classes under the name `label:logits`.

Run with Debian's python3-numpy, python3-onnx and python3-sklearn:
    python3 models/digits/train.py
The seed is fixed and the matrix library is held to one thread: the same bytes on each run. Another
processor or matrix library may round sums otherwise, and so end with slightly different weights.
"""
import os
import sys

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before numpy is loaded, or it has no effect

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.dont_write_bytecode = True

import numpy as np
from sklearn.datasets import load_digits

from builder import Builder, save_model, save_samples

SEED = 20240
HELD_OUT, FILES = 360, 8
EPOCHS, BATCH, RATE = 30, 48, 3e-3
EPSILON, MOMENTUM = 1e-5, 0.9


class Conv:
    """3 by 3 convolution, stride 1, zero padding, no bias (a normalisation follows)."""

    def __init__(self, rng, inputs, outputs):
        scale = np.sqrt(2 / (9 * inputs))
        self.weights = {"weight": rng.normal(0, scale, (outputs, inputs, 3, 3)).astype("f4")}

    def forward(self, x, training):
        n, c, h, w = x.shape
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        taps = [padded[:, :, i:i + h, j:j + w] for i in range(3) for j in range(3)]
        self.shape = x.shape
        self.columns = np.stack(taps, 2).transpose(1, 2, 0, 3, 4).reshape(c * 9, -1)
        kernel = self.weights["weight"].reshape(-1, c * 9)
        return (kernel @ self.columns).reshape(-1, n, h, w).transpose(1, 0, 2, 3)

    def backward(self, g):
        n, c, h, w = self.shape
        kernel = self.weights["weight"].reshape(-1, c * 9)
        g = g.transpose(1, 0, 2, 3).reshape(len(kernel), -1)
        self.gradients = {"weight": (g @ self.columns.T).reshape(-1, c, 3, 3)}
        taps = (kernel.T @ g).reshape(c, 9, n, h, w)
        padded = np.zeros((n, c, h + 2, w + 2), "f4")
        for k in range(9):
            i, j = divmod(k, 3)
            padded[:, :, i:i + h, j:j + w] += taps[:, k].transpose(1, 0, 2, 3)
        return padded[:, :, 1:-1, 1:-1]


class BatchNorm:
    """Normalises each channel: by the batch in training, by the running averages afterwards."""

    def __init__(self, channels):
        self.weights = {"scale": np.ones(channels, "f4"), "bias": np.zeros(channels, "f4")}
        self.mean, self.variance = np.zeros(channels, "f4"), np.ones(channels, "f4")

    def forward(self, x, training):
        mean, variance = self.mean, self.variance
        if training:
            mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
            self.mean = MOMENTUM * self.mean + (1 - MOMENTUM) * mean
            self.variance = MOMENTUM * self.variance + (1 - MOMENTUM) * variance
        self.deviation = np.sqrt(variance + np.float32(EPSILON))
        self.normal = (x - mean[:, None, None]) / self.deviation[:, None, None]
        scale, bias = (self.weights[name][:, None, None] for name in ("scale", "bias"))
        return self.normal * scale + bias

    def backward(self, g):
        axes = (0, 2, 3)
        self.gradients = {"scale": (g * self.normal).sum(axes), "bias": g.sum(axes)}
        factor = (self.weights["scale"] / self.deviation)[:, None, None]
        mean, slope = g.mean(axes)[:, None, None], (g * self.normal).mean(axes)[:, None, None]
        return factor * (g - mean - self.normal * slope)


class Relu:
    weights = {}

    def forward(self, x, training):
        self.positive = x > 0
        return x * self.positive

    def backward(self, g):
        return g * self.positive


class MaxPool:
    """Largest of each 2 by 2 square; the gradient goes to the first largest."""

    weights = {}

    def forward(self, x, training):
        n, c, h, w = x.shape
        squares = x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5)
        squares = squares.reshape(n, c, h // 2, w // 2, 4)
        self.chosen = np.eye(4, dtype="f4")[squares.argmax(-1)]
        return squares.max(-1)

    def backward(self, g):
        n, c, h, w = g.shape
        squares = (g[..., None] * self.chosen).reshape(n, c, h, w, 2, 2)
        return squares.transpose(0, 1, 2, 4, 3, 5).reshape(n, c, 2 * h, 2 * w)


class Dense:
    """Flatten, then a matrix product with bias."""

    def __init__(self, rng, inputs, outputs):
        weight = rng.normal(0, np.sqrt(1 / inputs), (outputs, inputs)).astype("f4")
        self.weights = {"weight": weight, "bias": np.zeros(outputs, "f4")}

    def forward(self, x, training):
        self.shape, self.x = x.shape, x.reshape(len(x), -1)
        return self.x @ self.weights["weight"].T + self.weights["bias"]

    def backward(self, g):
        self.gradients = {"weight": g.T @ self.x, "bias": g.sum(0)}
        return (g @ self.weights["weight"]).reshape(self.shape)


class Network:
    """Stem, one residual block, a wider convolution and a linear classifier."""

    def __init__(self, rng):
        self.stem = [Conv(rng, 1, 16), BatchNorm(16), Relu()]
        self.block = [Conv(rng, 16, 16), BatchNorm(16), Relu(), Conv(rng, 16, 16), BatchNorm(16)]
        self.tail = [Relu(), MaxPool(), Conv(rng, 16, 32), BatchNorm(32), Relu(), MaxPool(),
                     Dense(rng, 128, 10)]
        self.layers = self.stem + self.block + self.tail

    def forward(self, x, training=False):
        skip = run(self.stem, x, training)
        return run(self.tail, skip + run(self.block, skip, training), training)

    def backward(self, g):
        g = run_back(self.tail, g)
        run_back(self.stem, g + run_back(self.block, g))


def run(layers, x, training):
    for layer in layers:
        x = layer.forward(x, training)
    return x


def run_back(layers, g):
    for layer in reversed(layers):
        g = layer.backward(g)
    return g


class Adam:
    def __init__(self, layers):
        self.slots = [(layer, name, np.zeros_like(w), np.zeros_like(w))
                      for layer in layers for name, w in layer.weights.items()]
        self.steps = 0

    def step(self, rate):
        self.steps += 1
        rate *= np.sqrt(1 - 0.999 ** self.steps) / (1 - 0.9 ** self.steps)
        for layer, name, first, second in self.slots:
            g = layer.gradients[name]
            first += np.float32(0.1) * (g - first)
            second += np.float32(0.001) * (g * g - second)
            layer.weights[name] -= np.float32(rate) * first / (np.sqrt(second) + np.float32(1e-8))


def shifted(rng, images):
    """Each image moved by up to one pixel each way, so that the small data set goes further."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    moves = rng.integers(0, 3, (len(images), 2))
    return np.stack([p[:, i:i + 8, j:j + 8] for p, (i, j) in zip(padded, moves)])


def train(network, rng, images, labels):
    adam, batches = Adam(network.layers), len(images) // BATCH
    for epoch in range(EPOCHS):
        order, total = rng.permutation(len(images)), 0.0
        for batch in range(batches):
            pick = order[batch * BATCH:(batch + 1) * BATCH]
            logits = network.forward(shifted(rng, images[pick]), training=True)
            odds = np.exp(logits - logits.max(1, keepdims=True))
            odds /= odds.sum(1, keepdims=True)
            total -= np.log(odds[np.arange(BATCH), labels[pick]]).mean()
            network.backward((odds - np.eye(10, dtype="f4")[labels[pick]]) / BATCH)
            progress = (epoch + batch / batches) / EPOCHS
            adam.step(RATE * 0.5 * (1 + np.cos(np.pi * progress)))
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1}: mean loss {total / batches:.4f}")


def export(network):
    """The trained network as an ONNX graph with readable names."""
    build = Builder("digits")

    def conv(layer, norm, x, name):
        weight = build.tensor(f"{name}.weight", layer.weights["weight"])
        x = build.node("Conv", [x, weight], f"{name}.conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        parameters = {**norm.weights, "mean": norm.mean, "variance": norm.variance}
        names = [build.tensor(f"{name}.norm.{key}", array) for key, array in parameters.items()]
        return build.node("BatchNormalization", [x, *names], f"{name}.norm", epsilon=EPSILON)

    def relu(x, name):
        return build.node("Relu", [x], name)

    def pool(x, name):
        return build.node("MaxPool", [x], name, kernel_shape=[2, 2], strides=[2, 2])

    stem, block, tail = network.stem, network.block, network.tail
    skip = relu(conv(stem[0], stem[1], build.input("image", ["N", 1, 8, 8]), "stem"), "stem.relu")
    x = relu(conv(block[0], block[1], skip, "block.first"), "block.first.relu")
    x = build.node("Add", [conv(block[3], block[4], x, "block.second"), skip], "block.sum")
    x = pool(relu(x, "block.relu"), "block.pool")
    x = pool(relu(conv(tail[2], tail[3], x, "wide"), "wide.relu"), "wide.pool")
    x = build.node("Flatten", [x], "features", axis=1)
    dense = [build.tensor(f"classifier.{key}", array) for key, array in tail[-1].weights.items()]
    build.node("Gemm", [x, *dense], "logits", transB=1)
    build.node("Softmax", ["logits"], "probabilities", axis=1)
    build.output("logits", ["N", 10])
    build.output("probabilities", ["N", 10])
    return build.model()


def main():
    rng = np.random.default_rng(SEED)
    data = load_digits()
    order = rng.permutation(len(data.target))
    images = (data.images[order] / 16).astype("f4")[:, None]
    labels = data.target[order].astype("i8")
    held_images, held_labels = images[:HELD_OUT], labels[:HELD_OUT]

    network = Network(rng)
    train(network, rng, images[HELD_OUT:], labels[HELD_OUT:])
    right = int((network.forward(held_images).argmax(1) == held_labels).sum())
    print(f"held-out accuracy: {right} of {HELD_OUT} ({100 * right / HELD_OUT:.2f} %)")

    save_model(export(network), os.path.join(HERE, "digits.onnx"))
    parts = zip(np.split(held_images, FILES), np.split(held_labels, FILES))
    save_samples(os.path.join(HERE, "samples"),
                 [{"image": part, "label:logits": truth} for part, truth in parts])


if __name__ == "__main__":
    main()
