"""Packs give the same bits as the folder that they were made from."""

import data_pictures
import numpy as np
import pytest
from PIL import Image

import stretto
from stretto import data

COUNT = 37


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  path = tmp_path_factory.mktemp("pictures")
  files = data_pictures.write_folder(path, COUNT, seed=7)
  Image.open(files[0]).save(files[0].with_suffix(".png"))
  Image.open(files[1]).save(files[1], progressive=True)
  return path


@pytest.fixture(scope="module")
def pack(folder, tmp_path_factory):
  out = tmp_path_factory.mktemp("packs") / "pack"
  said = []
  result = data.pack(folder, out, progress=lambda stage, share: said.append((stage, share)))
  assert result["samples"] == COUNT + 1 and result["left_out"] == [] and result["shards"] == 1
  assert said[-1] == ("pack", 1.0)
  return out


@pytest.mark.parametrize("options", [{"train": True, "seed": 3}, {"train": False},
                                     {"train": True, "cache": "decoded"},
                                     {"train": True, "cache": "user"}])
def test_folder_and_pack_give_the_same_bits(folder, pack, options):
  with data.ImageLoader(folder, 8, 40, threads=2, **options) as files, \
       data.ImageLoader(pack, 8, 40, threads=3, **options) as packed:
    assert packed.dataset.kind == "pack" and packed.dataset.classes == files.dataset.classes
    for _ in range(2):
      for a, b in zip(files, packed, strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(a, b))
      assert files.samples.tolist() == packed.samples.tolist()


def test_a_state_of_the_folder_is_good_for_the_pack(folder, pack):
  with data.ImageLoader(folder, 8, 40) as files, data.ImageLoader(pack, 8, 40) as packed:
    batches = iter(files)
    next(batches)
    packed.load_state_dict(files.state_dict())
    for (a, _), (b, _) in zip(batches, packed, strict=True):
      assert np.array_equal(a, b)


def test_verify_and_unpack(folder, pack, tmp_path):
  result = data.verify(pack, progress=False)
  assert result["samples"] == COUNT + 1 and result["damaged"] == [] and result["compared"] > 0
  assert data.unpack(pack, tmp_path / "files", progress=False)["files"] == COUNT + 1
  for file in folder.glob("*/*.*"):
    same = tmp_path / "files" / file.relative_to(folder)
    assert np.array_equal(np.asarray(Image.open(file)), np.asarray(Image.open(same))), file


def test_bad_pictures_end_it_or_are_left_out(folder, tmp_path):
  source = tmp_path / "source"
  data_pictures.write_folder(source, 5)
  bad = next(iter(source.glob("*/*.jpg")))
  bad.write_bytes(bad.read_bytes()[:200])
  with pytest.raises(stretto.Error, match=bad.name):
    data.pack(source, tmp_path / "raised", progress=False)
  result = data.pack(source, tmp_path / "skipped", errors="skip", progress=False)
  assert result["samples"] == 4 and [bad.name in name for name, _ in result["left_out"]] == [True]
  with pytest.raises(stretto.FormatError, match="resume"):
    data.open(tmp_path / "raised")
  with pytest.raises(stretto.InvalidArgumentError, match="errors"):
    data.pack(source, tmp_path / "other", errors="ignore")


def test_what_progress_raises_comes_through(folder, tmp_path):
  def stop(stage, share):
    raise KeyError("enough")

  with pytest.raises(KeyError, match="enough"):
    data.pack(folder, tmp_path / "out", progress=stop)
  assert data.pack(folder, tmp_path / "out", progress=False)["samples"] == COUNT + 1
