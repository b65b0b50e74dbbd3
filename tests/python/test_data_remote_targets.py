"""Where sources behind URLs meet boxes, masks and several sources: the same as from local files, or
an error that says what is not possible."""

import json
import pickle
import shutil
import time

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


def joined(root, *names):
  return [f"{root}/{name}" for name in names]


MIXED = ("folder", "coco/instances.json", "coco_pack", "list.jsonl")


def write_list(site):
  rows = [{"path": f"coco/{i:03}.png", "label": "thing"} for i in range(4)]
  (site / "list.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("cache", ["page", "user", "decoded"])
def test_sources_behind_urls_are_joined_and_mixed_like_local_ones(site, store, tmp_path, cache):
  write_list(site)
  remote, local = joined(store.url, *MIXED), joined(site, *MIXED)
  half = [*local[:2], *remote[2:]]
  weighted = {"epoch_size": 40}
  for sources, weights in ((remote, None), (half, None), (remote, (3, 0.5, 1, 2)),
                           (half, (1, 1, 4, 0))):
    some, others = sources, local
    if weights is not None:
      some, others = list(zip(sources, weights)), list(zip(local, weights))
    options = weighted if weights else {}
    with loader_of(some, cache_dir=tmp_path, cache=cache, **options) as one, \
        loader_of(others, cache=cache, **options) as other:
      assert one.dataset.kind == "concat"
      assert one.dataset.classes == other.dataset.classes
      assert one.dataset.fingerprint == other.dataset.fingerprint
      for _ in range(2):
        assert_same(rows_of(one), rows_of(other))
      assert one.stats()["remote"]["failures"] == 0
      assert other.stats()["remote"] is None
      assert ([row["samples"] for row in one.stats()["sources"]]
              == [row["samples"] for row in other.stats()["sources"]])


def test_joined_sources_are_fetched_ahead_each_file_once(site, store, tmp_path):
  with loader_of(joined(store.url, "folder", "coco_pack"), cache_dir=tmp_path) as loader:
    for _ in range(3):
      rows_of(loader)
    shards = len(list((site / "coco_pack").glob("shard-*")))
    # Each once, and the pack's index.
    data_pictures.wait_until(
      lambda: loader.stats()["remote"]["fetched"] >= COUNT + shards + 1)
    assert loader.stats()["remote"]["fetched"] == COUNT + shards + 1
  for shard in (site / "coco_pack").glob("shard-*"):
    assert store.sent[f"/coco_pack/{shard.name}"] == shard.stat().st_size


def test_joined_sources_go_on_and_are_opened_again(site, store, tmp_path):
  sources = joined(store.url, "folder", "coco/instances.json")
  with loader_of(sources, cache_dir=tmp_path / "a") as loader:
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    rest = [np.array(images) for images, _ in batches]
    again = pickle.loads(pickle.dumps(loader.dataset))
  for dataset in (again, joined(site, "folder", "coco/instances.json")):
    with loader_of(dataset) as loader:
      loader.load_state_dict(state)
      assert_same([np.array(images) for images, _ in loader], rest)


def test_joined_sources_have_label_maps_and_are_packed_from_a_store(site, store, tmp_path):
  maps = []
  for name, root, options in (("remote", store.url, {"cache_dir": tmp_path / "c"}),
                              ("local", site, {})):
    datasets = [data.open(f"{root}/{part}", **options) for part in ("maps", "maps_pack")]
    with loader_of(datasets, targets="masks") as loader:
      maps.append(rows_of(loader))
    data.pack(data.concat(datasets), tmp_path / name, progress=False)
  assert_same(*maps)
  names = sorted(file.name for file in (tmp_path / "local").iterdir())
  assert names == sorted(file.name for file in (tmp_path / "remote").iterdir())
  for name in names:
    assert (tmp_path / "remote" / name).read_bytes() == (tmp_path / "local" / name).read_bytes()


def test_an_error_in_a_joined_source_names_its_url(site, tmp_path):
  shutil.copytree(site / "folder", tmp_path / "site/folder")
  with HttpStore(tmp_path / "site") as store:
    url = f"{store.url}/folder"
    dataset = data.concat([data.open(site / "folder"), data.open(url, cache_dir=tmp_path / "c")])
    gone = dataset.name(COUNT + 3)
    (tmp_path / "site/folder" / gone).unlink()
    with loader_of(dataset, last="pad") as loader, \
        pytest.raises(FileNotFoundError, match=f"{url}/{gone}"):
      rows_of(loader)
    with loader_of(dataset, errors="skip") as loader:
      rows_of(loader)
      assert loader.stats()["skipped"] == 1


@pytest.mark.parametrize("targets", ["labels", "boxes", "masks", "boxes+masks", "instances"])
def test_coco_behind_a_url_is_that_of_local_files(site, store, tmp_path, targets):
  with loader_of(f"{store.url}/coco/instances.json", targets=targets, cache_dir=tmp_path) as one, \
      loader_of(site / "coco/instances.json", targets=targets) as other:
    a, b = one.dataset, other.dataset
    assert (a.kind, a.classes, a.fingerprint) == ("coco", b.classes, b.fingerprint)
    assert [a.boxes(i) for i in range(COUNT)] == [b.boxes(i) for i in range(COUNT)]
    for _ in range(2):
      assert_same(rows_of(one), rows_of(other))


@pytest.mark.parametrize("place", ["{}", "val", "images/val", "images", "../val", "../images/val"])
def test_cocos_pictures_are_found_where_they_are_beside_local_files(site, tmp_path, place):
  root = tmp_path / "site/set"
  pictures = (root / "annotations" / place.format(".")).resolve()
  pictures.mkdir(parents=True)
  (root / "annotations").mkdir(exist_ok=True)
  shutil.copy(site / "coco/instances.json", root / "annotations/instances_val.json")
  for file in (site / "coco").glob("*.png"):
    shutil.copy(file, pictures)
  with HttpStore(tmp_path / "site") as store:
    url = f"{store.url}/set/annotations/instances_val.json"
    with loader_of(url, targets="boxes", cache_dir=tmp_path / "c") as one, \
        loader_of(root / "annotations/instances_val.json", targets="boxes") as other:
      assert_same(rows_of(one), rows_of(other))
    for file in pictures.glob("*.png"):
      file.unlink()
    with pytest.raises(stretto.FormatError, match=r"first picture, 000\.png, is in none of") as e:
      data.open(url, cache_dir=tmp_path / "d")
    assert f"{store.url}/set/images/val" in str(e.value)


def test_coco_may_name_urls_but_no_paths_of_this_machine(site, store, tmp_path):
  text = (site / "coco/instances.json").read_text()
  for name, prefix in (("urls", f"{store.url}/coco/"), ("paths", f"{site}/coco/")):
    changed = json.loads(text)
    for image in changed["images"]:
      image["file_name"] = prefix + image["file_name"]
    (site / f"{name}.json").write_text(json.dumps(changed))
  with loader_of(f"{store.url}/urls.json", cache_dir=tmp_path) as one, \
      loader_of(site / "coco/instances.json") as other:
    # Names are others, and so the state of one is none of the other; the pictures are the same.
    assert_same(rows_of(one), rows_of(other))
  with pytest.raises(stretto.FormatError, match="expected a path relative to the folder, or a URL"):
    data.open(f"{store.url}/paths.json", cache_dir=tmp_path)


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


def test_joined_sources_share_a_cache_that_is_too_small_for_both(site, store, tmp_path):
  """One epoch in order needs each shard once."""
  for name in ("first", "second"):
    data.pack(site / "folder", site / name, shard_bytes=20_000, progress=False)
  shards = [file.stat().st_size for name in ("first", "second")
            for file in (site / name).glob("shard-*")]
  indexes = sum((site / name / "index").stat().st_size for name in ("first", "second"))
  assert len(shards) >= 8
  options = {"sampler": "sequential", "threads": 1, "cache": "page", "dtype": "uint8"}
  with loader_of(joined(store.url, "first", "second"), cache_dir=tmp_path,
                 disk_bytes=3 * max(shards) + indexes, **options) as remote, \
      loader_of(joined(site, "first", "second"), **options) as local:
    for some, others in zip(remote, local, strict=True):
      assert all(np.array_equal(a, b) for a, b in zip(some, others))
      time.sleep(0.05)  # so that what is fetched ahead fills the cache
    stats = remote.stats()["remote"]
  # At the end the next epoch's first ones are fetched.
  assert len(shards) + 1 <= stats["fetched"] <= len(shards) + 2 + 6, stats
  assert stats["evicted"] > 0 and stats["failures"] == 0


def test_classes_and_label_maps_are_joined(site, tmp_path):
  """Numbers in label maps stay as they are, and pictures without a class have none."""
  with loader_of(joined(site, "folder", "maps"), sampler="sequential", last="pad") as loader:
    labels = np.concatenate([np.array(labels) for _images, labels, _real in loader])
    assert loader.dataset.classes == data.open(site / "folder").classes
  assert (labels[:COUNT] >= 0).all() and (labels[COUNT:2 * COUNT] == -1).all()
  with loader_of(joined(site, "coco/instances.json", "maps"), targets="masks", train=False,
                 last="drop", fit="letterbox") as loader, \
      loader_of(site / "maps", targets="masks", train=False, last="drop",
                fit="letterbox") as alone:
    assert loader.dataset.classes == ["thing"]
    whole = {int(i): np.array(mask) for _images, masks in loader
             for i, mask in zip(loader.samples, masks)}
    for _images, masks in alone:
      for i, mask in zip(alone.samples, masks):
        assert np.array_equal(whole.get(int(i) + COUNT, mask), mask)
    assert set(np.unique(whole[0])) <= {0, 1, 255}
