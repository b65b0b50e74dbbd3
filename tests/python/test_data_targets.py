"""stretto.data.ImageLoader: boxes and label maps that follow their pictures, and mixed labels."""

import json
import pickle
import shutil
import subprocess
import sys

import data_pictures
import numpy as np
import pytest
from PIL import Image

import stretto
from stretto import data

COUNT = 17
RED = 3  # the class of the red rectangle of each picture


@pytest.fixture(scope="module")
def coco(tmp_path_factory):
  """Grey pictures with a red rectangle, and one of another class below it, as COCO lists them."""
  root = tmp_path_factory.mktemp("coco")
  rng = np.random.default_rng(6)
  images, annotations = [], []
  for i in range(COUNT):
    width, height = (int(v) for v in rng.integers(90, 180, 2))
    w, h = (int(v) for v in rng.integers(20, 60, 2))
    x, y = int(rng.integers(0, width - w)), int(rng.integers(0, height - h))
    picture = np.full((height, width, 3), 120, np.uint8)
    picture[y:y + h, x:x + w] = (255, 0, 0)
    Image.fromarray(picture).save(root / f"{i:03}.png")
    images.append({"id": 1000 - i, "file_name": f"{i:03}.png", "width": width, "height": height})
    for category, (a, b, c, d) in ((70, (x, y, w, h)), (5, (0, 0, width, height))):
      annotations.append({"image_id": 1000 - i, "category_id": category, "bbox": [a, b, c, d],
                          "segmentation": [[a, b, a + c, b, a + c, b + d, a, b + d]]})
  categories = [{"id": n, "name": name} for n, name in
                ((1, "a"), (5, "all"), (9, "b"), (70, "red"))]
  file = root / "instances_x.json"
  file.write_text(json.dumps({"images": images, "annotations": annotations,
                              "categories": categories}))
  return file


def red_pixels(image):
  """Of uint8, H, W, 3."""
  image = image.astype(int)
  return (image[..., 0] > 190) & (image[..., 1] < 80)


def check_pictures(images, rows, most_off):
  """The box of class RED is where the red pixels are. Returns how many were compared."""
  compared = 0
  for image, row in zip(images, rows, strict=True):
    red = red_pixels(image)
    boxes = row["boxes"][row["labels"] == RED]
    if len(boxes) == 0 or not red.any():
      continue
    (x0, y0, x1, y1), = boxes.tolist()
    ys, xs = np.nonzero(red)
    edges = np.array([xs.min() - x0, ys.min() - y0, xs.max() + 1 - x1, ys.max() + 1 - y1])
    assert np.abs(edges).max() <= most_off, (edges, boxes)
    compared += 1
  return compared


@pytest.mark.parametrize("options", [
  {}, {"crop": (0.3, 0.9)}, {"crop": "iou"}, {"fit": "letterbox"}, {"fit": "letterbox",
                                                                  "crop": "iou"},
  {"train": False}, {"train": False, "fit": "letterbox"},
  {"transforms": ["translate_x(0.2)", "translate_y(0.2)"], "fit": "letterbox"}])
def test_boxes_and_maps_are_where_the_things_are(coco, options):
  compared = 0
  with data.ImageLoader(coco, 4, (120, 100), dtype="uint8", layout="NHWC", last="pad", seed=3,
                        targets="boxes+masks", min_visible=0.5, **options) as loader:
    for _ in range(2):
      for images, rows, masks, real in loader:
        assert masks.shape == (4, 120, 100) and masks.dtype == np.uint8 and len(rows) == 4
        assert set(np.unique(masks)) <= {0, 2, RED + 1, 255}
        compared += check_pictures(images[real], [r for r, is_real in zip(rows, real) if is_real],
                                   2.5)  # filters blur edges over as much where pictures grow
        for image, mask in zip(images[real], masks[real]):
          differ = red_pixels(image) != (mask == RED + 1)
          assert differ.mean() < 0.06
        for row, sample in zip(rows, loader.samples.tolist()):
          assert row["image_id"] == (1000 - COUNT + 1 + sample if sample >= 0 else -1)
          assert row["iscrowd"].tolist() == [0] * len(row["labels"])
          width, height = (row["boxes"][:, 2:] - row["boxes"][:, :2]).T
          assert np.allclose(row["area"], width * height)
          assert np.all(row["boxes"] >= 0) and np.all(row["boxes"][:, 2:] <= (100, 120))
  assert compared > 10


