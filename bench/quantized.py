"""Quantised models against ONNX Runtime: products quantised when they run, a QDQ block of
convolutions, and weights stored as float16.

python -m bench.quantized [--threads 1 2] [--rounds 30] [--page bench/results/quantized.md]

The script makes the models. Results are compared before anything is timed; then the engines take
turns. The median of the rounds is shown, and how far the middle half of them lies apart."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

import stretto
from bench.machine import describe, name

SEED = 5
OPSET = 21
# Next to a tie a quantised value may fall either way, which later layers carry on.
TOLERANCE, TIES = 1e-4, 0.02

Call = Callable[[], object]


def model(nodes: list, x: tuple[int, ...], y: tuple[int, ...], constants: dict) -> onnx.ModelProto:
  tensors = [onnx.numpy_helper.from_array(np.asarray(value), key)
             for key, value in constants.items()]
  graph = helper.make_graph(nodes, "quantised",
                            [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
                            [helper.make_tensor_value_info("y", TensorProto.FLOAT, y)], tensors)
  made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
  made.ir_version = 10
  return made


def dynamic(rows: int, width: int = 768, hidden: int = 3072) -> onnx.ModelProto:
  """As onnxruntime.quantization.quantize_dynamic writes two layers."""
  rng = np.random.default_rng(SEED)
  node = helper.make_node
  nodes, constants, value = [], {}, "x"
  for i, (k, n) in enumerate([(width, hidden), (hidden, width)]):
    constants[f"w{i}"] = rng.integers(-127, 128, (k, n)).astype(np.int8)
    constants[f"wz{i}"] = np.int8(0)
    constants[f"ws{i}"] = np.float32(1 / (64 * k**0.5))
    constants[f"b{i}"] = rng.standard_normal(n).astype(np.float32)
    nodes += [node("DynamicQuantizeLinear", [value], [f"q{i}", f"s{i}", f"z{i}"]),
              node("MatMulInteger", [f"q{i}", f"w{i}", f"z{i}", f"wz{i}"], [f"sums{i}"]),
              node("Cast", [f"sums{i}"], [f"floats{i}"], to=TensorProto.FLOAT),
              node("Mul", [f"s{i}", f"ws{i}"], [f"scale{i}"]),
              node("Mul", [f"floats{i}", f"scale{i}"], [f"scaled{i}"]),
              node("Add", [f"scaled{i}", f"b{i}"], ["y" if i else "added"])]
    if i == 0:
      nodes.append(node("Relu", ["added"], ["hidden"]))
    value = "hidden"
  return model(nodes, (rows, width), (rows, width), constants)


def block(channels: int = 64, size: int = 56) -> onnx.ModelProto:
  """Two convolutions 3 x 3 of a residual block, QuantizeLinear and DequantizeLinear around them."""
  rng = np.random.default_rng(SEED)
  node = helper.make_node
  nodes, constants = [], {"z": np.uint8(0), "wz": np.zeros(channels, np.int8)}
  scales = {"x": 0.02, "c0": 0.03, "sum": 0.04}

  def rounded(value: str) -> str:
    constants[f"s_{value}"] = np.float32(scales[value])
    nodes.extend([node("QuantizeLinear", [value, f"s_{value}", "z"], [f"{value}_q"]),
                  node("DequantizeLinear", [f"{value}_q", f"s_{value}", "z"], [f"{value}_d"])])
    return f"{value}_d"

  entry = value = rounded("x")
  for i in range(2):
    constants[f"w{i}"] = rng.integers(-127, 128, (channels, channels, 3, 3)).astype(np.int8)
    constants[f"ws{i}"] = np.full(channels, 1 / (64 * 3 * channels**0.5), np.float32)
    nodes += [node("DequantizeLinear", [f"w{i}", f"ws{i}", "wz"], [f"wd{i}"], axis=0),
              node("Conv", [value, f"wd{i}"], [f"conv{i}"], pads=[1] * 4)]
    if i == 0:
      nodes.append(node("Relu", ["conv0"], ["c0"]))
      value = rounded("c0")
  nodes += [node("Add", ["conv1", entry], ["both"]), node("Relu", ["both"], ["sum"])]
  nodes.append(node("Identity", [rounded("sum")], ["y"]))
  shape = (1, channels, size, size)
  return model(nodes, shape, shape, constants)


def halves(rows: int = 16, width: int = 768, hidden: int = 3072) -> onnx.ModelProto:
  """A product with weights that are stored as float16."""
  rng = np.random.default_rng(SEED)
  w = (rng.standard_normal((width, hidden)) / width**0.5).astype(np.float16)
  nodes = [helper.make_node("Cast", ["w"], ["wf"], to=TensorProto.FLOAT),
           helper.make_node("MatMul", ["x", "wf"], ["y"])]
  return model(nodes, (rows, width), (rows, hidden), {"w": w})


def rows() -> list[tuple[str, onnx.ModelProto]]:
  mlps = [(f"dynamic MLP 768 x 3072, {m} row{'s' * (m > 1)}", dynamic(m)) for m in (1, 16, 128)]
  return [*mlps, ("QDQ block, 64 channels, 56 x 56", block()),
          ("float16 weights 768 x 3072, 16 rows", halves())]


def session(proto: onnx.ModelProto, x: np.ndarray, threads: int, tuned: bool) -> Call:
  """ONNX Runtime as it comes, or with an output that is there already and threads that spin."""
  options = ort.SessionOptions()
  options.intra_op_num_threads = threads
  options.inter_op_num_threads = 1
  if tuned:
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.add_session_config_entry("session.intra_op.allow_spinning", "1")
  made = ort.InferenceSession(proto.SerializeToString(), options,
                              providers=["CPUExecutionProvider"])
  if not tuned:
    return lambda: made.run(None, {"x": x})[0]
  y = np.empty_like(made.run(None, {"x": x})[0])
  binding = made.io_binding()
  binding.bind_input("x", "cpu", 0, x.dtype, x.shape, x.ctypes.data)
  binding.bind_output("y", "cpu", 0, y.dtype, y.shape, y.ctypes.data)

  def call() -> np.ndarray:
    made.run_with_iobinding(binding)
    return y

  return call


def engines(proto: onnx.ModelProto, threads: int) -> dict[str, Call]:
  shape = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
  x = np.random.default_rng(SEED + 1).standard_normal(shape).astype(np.float32)
  ours = stretto.optimize(proto, threads=threads, tuning="quick", tuning_cache="none")
  return {"Stretto": lambda: ours(x), "ONNX Runtime": session(proto, x, threads, tuned=False),
          "ONNX Runtime, tuned": session(proto, x, threads, tuned=True)}


def check(title: str, calls: dict[str, Call]) -> None:
  want = np.array(calls["ONNX Runtime"]())
  largest = np.abs(want).max()
  for engine, call in calls.items():
    off = np.abs(np.asarray(call()) - want) > TOLERANCE * largest
    if off.mean() > TIES:
      raise SystemExit(f"{title}: {engine} computes something else in {off.mean():.1%} of places")


def measured(calls: dict[str, Call], rounds: int) -> dict[str, np.ndarray]:
  """Milliseconds per call in each round, in which every engine has its turn."""
  found: dict[str, list[float]] = {engine: [] for engine in calls}
  for _ in range(rounds):
    for engine, call in calls.items():
      call()
      count, start = 0, time.perf_counter()
      while (elapsed := time.perf_counter() - start) < 10e-3 or count < 3:
        call()
        count += 1
      found[engine].append(elapsed / count * 1e3)
  return {engine: np.array(times) for engine, times in found.items()}


def table(results: list[tuple[str, int, dict[str, np.ndarray]]]) -> str:
  names = list(results[0][2])
  lines = ["| ms | threads | " + " | ".join(names) + " | tuned / Stretto |",
           "|---" * (len(names) + 3) + "|"]
  for title, threads, times in results:
    cells = []
    for engine in names:
      low, middle, high = np.percentile(times[engine], [25, 50, 75])
      cells.append(f"{middle:.3f} ({high - low:.3f})")
    ratio = np.median(times["ONNX Runtime, tuned"] / times["Stretto"])
    lines.append(f"| {title} | {threads} | " + " | ".join(cells) + f" | {ratio:.2f} |")
  return "\n".join(lines)


def page(text: str) -> str:
  machine = describe()
  return "\n".join([
    "# Quantised models", "",
    "This page has what `python -m bench.quantized` measured: the median of the rounds and, in",
    "parentheses, how far the middle half of them lies apart. \"Tuned\" writes to memory that is",
    "there already and lets threads spin.",
    "[How quantised models are computed](../../docs/design/quantized.md) explains the kernels.", "",
    f"{name(machine)}, {', '.join(machine['isa'])}; ONNX Runtime {ort.__version__}.", "", text, ""])


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
  parser.add_argument("--rounds", type=int, default=30)
  parser.add_argument("--page", type=Path, help="write the page of results")
  options = parser.parse_args()
  results = []
  for threads in options.threads:
    for title, proto in rows():
      calls = engines(proto, threads)
      check(title, calls)
      results.append((title, threads, measured(calls, options.rounds)))
      print(table(results[-1:]).splitlines()[-1], flush=True)
  text = table(results)
  print(text)
  if options.page:
    options.page.write_text(page(text))


if __name__ == "__main__":
  main()
