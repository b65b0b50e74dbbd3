"""How operators are drawn: one row per kind of operator, in a table per family."""

from __future__ import annotations

from differential.tables import (
  attention,
  control,
  elementwise,
  indexing,
  learning,
  movement,
  normalization,
  patterns,
  places,
  products,
  quantized,
  recurrent,
  reductions,
  sequences,
  shapes,
  signals,
  windows,
)
from differential.tables.row import Row

ROWS: list[Row] = [
  *elementwise.ROWS, *reductions.ROWS, *normalization.ROWS, *products.ROWS, *windows.ROWS,
  *movement.ROWS, *shapes.ROWS, *indexing.ROWS, *quantized.ROWS, *recurrent.ROWS, *attention.ROWS,
  *places.ROWS, *signals.ROWS, *learning.ROWS, *control.ROWS, *sequences.ROWS,
  *patterns.ROWS,
]

__all__ = ["ROWS", "Row"]
