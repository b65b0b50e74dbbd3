"""Where sources behind URLs meet boxes, masks and several sources: the same as from local files, or
an error that says what is not possible."""

import json
import pickle
import shutil

import data_pictures
import numpy as np
import pytest
from http_store import HttpStore
from PIL import Image

import stretto
from stretto import data

COUNT = 13


@pytest.fixture(scope="module")
def site(tmp_path_factory):
  """Packs of COCO and of label maps, what they were made of, and a folder of classes."""
  root = tmp_path_factory.mktemp("site")
  rng = np.random.default_rng(3)
  images, annotations = [], []
  for name in ("coco", "maps/images", "maps/masks"):
    (root / name).mkdir(parents=True)
  for i in range(COUNT):
    picture = rng.integers(0, 256, (70, 90, 3), np.uint8)
    Image.fromarray(picture).save(root / f"coco/{i:03}.png")
    Image.fromarray(picture).save(root / f"maps/images/{i:03}.png")
    Image.fromarray(rng.integers(0, 9, (70, 90), np.uint8)).save(root / f"maps/masks/{i:03}.png")
    x, y = (int(v) for v in rng.integers(0, 40, 2))
    images.append({"id": 50 + i, "file_name": f"{i:03}.png", "width": 90, "height": 70})
    annotations.append({"image_id": 50 + i, "category_id": 1, "bbox": [x, y, 30, 20],
                        "segmentation": [[x, y, x + 30, y, x, y + 20]]})
  (root / "coco/instances.json").write_text(json.dumps(
    {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "thing"}]}))
  data_pictures.write_folder(root / "folder", COUNT)
  data.pack(root / "coco/instances.json", root / "coco_pack", shard_bytes=60_000, progress=False)
  data.pack(root / "maps", root / "maps_pack", shard_bytes=60_000, progress=False)
  return root


@pytest.fixture
def store(site):
  with HttpStore(site) as server:
    yield server


def loader_of(source, **options):
  return data.ImageLoader(source, 4, 32, **{"threads": 2, "seed": 4, "rank": 0, "world": 1,
                                            **options})


def rows_of(loader):
  """Every array of every batch of an epoch."""
  rows = []
  for batch in loader:
    for part in batch:
      if isinstance(part, list):
        rows += [np.array(row[key]) for row in part for key in sorted(row)]
      else:
        rows.append(np.array(part))
  return rows


def assert_same(some, others):
  assert len(some) == len(others) > 0
  assert all(np.array_equal(a, b) for a, b in zip(some, others))


@pytest.mark.parametrize("source, targets, files", [("coco_pack", "boxes+masks", 2),
                                                    ("maps_pack", "masks", 2)])
def test_boxes_and_masks_of_a_pack_are_those_of_its_files(site, store, tmp_path, source, targets,
                                                          files):
  with loader_of(f"{store.url}/{source}", targets=targets, cache_dir=tmp_path) as remote, \
      loader_of(site / source, targets=targets) as local:
    for _ in range(2):
      assert_same(rows_of(remote), rows_of(local))
    assert remote.stats()["remote"]["fetched"] >= files


@pytest.mark.parametrize("source", ["coco_pack", "maps_pack"])
def test_a_store_is_packed_again_with_all_that_is_known(site, store, tmp_path, source):
  data.pack(data.open(f"{store.url}/{source}", cache_dir=tmp_path / "cache"), tmp_path / "again",
            shard_bytes=60_000, progress=False)
  for file in (site / source).glob("shard-*"):
    assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes()


def test_damaged_masks_behind_pictures_are_found_when_fetched(site, tmp_path):
  shutil.copytree(site / "maps_pack", tmp_path / "site/maps_pack")
  shard = sorted((tmp_path / "site/maps_pack").glob("shard-*"))[-1]
  content = bytearray(shard.read_bytes())
  content[-1] ^= 1  # of the last sample's label map
  shard.write_bytes(content)
  with HttpStore(tmp_path / "site") as store, \
      loader_of(f"{store.url}/maps_pack", targets="masks", cache_dir=tmp_path / "c") as loader, \
      pytest.raises(stretto.FormatError, match="checksum"):
    rows_of(loader)