def test_boxes_without_outlines_make_no_maps(coco, tmp_path):
  listed = json.loads(coco.read_text())
  for row in listed["annotations"]:
    del row["segmentation"]
  file = coco.parent / "instances_boxes.json"
  file.write_text(json.dumps(listed))
  look(file, "-o", tmp_path / "page.html", "--count", "2", "--size", "32")
  text = (tmp_path / "page.html").read_text()
  assert "<rect" in text and 'class="mask"' not in text
  with pytest.raises(stretto.InvalidArgumentError, match="has no label maps"):
    data.ImageLoader(file, 2, 16, targets="masks")
  both = [coco.parent / "instances_boxes.json", coco]
  with pytest.raises(stretto.InvalidArgumentError, match="sample .* has no label map, and no outl"):
    data.ImageLoader(both, 4, 16, targets="masks")
  # A pack says it when the picture's turn comes.
  packed = tmp_path / "pack"
  data.pack(file, packed)
  with (data.ImageLoader([packed, coco], 4, 16, targets="masks", sampler="sequential") as loader,
        pytest.raises(stretto.FormatError, match="no outlines")):
    next(iter(loader))


def test_detectors_get_what_they_take(coco):
  torch = pytest.importorskip("torch")
  with data.ImageLoader(coco, 5, 64, framework="torch", targets="boxes", fit="letterbox") as loader:
    images, rows = next(iter(loader))
  assert [set(row) for row in rows] == [{"boxes", "labels", "image_id", "area", "iscrowd"}] * 5
  assert rows[0]["boxes"].dtype == torch.float32 and rows[0]["labels"].dtype == torch.int64
  # No copies: the boxes of all pictures follow each other in one piece of memory.
  assert rows[1]["boxes"].data_ptr() == rows[0]["boxes"].data_ptr() + rows[0]["boxes"].numel() * 4
  with data.ImageLoader(coco, 5, 64, framework="torch", targets="masks",
                        mask_dtype="int64") as loader:
    images, masks = next(iter(loader))
    scores = torch.zeros(5, 7, 64, 64)
    loss = torch.nn.functional.cross_entropy(scores, masks, ignore_index=255)
    assert images.shape == (5, 3, 64, 64) and abs(float(loss) - np.log(7)) < 1e-5


def test_dictionaries_have_all_parts(coco):
  names = ("data", "boxes", "masks")
  with (data.ImageLoader(coco, 4, 32, targets="boxes+masks") as loader,
        pytest.raises(stretto.InvalidArgumentError, match="names: expected 3")):
    next(data.DictIterator(loader))
  for padded in (names, (*names, "real")):
    options = {"targets": "boxes+masks", "last": "pad", "dtype": "uint8"}
    with (data.ImageLoader(coco, 4, 32, **options) as loader,
          data.ImageLoader(coco, 4, 32, **options) as plain):
      for (row,), (images, boxes, masks, real) in zip(data.DictIterator(loader, padded), plain,
                                                      strict=True):
        assert tuple(row) == padded
        assert np.array_equal(row["data"], images) and np.array_equal(row["masks"], masks)
        assert len(row["boxes"]) == len(boxes) and ("real" not in row or all(row["real"] == real))


def everything(loader):
  rows = []
  for images, boxes, masks in loader:
    rows.append([np.array(images), np.array(masks)] + [np.array(row[key]) for row in boxes
                                                       for key in sorted(row)])
  return rows


def same(a, b):
  return len(a) == len(b) and all(len(x) == len(y) and all(map(np.array_equal, x, y))
                                  for x, y in zip(a, b))


def test_threads_packs_and_resumes_change_nothing(coco, tmp_path):
  data.pack(coco, tmp_path / "pack", progress=False)
  options = {"batch": 4, "size": 48, "targets": "boxes+masks", "seed": 8,
             "transforms": ["rand_augment(2, 9)", "erase"]}
  with data.ImageLoader(coco, threads=1, **options) as one, \
       data.ImageLoader(tmp_path / "pack", threads=4, cache="decoded", **options) as packed:
    epochs = [everything(one) for _ in range(2)]
    assert not same(*epochs)
    assert all(same(everything(packed), epoch) for epoch in epochs)
    packed.set_epoch(0)
    batches = iter(packed)
    next(batches), next(batches)
    with data.ImageLoader(coco, threads=2, **options) as other:
      other.load_state_dict(packed.state_dict())
      assert same(everything(other), epochs[0][2:])


