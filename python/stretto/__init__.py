"""Optimises ONNX models for this machine, and loads and runs optimised models.

```python
import stretto

model = stretto.optimize("resnet50.onnx")
y = model(x)
model.save("resnet50.stretto")
```
"""

from stretto import _log
from stretto._context import Context
from stretto._convert import convert
from stretto._errors import (
  CommError,
  Error,
  FormatError,
  InternalError,
  InvalidArgumentError,
  UnsupportedError,
)
from stretto._generate import generate, stream
from stretto._model import Model, TensorSpec
from stretto._optimize import list_passes, load, optimize
from stretto._random import manual_seed
from stretto._report import Report
from stretto._stretto import version as __version__

_log.set_up()

__all__ = [
  "CommError",
  "Context",
  "Error",
  "FormatError",
  "InternalError",
  "InvalidArgumentError",
  "Model",
  "Report",
  "TensorSpec",
  "UnsupportedError",
  "__version__",
  "convert",
  "generate",
  "list_passes",
  "load",
  "manual_seed",
  "optimize",
  "stream",
]
