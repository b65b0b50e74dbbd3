"""What a row of the lists of models says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Input:
  name: str
  shape: tuple[int, ...]
  dtype: str  # numpy name
  kind: str  # how bench.models.inputs makes it up: image, sequence, token_ids, ...


@dataclass(frozen=True)
class Model:
  name: str
  module: str  # file in this folder, or the library that defines the function called `name`
  inputs: tuple[Input, ...]
  outputs: tuple[str, ...]
  parameters: int  # count; the test checks it against the published one where there is one
  gmac: float  # multiply-accumulates of one run, in 1e9, convolutions and matrix products only
  batch_norm: str  # "kept" as nodes in the ONNX graph, "folded" by the exporter, "none"
  checksum: str  # of the seeded weights; see weights.checksum
  calibration: int = 128  # height and width of the images that calibrate BatchNorm


def image(size: int) -> tuple[Input, ...]:
  return (Input("image", (1, 3, size, size), "float32", "image"),)


def tokens(length: int) -> tuple[Input, ...]:
  return (
      Input("input_ids", (1, length), "int64", "token_ids"),
      Input("attention_mask", (1, length), "int64", "attention_mask"),
      Input("token_type_ids", (1, length), "int64", "token_types"),
  )


def sequence(steps: int, features: int) -> tuple[Input, ...]:
  return (Input("x", (steps, 1, features), "float32", "sequence"),)
