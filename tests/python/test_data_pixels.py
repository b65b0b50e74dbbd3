"""Pixels of stretto.data beside Pillow's, whose boxes and filters torchvision uses."""

import data_pictures
import numpy as np
import pytest
from PIL import Image

from stretto import data

COUNT, SIZE = 24, 64
# Pillow rounds to bytes three times on the way and this loader once (docs/design/media.md).
MEAN_DIFFERENCE, LARGEST = 0.5, 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  path = tmp_path_factory.mktemp("pictures")
  data_pictures.write_folder(path, COUNT, seed=8)
  return path


@pytest.fixture(scope="module")
def files(folder):
  return sorted(folder.glob("*/*.jpg"))


def bytes_of(loader):
  """All images of an epoch in the order of samples."""
  found = {}
  for batch in loader:
    for image, sample in zip(np.array(batch[0]), loader.samples):
      if sample >= 0:
        found[int(sample)] = image
  return np.stack([found[i] for i in range(len(found))])


def check(got, want):
  off = np.abs(got.astype(int) - want.astype(int))
  assert off.mean() <= MEAN_DIFFERENCE and off.max() <= LARGEST, (off.mean(), off.max())


@pytest.mark.parametrize("seed,epoch", [(0, 0), (123456789012345, 3)])
def test_training_crops_are_torchvisions(folder, files, seed, epoch):
  with data.ImageLoader(folder, 8, SIZE, dtype="uint8", seed=seed) as loader:
    loader.set_epoch(epoch)
    got = bytes_of(loader)
    names = [str(folder / loader.dataset.name(i)) for i in range(COUNT)]
  assert names == [str(file) for file in files]
  check(got, np.stack([data_pictures.training_view(file, seed, epoch, i, SIZE)
                       for i, file in enumerate(files)]))


def test_validation_shows_the_middle(folder, files):
  with data.ImageLoader(folder, 7, SIZE, dtype="uint8", train=False) as loader:
    got = bytes_of(loader)
  check(got, np.stack([data_pictures.validation_view(file, SIZE) for file in files]))


def test_element_types_and_layouts_hold_the_same_numbers(folder):
  torch = pytest.importorskip("torch")
  images = {}
  for dtype in ("uint8", "float32", "float16", "bfloat16"):
    for layout in ("NCHW", "NHWC"):
      with data.ImageLoader(folder, COUNT, SIZE, dtype=dtype, layout=layout, seed=1,
                            framework="torch", last="pad") as loader:
        (batch,) = loader
        image = batch[0]
        assert image.dtype == getattr(torch, dtype)
        images[dtype, layout] = image if layout == "NCHW" else image.permute(0, 3, 1, 2)
  for (dtype, _layout), image in images.items():
    assert torch.equal(image, images[dtype, "NCHW"])
  exact = images["float32", "NCHW"]
  pixels = data_pictures.normalised(images["uint8", "NCHW"].numpy())
  # uint8 is rounded: half of 1/255, divided by the least `std`.
  assert np.abs(pixels - exact.numpy()).max() <= 0.51 / 255 / 0.224
  assert torch.equal(images["float16", "NCHW"], exact.half())
  assert torch.equal(images["bfloat16", "NCHW"], exact.bfloat16())


def test_other_kinds_of_pictures(tmp_path):
  """PNG, WebP, grey, CMYK, transparent and 16-bit pictures, and those that EXIF turns."""
  source = data_pictures.photographs()[0].resize((160, 120))
  folder = tmp_path / "all"
  folder.mkdir()
  exif = Image.Exif()
  exif[0x0112] = 6
  for name, image, options in (
      ("a.png", source, {}), ("b.webp", source, {"lossless": True}),
      ("c.jpg", source.convert("L"), {}), ("d.jpg", source.convert("CMYK"), {"quality": 95}),
      ("e.png", source.convert("P"), {}), ("f.jpg", source, {"exif": exif, "quality": 95}),
      ("g.jpg", source, {"progressive": True, "quality": 95})):
    image.save(folder / name, **options)
  with data.ImageLoader(folder, 1, 56, train=False, dtype="uint8") as loader:
    for i, (images, labels, _real) in enumerate(loader):
      file = folder / loader.dataset.name(i)
      assert labels.tolist() == [-1]
      if file.name == "d.jpg":
        continue  # Pillow converts CMYK without the profile: other colours
      if file.name == "f.jpg":
        turned = tmp_path / "turned.png"
        Image.open(file).transpose(Image.Transpose.ROTATE_270).save(turned)
        file = turned
      check(images[0], data_pictures.validation_view(file, 56))
    assert i == 6
