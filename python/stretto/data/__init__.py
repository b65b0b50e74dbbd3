"""Pictures for training and validation: read, decoded, cropped and normalised ahead of the model.

```python
loader = stretto.data.ImageLoader("imagenet/train", batch=256, framework="torch")
while loader.epoch < 90:
  for images, labels in loader:
    ...
```
"""

from __future__ import annotations

from stretto import _stretto

if not hasattr(_stretto, "DataLoader"):
  raise ImportError("stretto was built without the decoders of pictures (STRETTO_BUILD_MEDIA=OFF): "
                    "use what ./dev build or the wheel provides")

from stretto.data._adapters import DictIterator, follow, to_device, torch_dataset
from stretto.data._dataset import Dataset, concat, open
from stretto.data._loader import ImageLoader
from stretto.data._options import IMAGENET_MEAN, IMAGENET_STD, operators
from stretto.data._pack import pack, unpack, verify

__all__ = [
  "Dataset",
  "DictIterator",
  "IMAGENET_MEAN",
  "IMAGENET_STD",
  "ImageLoader",
  "concat",
  "follow",
  "open",
  "operators",
  "pack",
  "to_device",
  "torch_dataset",
  "unpack",
  "verify",
]
