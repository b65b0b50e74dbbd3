"""Steps by which a model takes pictures, for `stretto.optimize(..., preprocess=...)`.

```python
fast = stretto.optimize("resnet50.onnx", preprocess=stretto.media.Imagenet(224))
scores = fast("photo.jpg")        # or pixels of any size, as uint8 of H x W x 3
```

A list of steps does the same in parts: `[Resize(256), CenterCrop(224), Normalize()]`. All of them
are one pass over the picture. `Imagenet` computes the bits of `stretto.data.ImageLoader` in
validation.

What a loader changes at random in training is here too, by the names of `stretto.data.operators()`:
`ImageLoader(..., transforms=[stretto.media.rand_augment(2, 9), stretto.media.erase(0.25)])`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from stretto import _stretto
from stretto._errors import InvalidArgumentError

__all__ = ["CenterCrop", "Imagenet", "Letterbox", "Normalize", "Resize", "Step", "ToLayout"]

# One number for all channels, or three of red, green and blue.
Colours = float | Sequence[float]
# Height and width, or one number: what it means is the step's.
Size = int | tuple[int, int]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Imagenet:
  """What models of ImageNet are validated with: resize, centre crop, normalise.

  Attributes:
    size: height and width of what the model sees.
    mean: what is subtracted from each channel, whose values are 0 to 1.
    std: what the result is divided by.
    resize: what the shorter side is resized to before; None: `size * 256 // 224`.
    filter: "triangle" (bilinear), "cubic" or "box", each with antialiasing, as Pillow has them.

  Examples:
    >>> stretto.media.Imagenet(224, mean=0.5, std=0.5)
    Imagenet(size=224, mean=0.5, std=0.5, resize=None, filter='triangle')
  """

  size: int = 224
  mean: Colours = IMAGENET_MEAN
  std: Colours = IMAGENET_STD
  resize: int | None = None
  filter: str = "triangle"


@dataclass(frozen=True)
class Letterbox:
  """All of the picture in a frame of one size, as detectors take it: values are 0 to 1 after it.

  The picture is made `scale` times as large, the least of `height / picture_height` and
  `width / picture_width`, and lies in the middle: a place `x` of the model is `(x - left) / scale`
  in the picture, where `left` is `(width - round(picture_width * scale)) // 2`.

  Attributes:
    size: height and width of what the model sees.
    fill: the value beside the picture, 0 to 255; or "mean", which becomes 0, as in
      `stretto.data.ImageLoader(fit="letterbox")`.
    filter: as in `Imagenet`.

  Examples:
    >>> stretto.media.Letterbox(640).fill
    114
  """

  size: Size
  fill: int | str = 114
  filter: str = "triangle"


@dataclass(frozen=True)
class Resize:
  """Makes the picture another size, with antialiasing.

  Attributes:
    size: the shorter side, which a `CenterCrop` has to follow; or height and width.
    filter: as in `Imagenet`.

  Examples:
    >>> stretto.media.Resize((224, 224), filter="cubic").size
    (224, 224)
  """

  size: Size
  filter: str = "triangle"


@dataclass(frozen=True)
class CenterCrop:
  """Shows the middle of the resized picture.

  Attributes:
    size: height and width.

  Examples:
    >>> [stretto.media.Resize(256), stretto.media.CenterCrop(224)][1].size
    224
  """

  size: Size


@dataclass(frozen=True)
class Normalize:
  """Makes `(value / 255 - mean) / std` of each value; without it, values are 0 to 1.

  Attributes:
    mean: one number, or three of red, green and blue.
    std: the same.

  Examples:
    >>> stretto.media.Normalize(mean=0.5, std=0.5).std
    0.5
  """

  mean: Colours = IMAGENET_MEAN
  std: Colours = IMAGENET_STD


@dataclass(frozen=True)
class ToLayout:
  """Says how the model's input lies in memory, where its shape does not.

  Attributes:
    layout: "NCHW" or "NHWC".

  Examples:
    >>> stretto.media.ToLayout("NHWC").layout
    'NHWC'
  """

  layout: str


Step = Imagenet | Letterbox | Resize | CenterCrop | Normalize | ToLayout


def _side(value: object, name: str) -> str:
  if isinstance(value, bool) or not isinstance(value, int):
    raise InvalidArgumentError(f"{name}: expected an integer, got {value!r}")
  return str(value)


def _size(size: object, name: str) -> str:
  if isinstance(size, (tuple, list)):
    if len(size) != 2:
      raise InvalidArgumentError(f"{name}: expected a number or height and width, got {size!r}")
    return f"{_side(size[0], name)}, {_side(size[1], name)}"
  return _side(size, name)


def _colours(value: Any, name: str) -> str:
  try:
    if isinstance(value, (str, bytes)):
      raise TypeError
    values = [float(part) for part in value] if hasattr(value, "__iter__") else [float(value)]
  except (TypeError, ValueError):
    values = []
  if len(values) not in (1, 3):
    raise InvalidArgumentError(
      f"{name}: expected a number or three, of red, green and blue, got {value!r}")
  return f"[{', '.join(map(repr, values))}]" if len(values) == 3 else repr(values[0])


def _word(value: object, name: str) -> str:
  if not isinstance(value, str) or not value.isalnum():
    raise InvalidArgumentError(f"{name}: expected a name, got {value!r}")
  return value


def _fill(fill: object) -> str:
  return fill if isinstance(fill, str) and fill == "mean" else _side(fill, "Letterbox: fill")


def _step_text(step: Step) -> str:
  if isinstance(step, Imagenet):
    resize = "" if step.resize is None else f", resize={_side(step.resize, 'Imagenet: resize')}"
    return (f"imagenet({_side(step.size, 'Imagenet: size')}{resize}, "
            f"mean={_colours(step.mean, 'Imagenet: mean')}, "
            f"std={_colours(step.std, 'Imagenet: std')}, "
            f"filter={_word(step.filter, 'Imagenet: filter')})")
  if isinstance(step, Letterbox):
    return (f"letterbox({_size(step.size, 'Letterbox: size')}, "
            f"fill={_fill(step.fill)}, "
            f"filter={_word(step.filter, 'Letterbox: filter')})")
  if isinstance(step, Resize):
    return (f"resize({_size(step.size, 'Resize: size')}, "
            f"filter={_word(step.filter, 'Resize: filter')})")
  if isinstance(step, CenterCrop):
    return f"center_crop({_size(step.size, 'CenterCrop: size')})"
  if isinstance(step, Normalize):
    return (f"normalize(mean={_colours(step.mean, 'Normalize: mean')}, "
            f"std={_colours(step.std, 'Normalize: std')})")
  if isinstance(step, ToLayout):
    return f"to_layout({_word(step.layout, 'ToLayout: layout')})"
  raise InvalidArgumentError("preprocess: expected a step of stretto.media or its text, got "
                             f"{type(step).__name__}")


def _text(steps: str | Step | Sequence[str | Step]) -> str:
  """The steps as the engine reads them."""
  listed: list[Any] = list(steps) if isinstance(steps, (list, tuple)) else [steps]
  text = ", ".join(step if isinstance(step, str) else _step_text(step) for step in listed)
  if not text.strip():
    raise InvalidArgumentError("preprocess: expected steps of stretto.media, got none")
  return text


def __getattr__(name: str) -> Any:
  """An operator of training: a function from its parameters to its text."""
  if name.startswith("_") or name not in _operators():
    raise AttributeError(f"module 'stretto.media' has no attribute {name!r}")
  return partial(_operator_text, name)


def __dir__() -> list[str]:
  return sorted([*globals(), *_operators()])


def _operators() -> dict[str, str]:
  # An engine that was built without pictures has none.
  return dict(getattr(_stretto, "data_operators", dict)())


def _operator_text(operator: str, /, *values: Any, **named: Any) -> str:
  """What `transforms` of `ImageLoader` takes: the text of an operator with these parameters."""
  parts = [_number(value, operator) for value in values]
  parts += [f"{key}={_number(value, f'{operator}: {key}')}" for key, value in named.items()]
  return f"{operator}({', '.join(parts)})" if parts else operator


def _number(value: Any, name: str) -> str:
  try:
    number = float(value)
  except (TypeError, ValueError):
    raise InvalidArgumentError(f"{name}: expected numbers, got {value!r}") from None
  return str(int(number)) if number.is_integer() else repr(number)
