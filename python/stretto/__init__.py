"""Stretto: same model, same script, faster.

  import stretto
  model = stretto.optimize("resnet50.onnx")
  y = model(x)
  model.save("resnet50.stretto")
"""

from stretto._model import Model, TensorSpec, list_passes, load, optimize
from stretto._report import Report
from stretto._stretto import (
  CommError,
  FormatError,
  InternalError,
  InvalidArgumentError,
  UnsupportedError,
)
from stretto._stretto import version as __version__

__all__ = [
  "CommError",
  "FormatError",
  "InternalError",
  "InvalidArgumentError",
  "Model",
  "Report",
  "TensorSpec",
  "UnsupportedError",
  "__version__",
  "list_passes",
  "load",
  "optimize",
]