def test_phases_move_boxes_along(coco):
  phases = [{"epoch": 0, "size": 40, "batch": 4}, {"epoch": 1, "size": (96, 64), "batch": 2}]
  with data.ImageLoader(coco, phases=phases, dtype="uint8", layout="NHWC", targets="boxes+masks",
                        fit="letterbox", min_visible=0.5) as loader:
    for size, batch in (((40, 40), 4), ((96, 64), 2)):
      compared = 0
      for images, rows, masks in loader:
        assert images.shape[1:3] == masks.shape[1:] == size and len(rows) == batch
        compared += check_pictures(images, rows, 2)
      assert compared > 5


def test_boxes_that_vanish_are_dropped(coco):
  counts = []
  for least in (0.0, 0.5, 1.0):
    with data.ImageLoader(coco, 16, 64, targets="boxes", crop=(0.2, 0.3), flip=0,
                          min_visible=least) as loader:
      (_images, rows), = loader
      counts.append(sum(len(row["labels"]) for row in rows))
  assert counts[0] > counts[1] > counts[2]


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
  """Pictures beside label maps: red where the class is 3."""
  root = tmp_path_factory.mktemp("segmentation")
  rng = np.random.default_rng(7)
  for i in range(9):
    labels = np.kron(rng.choice([0, 3, 7, 255], (6, 5)), np.ones((16, 16))).astype(np.uint8)
    picture = np.full((*labels.shape, 3), 120, np.uint8)
    picture[labels == 3] = (255, 0, 0)
    for folder in ("images/a", "masks/a"):
      (root / folder).mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture).save(root / f"images/a/{i}.jpg", quality=95, subsampling=0)
    mask = Image.fromarray(labels)
    if i % 2 == 0:  # as Pascal VOC stores them
      mask = mask.convert("P")
      mask.putpalette(rng.integers(0, 256, 768).astype(np.uint8).tobytes())
      mask.putdata(labels.reshape(-1).tolist())
    mask.save(root / f"masks/a/{i}.png")
  return root


def test_label_maps_beside_pictures(masked, tmp_path):
  assert data.open(masked).kind == "segmentation"
  data.pack(masked, tmp_path / "pack", progress=False)
  options = {"batch": 3, "size": 64, "dtype": "uint8", "layout": "NHWC", "targets": "masks",
             "transforms": ["rotate(20)", "shear_x(0.2)"]}
  with data.ImageLoader(masked, **options) as files, \
       data.ImageLoader(tmp_path / "pack", threads=3, **options) as packed:
    for (images, masks), (others, packed_masks) in zip(files, packed, strict=True):
      assert np.array_equal(images, others) and np.array_equal(masks, packed_masks)
      assert set(np.unique(masks)) <= {0, 3, 7, 255}
      assert (red_pixels(images) != (masks == 3)).mean() < 0.08  # blurred edges of squares


@pytest.mark.parametrize("targets", ["masks", "boxes+masks"])
def test_the_decoded_cache_keeps_label_maps(coco, masked, tmp_path, targets):
  """They are there when their files are gone."""
  source = shutil.copytree(masked, tmp_path / "maps") if targets == "masks" else coco
  options = {"batch": 3, "size": (50, 70), "targets": targets, "threads": 2, "last": "wrap",
             "transforms": ["rotate(20)"], "fit": "letterbox"}
  with data.ImageLoader(source, cache="decoded", **options) as cached, \
       data.ImageLoader(masked if targets == "masks" else coco, **options) as plain:
    for epoch in range(4):
      if epoch == 2 and targets == "masks":  # epoch 0 was the first to be made, whatever is ahead
        shutil.rmtree(source / "masks")
        shutil.rmtree(source / "images")
      for batch, want in zip(cached, plain, strict=True):
        assert np.array_equal(batch[0], want[0]) and np.array_equal(batch[-1], want[-1])
        for row, wanted in zip(batch[1], want[1]):
          if isinstance(row, dict):
            assert all(np.array_equal(row[key], wanted[key]) for key in wanted)
    stats = cached.stats()
  assert stats["cached_samples"] == len(cached.dataset) and stats["skipped"] == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  path = tmp_path_factory.mktemp("pictures")
  data_pictures.write_folder(path, 40)
  return path


