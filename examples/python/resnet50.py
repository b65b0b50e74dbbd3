"""ResNet-50 v1.5 as an ONNX file, written with the onnx package alone. Weights are seeded and
random: speed depends on shapes, and nothing has to be downloaded.

  python examples/python/resnet50.py resnet50.onnx
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

STAGES = ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2))  # blocks, width, stride
EXPANSION = 4


class Builder:
  def __init__(self, seed: int):
    self.random = np.random.default_rng(seed)
    self.nodes: list = []
    self.weights: list = []

  def weight(self, name: str, values: np.ndarray) -> str:
    self.weights.append(numpy_helper.from_array(values.astype(np.float32), name))
    return name

  def add(self, op: str, inputs: list[str], name: str, **attributes) -> str:
    self.nodes.append(helper.make_node(op, inputs, [name + ".out"], name, **attributes))
    return name + ".out"

  def convolution(self, x: str, name: str, c: int, k: int, size: int, stride: int = 1,
                  gain: float = 1.0) -> str:
    """Convolution and batch normalisation."""
    spread = np.sqrt(2 / (c * size * size))
    w = self.weight(name + ".weight", self.random.normal(0, spread, (k, c, size, size)))
    y = self.add("Conv", [x, w], name, kernel_shape=[size, size], strides=[stride, stride],
                 pads=[size // 2] * 4)
    bn = name + ".bn"
    parts = [self.weight(f"{bn}.scale", gain * self.random.uniform(0.9, 1.1, k)),
             self.weight(f"{bn}.shift", self.random.normal(0, 0.05, k)),
             self.weight(f"{bn}.mean", self.random.normal(0, 0.05, k)),
             self.weight(f"{bn}.variance", self.random.uniform(0.9, 1.1, k))]
    return self.add("BatchNormalization", [y, *parts], bn)

  def bottleneck(self, x: str, name: str, c: int, width: int, stride: int) -> str:
    k = EXPANSION * width
    y = self.add("Relu", [self.convolution(x, f"{name}.conv1", c, width, 1)], f"{name}.relu1")
    y = self.convolution(y, f"{name}.conv2", width, width, 3, stride)
    y = self.add("Relu", [y], f"{name}.relu2")
    # A small gain on the residual branch keeps signals of order one through sixteen blocks.
    y = self.convolution(y, f"{name}.conv3", width, k, 1, gain=0.3)
    if stride != 1 or c != k:
      x = self.convolution(x, f"{name}.shortcut", c, k, 1, stride, gain=0.7)
    return self.add("Relu", [self.add("Add", [y, x], f"{name}.add")], f"{name}.relu3")


def write(path: Path, seed: int = 0) -> Path:
  b = Builder(seed)
  x = b.add("Relu", [b.convolution("image", "stem", 3, 64, 7, 2)], "stem.relu")
  x = b.add("MaxPool", [x], "stem.pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
  c = 64
  for stage, (blocks, width, stride) in enumerate(STAGES, 1):
    for block in range(blocks):
      x = b.bottleneck(x, f"stage{stage}.{block}", c, width, stride if block == 0 else 1)
      c = EXPANSION * width
  x = b.add("Flatten", [b.add("GlobalAveragePool", [x], "pool")], "flatten")
  w = b.weight("classifier.weight", b.random.normal(0, 1 / np.sqrt(c), (1000, c)))
  bias = b.weight("classifier.bias", np.zeros(1000))
  b.nodes.append(helper.make_node("Gemm", [x, w, bias], ["logits"], "classifier", transB=1))
  graph = helper.make_graph(
    b.nodes, "resnet50",
    [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 224, 224])],
    [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 1000])], b.weights)
  model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
  onnx.checker.check_model(model)
  onnx.save(model, path)
  return path


if __name__ == "__main__":
  print(write(Path(sys.argv[1] if len(sys.argv) > 1 else "resnet50.onnx")))