def test_one_source_of_a_list_or_a_dictionary_may_lie_behind_a_url(site, store, tmp_path):
  url, local = f"{store.url}/folder", site / "folder"
  for a, b in (([url], [local]), ({url: 1}, {local: 1}), ([(url, 2.0)], [(local, 2.0)])):
    options = {} if isinstance(a, list) and a == [url] else {"epoch_size": 3 * COUNT}
    with loader_of(a, cache_dir=tmp_path, **options) as one, loader_of(b, **options) as other:
      for _ in range(2):
        assert_same(rows_of(one), rows_of(other))
      assert one.stats()["sources"][0]["samples"] > 0
      again = pickle.loads(pickle.dumps(one.dataset))
      assert again._remote == one.dataset._remote
      assert again._remote["cache_dir"] == str(tmp_path)


def test_joining_a_source_behind_a_url_with_others_is_refused(site, store, tmp_path):
  url, local = f"{store.url}/coco_pack", site / "folder"
  for sources in ([local, url], [url, url], {local: 0.5, url: 0.5}, [(url, 1), (local, 0)]):
    with pytest.raises(stretto.UnsupportedError, match=f"{url} lies behind a URL.*are local"):
      loader_of(sources, cache_dir=tmp_path / "unused")
  assert not (tmp_path / "unused").exists() and not store.sent  # it was refused before
  opened = data.open(url, cache_dir=tmp_path / "c")
  for datasets in ([data.open(local), opened], [opened, opened]):
    with pytest.raises(stretto.UnsupportedError, match=f"concat: {url} lies behind a URL"):
      data.concat(datasets)
    with pytest.raises(stretto.UnsupportedError, match=f"{url} lies behind a URL"):
      loader_of(datasets)
  assert data.concat([opened]) is opened
  joined = data.concat([data.open(local), data.open(local)])
  again = pickle.loads(pickle.dumps(joined))
  assert again.fingerprint == joined.fingerprint and len(again) == 2 * COUNT


@pytest.mark.parametrize("cache", ["page", "user"])
def test_label_maps_beside_pictures_are_those_of_local_files(site, store, tmp_path, cache):
  with loader_of(f"{store.url}/maps", targets="masks", cache_dir=tmp_path, cache=cache) as remote, \
      loader_of(site / "maps", targets="masks") as local:
    assert remote.dataset.kind == "segmentation"
    assert remote.dataset.fingerprint == local.dataset.fingerprint
    for _ in range(2):
      assert_same(rows_of(remote), rows_of(local))
    # Each once. What a file holds may be used before the file is published and counted.
    data_pictures.wait_until(lambda: remote.stats()["remote"]["fetched"] >= 2 * COUNT)
    assert remote.stats()["remote"]["fetched"] == 2 * COUNT
  with loader_of(f"{store.url}/maps", cache_dir=tmp_path / "pictures") as remote, \
      loader_of(site / "maps") as local:
    assert_same(rows_of(remote), rows_of(local))
    assert remote.stats()["remote"]["fetched"] <= COUNT  # no map is fetched that nobody asked for


def test_label_maps_beside_pictures_are_packed_from_a_store(site, store, tmp_path):
  data.pack(data.open(f"{store.url}/maps", cache_dir=tmp_path / "cache"), tmp_path / "packed",
            shard_bytes=60_000, progress=False)
  shards = sorted((site / "maps_pack").glob("shard-*"))
  assert len(shards) > 1
  for file in shards:
    assert (tmp_path / "packed" / file.name).read_bytes() == file.read_bytes()


def test_pictures_whose_label_map_is_missing_are_named(site, tmp_path):
  shutil.copytree(site / "maps", tmp_path / "site/maps")
  (tmp_path / "site/maps/masks/004.png").unlink()
  with HttpStore(tmp_path / "site") as store:
    url = f"{store.url}/maps"
    with pytest.raises(stretto.FormatError, match=r"images/004\.png.*masks/004\.png"):
      data.open(url, cache_dir=tmp_path / "c")
    with loader_of(data.open(url, kind="folder", cache_dir=tmp_path / "c")) as classes:
      assert classes.dataset.classes == ["images", "masks"]
    (tmp_path / "site/maps/other").mkdir()
    shutil.copy(tmp_path / "site/maps/images/001.png", tmp_path / "site/maps/other/x.png")
    assert data.open(url, cache_dir=tmp_path / "c").kind == "folder"
