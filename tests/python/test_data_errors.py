"""Pictures that cannot be read: the error names the file, or the sample is skipped and counted."""

import os

import data_pictures
import numpy as np
import pytest

import stretto
from stretto import data


@pytest.fixture
def folder(tmp_path):
  data_pictures.write_folder(tmp_path, 24, seed=6)
  return tmp_path


def loader_of(folder, **options):
  return data.ImageLoader(folder, 4, 32, **{"threads": 2, "dtype": "uint8", **options})


def resident_bytes():
  with open("/proc/self/statm") as file:
    return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def damage(file, how):
  content = file.read_bytes()
  if how == "truncated":
    file.write_bytes(content[:len(content) // 2])
  elif how == "empty":
    file.write_bytes(b"")
  elif how == "text":
    file.write_text("no picture")
  elif how == "gone":
    file.unlink()


@pytest.mark.parametrize("how", ["truncated", "empty", "text", "gone"])
def test_the_error_names_the_file_and_the_loader_goes_on(folder, how):
  with loader_of(folder) as loader:
    bad = int(loader.indices(0)[5])
    file = folder / loader.dataset.name(bad)
  dataset = data.open(folder)
  damage(file, how)
  with loader_of(dataset) as loader:
    batches, good, errors = iter(loader), 0, []
    while True:
      try:
        next(batches)
        good += 1
      except StopIteration:
        break
      except stretto.Error as error:
        errors.append(error)
    assert good == 5 and len(errors) == 1
    assert file.name in str(errors[0])
    assert isinstance(errors[0], (stretto.FormatError, stretto.UnsupportedError))


@pytest.mark.parametrize("how", ["truncated", "empty", "text", "gone"])
def test_skipped_samples_are_counted_and_named(folder, how):
  with loader_of(folder, errors="skip") as loader:
    file = folder / loader.dataset.name(int(loader.indices(0)[5]))
    damage(file, how)
    loader.set_epoch(1)
    for images, labels in loader:
      assert images.shape == (4, 3, 32, 32)
      assert labels.tolist() == loader.dataset.labels[loader.samples].tolist()
    stats = loader.stats()
    assert stats["skipped"] >= 1 and any(file.name in name for name in stats["skipped_names"])


def test_a_decompression_bomb_is_refused_in_little_memory(folder):
  import struct
  import zlib

  def chunk(kind, content):
    body = kind + content
    return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

  header = struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0)
  bomb = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
          + chunk(b"IDAT", zlib.compress(bytes(1 << 20))) + chunk(b"IEND", b""))
  (folder / "class0" / "bomb.png").write_bytes(bomb)
  with loader_of(folder, train=False) as loader, pytest.raises(stretto.UnsupportedError,
                                                               match="bomb.png"):
    list(loader)


def test_memory_of_a_huge_picture_is_given_back(folder):
  from PIL import Image

  with loader_of(folder, train=False, threads=1) as loader:
    list(loader)  # what a process takes once, without the huge picture
  Image.new("RGB", (6000, 6000)).save(folder / "class0" / "a.png")
  before = resident_bytes()
  with loader_of(folder, train=False, threads=1) as loader:
    for _batch in loader:
      pass
    # Its pixels are 108 MB, and as much again was resampled.
    assert resident_bytes() - before < 70 << 20


def test_a_folder_without_pictures_is_named(tmp_path):
  with pytest.raises(stretto.FormatError, match=str(tmp_path)):
    data.open(tmp_path)


def test_an_index_outside_is_refused(folder):
  dataset = data.open(folder)
  assert dataset.label(0) == 0 and dataset.name(0).startswith("class0/")
  assert "24 samples, 3 classes" in repr(dataset)
  for index in (-1, 24, "0"):
    with pytest.raises(stretto.InvalidArgumentError, match="index"):
      dataset.name(index)


def test_a_dataset_may_be_pickled_and_shared(folder):
  import pickle

  dataset = pickle.loads(pickle.dumps(data.open(folder)))
  with loader_of(dataset) as one, loader_of(dataset) as two:
    assert np.array_equal(next(iter(one))[0], next(iter(two))[0])
