"""ncnn, converted by pnnx; fp16 and bf16 storage off, so that it computes in fp32 as well."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

PACKAGES = ("ncnn", "pnnx")


def pnnx_program() -> str:
  beside = Path(sys.executable).with_name("pnnx")
  found = str(beside) if beside.exists() else shutil.which("pnnx")
  if not found:
    raise RuntimeError("the pnnx program is not in PATH")
  return found


def convert(model: Path, inputs: dict[str, np.ndarray], folder: Path) -> tuple[Path, Path]:
  """The model as ncnn's .param and .bin. Raises RuntimeError with pnnx's own words."""
  # pnnx runs the model once; of shapes alone it would make up token numbers that are out of range.
  files = [f"{i}.npy" for i in range(len(inputs))]
  for file, array in zip(files, inputs.values()):
    np.save(folder / file, array)
  copy = folder / "m.onnx"
  copy.symlink_to(model.resolve())
  done = subprocess.run([pnnx_program(), str(copy), f"input={','.join(files)}", "fp16=0"],
                        capture_output=True, text=True, cwd=folder)
  param, weights = folder / "m.ncnn.param", folder / "m.ncnn.bin"
  if done.returncode != 0 or not param.exists():
    last = (done.stderr.strip() or done.stdout.strip()).splitlines()
    raise RuntimeError(f"pnnx: {last[-1] if last else f'exit code {done.returncode}'}")
  return param, weights


class Runner:
  setting = "pnnx fp16=0, Winograd and SGEMM on, fp16/bf16 storage off"

  def __init__(self, model: Path, inputs: dict[str, np.ndarray], threads: int):
    if any(array.shape[:1] != (1,) for array in inputs.values()):
      raise RuntimeError("ncnn runs one sample at a time; the model's batch is not 1")
    import ncnn

    self._net = ncnn.Net()
    options = self._net.opt
    options.num_threads = threads
    options.use_vulkan_compute = False
    options.use_winograd_convolution = True
    options.use_sgemm_convolution = True
    options.use_packing_layout = True
    options.use_fp16_packed = options.use_fp16_storage = options.use_fp16_arithmetic = False
    options.use_bf16_storage = False
    with tempfile.TemporaryDirectory() as folder:
      param, weights = convert(model, inputs, Path(folder))
      if self._net.load_param(str(param)) != 0 or self._net.load_model(str(weights)) != 0:
        raise RuntimeError("ncnn cannot load the converted model")
    # ncnn has no 64-bit integers; the arrays are kept because a Mat points into its array.
    self._arrays = [np.ascontiguousarray(a[0].astype(np.int32) if a.dtype == np.int64 else a[0])
                    for a in inputs.values()]
    self._inputs = [(name, ncnn.Mat(a)) for name, a in zip(self._net.input_names(), self._arrays)]
    self._results: list = []

  def run(self) -> None:
    extractor = self._net.create_extractor()
    for name, array in self._inputs:
      extractor.input(name, array)
    results = []
    for name in self._net.output_names():
      code, result = extractor.extract(name)
      if code != 0:
        raise RuntimeError(f"ncnn cannot compute {name} (code {code})")
      results.append(result)
    self._results = results

  def outputs(self) -> list[np.ndarray]:
    return [np.array(r)[None] for r in self._results]


load = Runner
