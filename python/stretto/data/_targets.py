"""Boxes, their masks and label maps of a batch, as detectors and segmentation take them."""

from __future__ import annotations

from typing import Any

import numpy as np

from stretto._errors import InvalidArgumentError

# What the engine makes for each.
TARGETS: dict[str, tuple[str, ...]] = {
  "labels": (), "boxes": ("boxes",), "masks": ("masks",), "boxes+masks": ("boxes", "masks"),
  "instances": ("boxes", "masks_of_boxes")}


def set_targets(options: Any, targets: Any, min_visible: float, mask_dtype: str) -> str:
  if not isinstance(targets, str) or targets not in TARGETS:
    raise InvalidArgumentError(f"targets: expected one of {', '.join(TARGETS)}, got {targets!r}")
  for part in TARGETS[targets]:
    setattr(options, part, True)
  options.min_visible = min_visible
  options.set_mask_dtype(mask_dtype)
  return targets


def of_batch(others: dict[str, Any], labels: Any, framework: str) -> tuple[Any, ...]:
  """What a batch has behind its images: labels, shares of classes, dictionaries or label maps."""
  if "targets" in others:
    return (others["targets"],)
  given: tuple[Any, ...] = ()
  if "boxes" in others:
    given += (of_pictures(others, framework),)
  if "masks" in others:
    given += (others["masks"],)
  return given or (labels,)


def of_pictures(others: dict[str, Any], framework: str) -> list[dict[str, Any]]:
  """A dictionary for each picture, whose arrays are parts of the batch's."""
  boxes, labels, areas = others["boxes"], others["labels"], others["areas"]
  starts = others["starts"]
  if framework == "torch":
    import torch

    crowds: Any = torch.zeros(starts[-1], dtype=torch.int64)
  else:
    crowds = np.zeros(starts[-1], np.int64)
  rows = []
  for image_id, begin, end in zip(others["image_ids"], starts, starts[1:]):
    rows.append({"boxes": boxes[begin:end], "labels": labels[begin:end], "image_id": image_id,
                 "area": areas[begin:end], "iscrowd": crowds[begin:end]})
  for row, masks in zip(rows, others.get("masks_of_boxes", ())):
    row["masks"] = masks
  return rows


def changed(transform: Any, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
  """What a function of `transforms` makes of a batch."""
  result = transform(*arrays)
  if not isinstance(result, (tuple, list)) or len(result) != len(arrays):
    raise InvalidArgumentError(f"transforms: expected a function that returns {len(arrays)} "
                               "values, as many as it is given: images and what comes with them")
  return tuple(result)