@pytest.mark.parametrize("transforms", [["mixup(0.4)"], ["cutmix(1.0)"],
                                        ["mixup(0.2)", "cutmix(1.0)"], ["mixup(0.2, chance=0.5)"]])
def test_pairs_are_mixed_as_torchvision_defines_it(folder, transforms):
  """lambda is read off the shares of the labels: pictures and shares have to agree."""
  kinds = set()
  with data.ImageLoader(folder, 8, 32, seed=3) as plain, \
       data.ImageLoader(folder, 8, 32, seed=3, transforms=transforms, threads=3) as mixed:
    for (before, labels), (after, shares) in zip(plain, mixed, strict=True):
      assert shares.shape == (8, 3) and shares.dtype == np.float32
      assert np.allclose(shares.sum(1), 1)
      for i in range(8):
        own, other = before[i], before[i ^ 1]
        if labels[i] == labels[i ^ 1]:
          continue
        share = shares[i, labels[i]]
        assert np.isclose(shares[i, labels[i ^ 1]], 1 - share, atol=1e-6)
        same = (after[i] == own).all(0)
        swapped = ~same & (after[i] == other).all(0)
        if same.all():
          kinds.add("none")
          assert share == 1
        elif same.any() and (same | swapped).all():
          kinds.add("cutmix")
          ys, xs = np.nonzero(swapped)
          box = (ys.max() + 1 - ys.min()) * (xs.max() + 1 - xs.min())
          assert abs(share - (1 - box / 32**2)) < 0.05  # pixels that are the same in both
        else:
          kinds.add("mixup")
          # Three roundings of float32 of values up to 3.
          assert np.allclose(after[i], share * own + (1 - share) * other, atol=2e-6)
  text = " ".join(transforms)
  for name in ("mixup", "cutmix"):
    assert (name in kinds) == (name in text)


def test_mixing_and_functions(folder):
  def doubled(images, shares):
    return images, 2 * shares

  with data.ImageLoader(folder, 8, 32, transforms=["mixup", doubled], classes=5) as loader:
    _images, shares = next(iter(loader))
    assert shares.shape == (8, 5) and np.allclose(shares.sum(1), 2)
  with (data.ImageLoader(folder, 8, 32, transforms=lambda images, labels: images) as loader,
        pytest.raises(stretto.InvalidArgumentError, match="returns 2 values")):
    next(iter(loader))


def test_what_makes_no_sense_is_named(folder, coco):
  for source, options, text in (
      (folder, {"targets": "boxes"}, "has no boxes"), (folder, {"targets": "masks"}, "label maps"),
      (folder, {"targets": "box"}, "targets: expected one of labels, boxes"),
      (folder, {"fit": "pad"}, "fit: expected one of crop, letterbox"),
      (folder, {"crop": "iou"}, "no boxes"), (folder, {"crop": "all"}, "'iou'"),
      (folder, {"min_visible": 2}, "min_visible"), (folder, {"mask_dtype": "int8"}, "mask_dtype"),
      (folder, {"transforms": "mixup", "batch": 3}, "even number"),
      (folder, {"transforms": "mixup, mixup"}, "mixup: at most once"),
      (folder, {"transforms": "mixup", "classes": 2}, "label 2, expected labels below 2"),
      (folder, {"classes": 0}, "classes"),
      (coco, {"transforms": "cutmix", "targets": "boxes"}, "not boxes or masks")):
    with pytest.raises(stretto.InvalidArgumentError, match=text):
      data.ImageLoader(source, **{"batch": 4, "size": 16, **options})


def look(*words):
  subprocess.run([sys.executable, "-m", "stretto.data", "show", *map(str, words)], check=True,
                 timeout=120)


def test_the_page_draws_boxes_and_maps(coco, masked, folder, tmp_path):
  page = tmp_path / "page.html"
  look(coco, "-o", page, "--count", "4", "--size", "64", "--fit", "letterbox", "--validation")
  text = page.read_text()
  assert text.count("<rect") == 8 and text.count(">red</text>") == 4
  assert text.count('class="mask"') == 4 and "</span>red</li>" in text
  look(masked, "-o", page, "--count", "3", "--size", "64")
  text = page.read_text()
  assert text.count('class="mask"') == 3 and "<rect" not in text and "</span>3</li>" in text
  look(folder, "-o", page, "--count", "3", "--size", "32", "--transforms", "mixup(1)")
  text = page.read_text()
  assert text.count("<figure>") == 4 and " % class" in text


