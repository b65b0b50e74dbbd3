"""A contact sheet of what a model will see, as one HTML page that needs nothing else."""

from __future__ import annotations

import base64
import html
import struct
import zlib

import numpy as np

from stretto.data._loader import ImageLoader

STYLE = """
body { font: 14px system-ui, sans-serif; margin: 2em; background: #fafafa; color: #222 }
main { display: grid; gap: 12px; grid-template-columns: repeat(auto-fill, minmax(160px, 1fr)) }
figure { margin: 0 } img { width: 100%; image-rendering: pixelated; border-radius: 4px }
figcaption { font-size: 12px; overflow-wrap: anywhere } b { display: block }
@media (prefers-color-scheme: dark) { body { background: #181818; color: #ddd } }
"""


def png(pixels: np.ndarray) -> bytes:
  """A PNG file of uint8, H, W, 3."""
  height, width, _ = pixels.shape

  def chunk(kind: bytes, content: bytes) -> bytes:
    body = kind + content
    return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

  # Each row is stored as differences to the pixel on the left (filter 1), which are small.
  rows = pixels.copy()
  rows[:, 1:] -= pixels[:, :-1]
  lines = np.concatenate([np.ones((height, 1), np.uint8), rows.reshape(height, -1)], axis=1)
  return (b"\x89PNG\r\n\x1a\n"
          + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
          + chunk(b"IDAT", zlib.compress(lines.tobytes(), 6)) + chunk(b"IEND", b""))


def figure(pixels: np.ndarray, name: str, label: str) -> str:
  data = base64.b64encode(png(pixels)).decode()
  return (f'<figure><img alt="{html.escape(name)}" src="data:image/png;base64,{data}">'
          f"<figcaption><b>{html.escape(label)}</b>{html.escape(name)}</figcaption></figure>")


def label_text(loader: ImageLoader, label: int) -> str:
  classes = loader.dataset.classes
  if label < 0:
    return "no label"
  return f"{label}: {classes[label]}" if label < len(classes) else str(label)


def page(loader: ImageLoader, about: str) -> str:
  """The next batch of a loader that gives uint8, N, H, W, C."""
  images, labels, *real = next(iter(loader))
  figures = [figure(np.asarray(image), loader.dataset.name(int(sample)),
                    label_text(loader, int(label)))
             for image, label, sample in zip(images, labels, loader.samples) if sample >= 0]
  title = html.escape(f"{loader.dataset.source}: what the model sees")
  return (f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
          f"<style>{STYLE}</style><h1>{title}</h1><p>{html.escape(about)}</p>"
          f"<main>{''.join(figures)}</main></html>\n")
