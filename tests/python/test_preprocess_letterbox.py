"""stretto.media.Letterbox: all of a picture in a frame, as the loader of pictures shows it."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from PIL import Image
from preprocess_pictures import SIZE, optimized, pixels_of, write_pictures

from stretto import data, media


def test_a_letterbox_shows_all_of_the_picture():
  model = optimized(media.Letterbox(SIZE, fill=114))
  for width, height in [(64, 32), (33, 100), (5, 5), (400, 1)]:
    pixels = pixels_of(width, height)
    scale = min(SIZE / width, SIZE / height)
    w, h = max(1, round(width * scale)), max(1, round(height * scale))
    want = np.full((SIZE, SIZE, 3), 114 / 255, np.float32)
    left, top = (SIZE - w) // 2, (SIZE - h) // 2
    resized = Image.fromarray(pixels).resize((w, h), Image.BILINEAR)
    want[top:top + h, left:left + w] = np.asarray(resized, np.float32) / 255
    off = np.abs(model.prepare(pixels)[0].transpose(1, 2, 0) - want)
    assert off.max() <= 2 / 255, (width, height, off.max())


def test_a_letterbox_of_the_mean_has_zeros_beside_the_picture():
  """As the loader pads; and the picture itself is that of any other fill."""
  pixels = pixels_of(64, 40)
  means = optimized([media.Letterbox(SIZE, fill="mean"), media.Normalize()])
  assert "fill=mean" in means.preprocess
  got = means.prepare(pixels)[0]
  other = optimized([media.Letterbox(SIZE, fill=7), media.Normalize()]).prepare(pixels)[0]
  assert np.array_equal(got[:, 6:26], other[:, 6:26])
  assert not got[:, :6].any() and not got[:, 26:].any()
  assert other[:, :6].all()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  path = tmp_path_factory.mktemp("pictures") / "all"
  path.mkdir()
  write_pictures(path)
  return path.parent


def passing(height, width, nhwc):
  """A model of one operator."""
  shape = [1, height, width, 3] if nhwc else [1, 3, height, width]
  graph = helper.make_graph(
    [helper.make_node("Relu", ["x"], ["y"])], "passing",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)])
  return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("height,width,nhwc,options", [
  (32, 32, False, {}), (24, 40, False, {}), (41, 17, True, {}),
  (32, 32, False, {"mean": (0.1, 0.5, 0.9), "std": (0.5, 1.0, 0.25)})])
def test_a_letterbox_gives_the_bits_of_the_loader(folder, height, width, nhwc, options):
  """Of files, and of pixels where a file holds pixels: as with Imagenet in test_preprocess.py."""
  model = optimized([media.Letterbox((height, width), fill="mean"), media.Normalize(**options),
                     *([media.ToLayout("NHWC")] if nhwc else [])], passing(height, width, nhwc))
  compared = padded = 0
  with data.ImageLoader(folder, 8, (height, width), train=False, threads=1, fit="letterbox",
                        layout="NHWC" if nhwc else "NCHW", **options) as loader:
    names = [loader.dataset.name(i) for i in range(len(loader.dataset))]
    for images, _labels, real in loader:
      for image, sample in zip(images[real], loader.samples):
        name = names[sample]
        assert np.array_equal(model.prepare(folder / name)[0], image), name
        compared += 1
        padded += not image.all()
        if name.endswith("_png.png"):
          with Image.open(folder / name) as opened:
            assert np.array_equal(model.prepare(np.asarray(opened))[0], image), name
  assert compared == len(names) > 40 and padded > compared // 2
