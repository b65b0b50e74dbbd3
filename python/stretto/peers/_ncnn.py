"""ncnn, converted by pnnx. By default weights are stored as fp16, which is another numeric
class."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from stretto.peers import Cap, Run, Task

PACKAGES = ("ncnn", "pnnx")
HALF_OPTIONS = ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_storage",
                "use_bf16_packed")


def refuses(task: Task) -> str | None:
  if any(value.shape[:1] != (1,) for value in task.inputs.values()):
    return "takes one sample at a time, the batch is larger"
  return None


def cap(isa: str) -> Cap:
  return Cap(caveat="no public switch; runs at the machine's full width")


def load(task: Task) -> Run:
  import ncnn

  net = ncnn.Net()
  net.opt.num_threads = task.threads
  if task.setting == "best":
    for option in HALF_OPTIONS:
      setattr(net.opt, option, False)
  with tempfile.TemporaryDirectory() as folder:
    convert(task, Path(folder))
    if net.load_param(f"{folder}/m.ncnn.param") or net.load_model(f"{folder}/m.ncnn.bin"):
      raise RuntimeError("ncnn cannot load what pnnx wrote: it has no layer for some operator")
  names_in, names_out = net.input_names(), net.output_names()
  # ncnn has no batch dimension and no 64-bit integers.
  arrays = [np.ascontiguousarray(v[0].astype(np.int32) if v.dtype == np.int64 else v[0])
            for v in task.inputs.values()]
  mats = [ncnn.Mat(array) for array in arrays]

  def run(keep=arrays):  # the Mats point into these arrays
    extractor = net.create_extractor()
    for name, mat in zip(names_in, mats):
      extractor.input(name, mat)
    outputs = []
    for name in names_out:
      code, mat = extractor.extract(name)
      if code:
        raise RuntimeError(f"ncnn cannot compute {name} (code {code})")
      outputs.append(np.array(mat)[None])
    return outputs

  return run


def pnnx_program() -> str:
  next_to_python = Path(sys.executable).with_name("pnnx")
  found = str(next_to_python) if next_to_python.exists() else shutil.which("pnnx")
  if not found:
    raise RuntimeError("the pnnx program is not in PATH")
  return found


def convert(task: Task, folder: Path) -> None:
  (folder / "m.onnx").symlink_to(Path(task.model).resolve())
  # pnnx runs the model once; of shapes alone it would make up token numbers that are out of range.
  files = [f"{i}.npy" for i in range(len(task.inputs))]
  for file, value in zip(files, task.inputs.values()):
    np.save(folder / file, value)
  words = [pnnx_program(), "m.onnx", f"input={','.join(files)}"]
  if task.setting == "best":
    words.append("fp16=0")
  done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
  if not (folder / "m.ncnn.param").exists():
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    reason = lines[-1].strip()[:200] if lines else f"exit status {done.returncode}"
    raise RuntimeError(f"pnnx cannot convert the model: {reason}")
