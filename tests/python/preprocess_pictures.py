"""Pictures of every size and kind of file, and small models that take them, for the tests of
preprocessing."""

import conftest
import numpy as np
import onnx
from onnx import helper
from PIL import Image

import stretto
from stretto import media

SIZE = 32
SEED = 11
# Tiny, huge, odd, square, and lines of both directions: width by height.
SIZES = [(1, 1), (2, 3), (7, 5), (16, 16), (31, 33), (32, 32), (36, 36), (37, 36), (64, 48),
         (100, 75), (75, 100), (224, 224), (256, 256), (500, 375), (375, 500), (1, 400), (400, 1),
         (2400, 1800), (9, 900), (1200, 40)]


def cnn(batch=1, size=SIZE, nhwc=False):
  """A small classifier; with `nhwc` the same behind a transposition."""
  model = conftest.cnn_model(batch, size)
  if nhwc:
    graph = model.graph
    graph.input[0].CopyFrom(helper.make_tensor_value_info(
      "picture", onnx.TensorProto.FLOAT, [batch, size, size, 3]))
    graph.node.insert(0, helper.make_node("Transpose", ["picture"], ["x"], "to_nchw",
                                          perm=[0, 3, 1, 2]))
  return model


IMAGENET = media.Imagenet(SIZE)


def optimized(steps=IMAGENET, model=None, **options):
  return stretto.optimize(model or cnn(), preprocess=steps, tuning="off", progress=False, threads=1,
                          **options)


def pixels_of(width, height, seed=SEED):
  """Waves with noise: smooth as photographs are, and no two rows alike."""
  rng = np.random.default_rng(seed)
  y, x = np.mgrid[0:height, 0:width]
  waves = [127 + 90 * np.sin(x / (9 + 3 * c) + c) * np.cos(y / (11 - 2 * c)) for c in range(3)]
  noise = rng.normal(0, 8, (height, width, 3))
  return np.clip(np.stack(waves, 2) + noise, 0, 255).astype(np.uint8)


def write_pictures(path):
  """Every size in every kind of file that is stored in its own way."""
  exif = Image.Exif()
  exif[0x0112] = 6
  for i, (width, height) in enumerate(SIZES):
    picture = Image.fromarray(pixels_of(width, height, i))
    picture.save(path / f"{i:02}_420.jpg", quality=90)
    picture.save(path / f"{i:02}_png.png")
    if i % 3 == 0:
      picture.save(path / f"{i:02}_444.jpg", quality=85, subsampling=0)
      picture.convert("L").save(path / f"{i:02}_grey.jpg")
    if i % 3 == 1:
      picture.save(path / f"{i:02}_turned.jpg", exif=exif)
      picture.save(path / f"{i:02}_webp.webp", lossless=True)
    if i % 3 == 2:
      picture.convert("CMYK").save(path / f"{i:02}_cmyk.jpg")
      picture.save(path / f"{i:02}_progressive.jpg", progressive=True)
