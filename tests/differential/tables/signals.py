"""Transforms of signals, their windows, and counts of n-grams."""

from __future__ import annotations

from onnx import TensorProto

from differential.draft import Draft, Unfit, Value
from differential.tables.movement import listed
from differential.tables.row import Row


def dft(d: Draft, op: str) -> object:
  shape = (d.integer(1, 2), d.choose(1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17), d.integer(1, 3))
  inverse = d.choose(None, 0, 1)
  onesided = None if inverse else d.choose(None, 0, 1)
  parts = 1 if onesided or d.chance(0.4) else 2
  if inverse and parts == 1:
    parts = 2
  x = d.take(d.types(op), (*shape, parts))
  length = listed(d, d.choose(2, 4, 5, 8)) if d.chance(0.2) else None
  axis = d.choose(1, 2)
  if d.has_attribute(op, "axis"):
    return d.add(op, [x, length], axis=axis, inverse=inverse, onesided=onesided)
  return d.add(op, [x, length, listed(d, axis)], inverse=inverse, onesided=onesided)


def stft(d: Draft, op: str) -> object:
  length = d.choose(2, 4, 5, 8)
  x = d.take(d.types(op), (d.integer(1, 2), d.integer(length, 24), 1))
  window: Value | None = d.like(x, shape=(length,)) if d.chance(0.6) else None
  return d.add(op, [x, listed(d, d.integer(1, 4)), window, listed(d, length)],
               onesided=d.choose(None, 0, 1))


def window(d: Draft, op: str) -> object:
  kind = d.choose(None, TensorProto.FLOAT, TensorProto.DOUBLE)
  return d.add(op, [listed(d, d.integer(3, 17), d.choose("int64", "int32"))],
               periodic=d.choose(None, 0, 1), output_datatype=kind)


def mel(d: Draft, op: str) -> object:
  high = d.integer(2000, 4000)
  return d.add(op, [d.constant(d.integer(2, 8)), d.constant(d.choose(16, 32, 64)),
                    d.constant(8000), d.constant(float(d.integer(0, 200)), "float32"),
                    d.constant(float(high), "float32")])


def grams(d: Draft, op: str) -> object:
  x = d.take(("int64", "int32"), [None] * d.choose(1, 2), low=-9, high=9, least=2)
  if x.array.size < 2:
    raise Unfit("no n-gram")
  return d.add(op, [x], mode=d.choose("TF", "IDF", "TFIDF"), min_gram_length=1,
               max_gram_length=2, max_skip_count=d.integer(0, 2), ngram_counts=[0, 2],
               ngram_indexes=[0, 1, 2, 3], pool_int64s=[2, 3, 1, 2, 3, 4],
               weights=[1.0, 2.0, 0.5, 3.0])


ROWS = [
  Row("DFT", dft),
  Row("STFT", stft),
  Row("HannWindow HammingWindow BlackmanWindow", window, 0.5),
  Row("MelWeightMatrix", mel, 0.3),
  Row("TfIdfVectorizer", grams),
]