def test_sources_are_mixed_by_weight(folder, coco, tmp_path):
  data_pictures.write_folder(tmp_path / "other", 10, seed=9, classes=4)
  pack = tmp_path / "pack"
  data.pack(folder, pack, progress=False)
  with data.ImageLoader({pack: 0.7, tmp_path / "other": 0.3}, 8, 24, seed=2, threads=3,
                        epoch_size=400) as loader:
    assert len(loader.dataset) == 50 and loader.dataset.kind == "concat" and len(loader) == 50
    assert loader.dataset.classes == ["class0", "class1", "class2", "class3"]
    told = [loader.indices(epoch) for epoch in range(2)]
    given = []
    for _images, labels in loader:
      assert labels.tolist() == loader.dataset.labels[loader.samples].tolist()
      given.append(loader.samples)
    assert np.concatenate(given).tolist() == told[0].tolist()
    shares = loader.stats()["sources"]
    assert [row["source"] for row in shares] == [str(pack), str(tmp_path / "other")]
    assert shares[0]["samples"] + shares[1]["samples"] == 400
    # Exact in 4,096; among 400 of them five standard deviations are 45.
    assert abs(shares[0]["samples"] - 280) < 45
    assert len(set(told[1].tolist())) <= 50
    state = loader.state_dict()
  with data.ImageLoader([(data.open(folder), 0.7), (tmp_path / "other", 0.3)], 8, 24, seed=2,
                        epoch_size=400) as same_order:
    same_order.load_state_dict(state)
    assert np.array_equal(next(iter(same_order))[0].shape, (8, 3, 24, 24))
    assert same_order.samples.tolist() == told[1][:8].tolist()
  with (data.ImageLoader({pack: 0.5, tmp_path / "other": 0.5}, 8, 24, seed=2,
                         epoch_size=400) as other,
        pytest.raises(stretto.InvalidArgumentError, match="another order")):
    other.load_state_dict(state)


def test_sources_follow_each_other(folder, tmp_path):
  data_pictures.write_folder(tmp_path / "other", 10, seed=9, classes=2)
  sources = [folder, tmp_path / "other"]
  with data.ImageLoader(sources, 10, 24, train=False, dtype="uint8") as both:
    pixels = [np.array(images) for images, _labels, _real in both]
    copy = pickle.loads(pickle.dumps(both.dataset))
    assert copy.fingerprint == both.dataset.fingerprint and len(copy) == 50
    assert [row["samples"] for row in both.stats()["sources"]] == [40, 10]
  alone = []
  for source in sources:
    with data.ImageLoader(source, 10, 24, train=False, dtype="uint8") as loader:
      alone += [np.array(images) for images, _labels, _real in loader]
  assert all(map(np.array_equal, pixels, alone)) and len(pixels) == len(alone) == 5
  data.pack(both.dataset, tmp_path / "both", progress=False)
  assert data.open(tmp_path / "both").fingerprint == both.dataset.fingerprint


def test_sources_that_make_no_sense_are_named(folder):
  for source, options, text in (
      ([], {}, "at least one"), ({}, {}, "at least one"), ({folder: -1}, {}, "weight"),
      ({folder: "1"}, {}, "weight"), ([(folder, 1), folder], {}, "some have none"),
      ({folder: 1, data.open(folder): 0}, {"train": False}, "train=False"),
      ([(folder, 1), (folder, 1)], {"sampler": "balanced"}, "cannot be used together"),
      ([(folder, 0), (folder, 0)], {}, "sum up to 0"), (b"folder", {}, "source"),
      (folder, {"epoch_size": 30}, "weighted samples and mixed sources"),
      (folder, {"epoch_size": 0}, "epoch_size")):
    with pytest.raises(stretto.InvalidArgumentError, match=text):
      data.ImageLoader(source, 4, 16, **options)
  with pytest.raises(stretto.InvalidArgumentError, match="datasets"):
    data.concat([folder])
