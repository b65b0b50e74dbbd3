"""ONNX's operators as functions: compiled on their first call with some shapes, and kept.

```python
import numpy as np
from stretto import ops

x = np.random.rand(1, 3, 224, 224).astype(np.float32)
w = ops.constant(np.random.rand(64, 3, 7, 7).astype(np.float32))
y = ops.Conv(x, w, strides=[2, 2], pads=[3, 3, 3, 3])
y = ops.conv2d(x, w, stride=2, padding=3)
```

Every operator has ONNX's name, inputs and attributes; `dir(ops)` lists them, and
`print(ops.Conv.__doc__)` shows those of one. Functions in small letters have the arguments of
PyTorch's.

NumPy arrays or PyTorch tensors come out as they went in. docs/howto/operators.md says what is kept,
what is copied, and how long a call takes.
"""

from __future__ import annotations

from stretto.ops._context import Constant, Context, Operator, constant, default_context
from stretto.ops._functions import (
  attention,
  avg_pool2d,
  conv2d,
  gelu,
  layer_norm,
  linear,
  matmul,
  max_pool2d,
  relu,
  softmax,
)

__all__ = [
  "Constant",
  "Context",
  "Operator",
  "attention",
  "avg_pool2d",
  "constant",
  "conv2d",
  "default_context",
  "gelu",
  "layer_norm",
  "linear",
  "matmul",
  "max_pool2d",
  "relu",
  "softmax",
]


def __getattr__(name: str) -> Operator:
  if name.startswith("_") or not name[0].isupper():
    raise AttributeError(f"module 'stretto.ops' has no attribute {name!r}")
  found: Operator = getattr(default_context(), name)
  globals()[name] = found  # Python asks once
  return found


def __dir__() -> list[str]:
  return sorted([*__all__, *dir(default_context())])
