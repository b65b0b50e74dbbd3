"""Writes the reference of formats: JSON from runs of the command, bytes from headers."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import cxx
from command import code, table

HEADERS = ("stretto/comm/link/handshake.h", "stretto/comm/link/frame.h")
# Verb as on the page of the formats -> words of a run whose output shows its fields.
RUNS = {
  "optimize M.onnx": ["optimize", "M.onnx", "-o", "M.stretto", "--tuning", "off"],
  "infer": ["infer", "M.stretto", "--input", "x=x.npy"],
  "inspect --passes": ["inspect", "--passes"],
  "inspect M.onnx": ["inspect", "M.onnx"],
  "inspect --rules": ["inspect", "M.onnx", "--rules"],
  "inspect --bisect": ["inspect", "M.onnx", "--bisect"],
  "inspect M.stretto": ["inspect", "M.stretto"],
  "check": ["check", "M.onnx"],
  "convert": ["convert", "M.onnx", "-o", "written.onnx"],
  "pack": ["pack", "pictures", "out.pack"],
  "pack --verify PACK": ["pack", "--verify", "out.pack"],
  "unpack": ["unpack", "out.pack", "again"],
  "kernels": ["kernels"],
  "kernels FAMILY": ["kernels", "matmul", "--seconds", "0.1"],
  "operators": ["operators"],
  "peers": ["peers"],
  "doctor": ["doctor"],
  "cluster simulate --policies": ["cluster", "simulate", "--policies"],
  "help environment": ["help", "environment"],
}
TYPES = {str: "string", bool: "boolean", int: "number", float: "number", type(None): "null"}


def write_model(folder: Path) -> None:
  """M.onnx and x.npy: one convolution and its activation."""
  import numpy as np
  import onnx
  from onnx import TensorProto, helper, numpy_helper

  x = np.linspace(-1, 1, 3 * 8 * 8, dtype=np.float32).reshape(1, 3, 8, 8)
  weight = np.linspace(-1, 1, 4 * 3 * 3 * 3, dtype=np.float32).reshape(4, 3, 3, 3)
  graph = helper.make_graph(
    [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Relu", ["c"], ["y"])], "tiny",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 6, 6])],
    [numpy_helper.from_array(weight, "w")])
  model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
  onnx.save(model, folder / "M.onnx")
  np.save(folder / "x.npy", x)


def write_picture(folder: Path) -> None:
  """pictures/grey.png: one grey pixel."""
  def chunk(kind: bytes, content: bytes) -> bytes:
    check = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)

  (folder / "pictures").mkdir()
  (folder / "pictures" / "grey.png").write_bytes(
    b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    + chunk(b"IDAT", zlib.compress(b"\0\x80")) + chunk(b"IEND", b""))


def fields(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
  """(path, type) of everything below a JSON value; a list is shown by all of its elements."""
  if isinstance(value, dict):
    for name, inner in value.items():
      yield from fields(inner, f"{path}.{name}" if path else name)
  elif isinstance(value, list):
    yield path, "list"
    for inner in value:
      yield from fields(inner, f"{path}[]")
  else:
    yield path, TYPES[type(value)]


def fields_table(value: Any) -> str:
  found: dict[str, dict[str, None]] = {}
  for path, kind in fields(value):
    found.setdefault(path, {})[kind] = None
  return table(["field", "type"], [[code(path), " or ".join(kinds)]
                                   for path, kinds in found.items()])


def json_page(environment: Mapping[str, str]) -> str:
  parts = ["# Fields of JSON",
           "This page lists the fields that each verb prints under `--json`, and those of the "
           "report, as runs on a model of two nodes gave them when this page was built. "
           "[JSON of the command](../formats/command-json.md) and "
           "[the report](../formats/report.md) say what they mean; a field can have "
           "other types than these runs show, such as null where something is unknown. "
           "`[]` stands for every element of a list."]
  with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    write_model(folder)
    write_picture(folder)

    def ask(words: list[str]) -> Any:
      done = subprocess.run([sys.executable, "-m", "stretto", *words], cwd=folder, text=True,
                            capture_output=True, env={**environment, "STRETTO_CACHE_DIR": name})
      if done.returncode:
        raise SystemExit(f"docs: stretto {' '.join(words)}: {done.stderr.strip()}")
      return json.loads(done.stdout)

    for verb, words in RUNS.items():
      parts += [f"## {verb}", fields_table(ask([*words, "--json"]))]
    parts += ["## The report", fields_table(ask(["inspect", "M.stretto", "--report"]))]
  return "\n\n".join(parts) + "\n"


def bytes_page() -> str:
  return cxx.page("Bytes between ranks", HEADERS, functions=False, text=(
    "This page lists the structures, kinds and limits of what ranks send each other, as the code "
    "has them. [Frames between ranks](../formats/frame.md) says where each field lies and how "
    "they are used."))
