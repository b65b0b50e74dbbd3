"""A contact sheet of what a model will see, as one HTML page that needs nothing else."""

from __future__ import annotations

import base64
import colorsys
import html
import struct
import zlib
from typing import Any

import numpy as np

from stretto.data._dataset import Dataset
from stretto.data._loader import ImageLoader

STYLE = """
body { font: 14px system-ui, sans-serif; margin: 2em; background: #fafafa; color: #222 }
main { display: grid; gap: 12px; grid-template-columns: repeat(auto-fill, minmax(160px, 1fr)) }
main.wide { grid-template-columns: repeat(auto-fill, minmax(280px, 1fr)) }
figure { margin: 0 } figure > div { position: relative; line-height: 0 }
img { width: 100%; image-rendering: pixelated; border-radius: 4px }
img.mask, svg { position: absolute; left: 0; top: 0; width: 100%; height: 100% }
img.mask { opacity: 0.55 } rect { fill: none; stroke-width: 2px; vector-effect: non-scaling-stroke }
text { paint-order: stroke; stroke: #000b; stroke-linejoin: round; fill: #fff }
figcaption { font-size: 12px; overflow-wrap: anywhere } b { display: block }
ul { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: 4px 14px }
li span { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 5px }
@media (prefers-color-scheme: dark) { body { background: #181818; color: #ddd } }
"""
IGNORED = 255  # of label maps
MOST_NAMED = 40  # classes in the legend


def colour(number: int) -> tuple[int, int, int]:
  """Of a class: neighbours are far from each other on the circle of colours."""
  return tuple(round(255 * part) for part in  # type: ignore[return-value]
               colorsys.hsv_to_rgb(number * 0.618034 % 1, 0.85 - 0.25 * (number % 2), 1.0))


def png(pixels: np.ndarray) -> bytes:
  """A PNG file of uint8, H, W, 3, or with opacity H, W, 4."""
  height, width, channels = pixels.shape

  def chunk(kind: bytes, content: bytes) -> bytes:
    body = kind + content
    return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

  # Each row is stored as differences to the pixel on the left (filter 1), which are small.
  rows = pixels.copy()
  rows[:, 1:] -= pixels[:, :-1]
  lines = np.concatenate([np.ones((height, 1), np.uint8), rows.reshape(height, -1)], axis=1)
  return (b"\x89PNG\r\n\x1a\n"
          + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 6, 0,
                                         0, 0))
          + chunk(b"IDAT", zlib.compress(lines.tobytes(), 6)) + chunk(b"IEND", b""))


def picture(pixels: np.ndarray, attributes: str) -> str:
  data = base64.b64encode(png(pixels)).decode()
  return f'<img {attributes} src="data:image/png;base64,{data}">'


def mask_layer(mask: np.ndarray) -> str:
  """The classes of a label map in colours over the picture; 0 and what is ignored stay clear and
  grey."""
  layer = np.zeros((*mask.shape, 4), np.uint8)
  for value in np.unique(mask):
    if value == IGNORED:
      layer[mask == value] = (128, 128, 128, 160)
    elif value > 0:
      layer[mask == value] = (*colour(int(value) - 1), 255)
  return picture(layer, 'class="mask" alt=""')


def box_layer(boxes: dict[str, Any], classes: list[str], size: tuple[int, int]) -> str:
  """Boxes with the names of their classes."""
  height, width = size
  font = max(height, width) / 18
  parts = []
  for (x0, y0, x1, y1), label in zip(boxes["boxes"].tolist(), boxes["labels"].tolist()):
    red, green, blue = colour(label)
    parts.append(f'<rect x="{x0:.2f}" y="{y0:.2f}" width="{x1 - x0:.2f}" height="{y1 - y0:.2f}" '
                 f'stroke="rgb({red},{green},{blue})"/>')
    # Above the box where there is room, else in it.
    base = y0 - 0.25 * font if y0 > 1.2 * font else y0 + font
    parts.append(f'<text x="{max(x0, 1):.2f}" y="{base:.2f}" font-size="{font:.2f}" '
                 f'stroke-width="{font / 6:.2f}">{html.escape(class_name(classes, label))}</text>')
  return f'<svg viewBox="0 0 {width} {height}" role="img">{"".join(parts)}</svg>'


def class_name(classes: list[str], label: int) -> str:
  return classes[label] if 0 <= label < len(classes) else str(label)


def label_text(classes: list[str], label: int) -> str:
  if label < 0:
    return "no label"
  return f"{label}: {classes[label]}" if label < len(classes) else str(label)


def shares_text(classes: list[str], shares: np.ndarray) -> str:
  """Of a mixed label."""
  parts = [f"{100 * shares[c]:.0f} % {class_name(classes, int(c))}" for c in np.argsort(-shares)
           if shares[c] > 0]
  return " + ".join(parts) or "no label"


def targets_of(dataset: Dataset) -> str:
  """All that is known of the pictures of a dataset."""
  names = [name for name, known in (("boxes", dataset._table.has_boxes),
                                    ("masks", dataset._table.has_masks)) if known]
  return "+".join(names) or "labels"


def count_of(count: int, transforms: str) -> int:
  """Pictures are mixed in pairs."""
  mixes = "mixup" in transforms or "cutmix" in transforms
  return count + count % 2 if mixes else count


def legend(classes: list[str], masks: np.ndarray) -> str:
  """The colours of the classes in label maps. Without names, 0 is a class like others."""
  items = []
  for value in np.unique(masks)[:MOST_NAMED]:
    if value == IGNORED:
      items.append('<li><span style="background: #888"></span>ignored</li>')
    elif value > 0:
      red, green, blue = colour(int(value) - 1)
      name = class_name(classes, int(value) - 1) if classes else str(value)
      items.append(f'<li><span style="background: rgb({red},{green},{blue})"></span>'
                   f"{html.escape(name)}</li>")
  return f"<ul>{''.join(items)}</ul>" if items else ""


def page(loader: ImageLoader, about: str) -> str:
  """The next batch of a loader that gives uint8, N, H, W, C, and what comes with it."""
  images, *targets, _real = next(iter(loader))
  boxes = next((part for part in targets if isinstance(part, list)), None)
  masks = next((part for part in targets if not isinstance(part, list) and part.ndim == 3), None)
  classes = loader.dataset.classes
  figures = []
  for i, sample in enumerate(loader.samples):
    if sample < 0:
      continue
    name = loader.dataset.name(int(sample))
    layers = picture(np.asarray(images[i]), f'alt="{html.escape(name)}"')
    if masks is not None:
      layers += mask_layer(np.asarray(masks[i]))
    if boxes is not None:
      layers += box_layer(boxes[i], classes, images[i].shape[:2])
    if boxes is not None:
      count = len(boxes[i]["labels"])
      label = "1 box" if count == 1 else f"{count} boxes"
    elif masks is not None:
      label = ""
    elif targets[0].ndim == 2:
      label = shares_text(classes, targets[0][i])
    else:
      label = label_text(classes, int(targets[0][i]))
    figures.append(f"<figure><div>{layers}</div><figcaption><b>{html.escape(label)}</b>"
                   f"{html.escape(name)}</figcaption></figure>")
  title = html.escape(f"{loader.dataset.source}: what the model sees")
  colours = "" if masks is None else legend(classes if boxes is not None else [], masks)
  wide = ' class="wide"' if boxes is not None or masks is not None else ""
  text = (f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
          f"<style>{STYLE}</style><h1>{title}</h1><p>{html.escape(about)}</p>{colours}"
          f"<main{wide}>{''.join(figures)}</main></html>\n")
  # Names of files may have bytes that are no UTF-8.
  return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
