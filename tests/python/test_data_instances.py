"""stretto.data.ImageLoader(targets="instances"): a mask for each box, against pictures of the same
things and against NumPy's."""

import json
import sys

import numpy as np
import pytest
from PIL import Image

import stretto
from stretto import data

HEIGHT, WIDTH = 60, 80
COUNT = 9


def pixels_of_polygon(polygon, height=HEIGHT, width=WIDTH):
  """Those whose middle is inside by the even-odd rule, and how far each middle is from the edge."""
  corners = np.array(polygon, float).reshape(-1, 2)
  y, x = np.mgrid[:height, :width] + 0.5
  inside = np.zeros((height, width), bool)
  distance = np.full((height, width), np.inf)
  for (ax, ay), (bx, by) in zip(corners, np.roll(corners, -1, 0)):
    if ay != by:
      crosses = (ay <= y) != (by <= y)
      inside ^= crosses & (x < ax + (y - ay) * (bx - ax) / (by - ay))
    length = max((bx - ax) ** 2 + (by - ay) ** 2, 1e-12)
    along = np.clip(((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length, 0, 1)
    off_x, off_y = x - ax - along * (bx - ax), y - ay - along * (by - ay)
    distance = np.minimum(distance, np.hypot(off_x, off_y))
  return inside, distance


def runs_of_mask(mask):
  """As COCO counts: down the columns, the first run outside."""
  flat = np.concatenate([[0], mask.T.reshape(-1).astype(int), [2]])
  ends = np.flatnonzero(np.diff(flat) != 0)
  return np.diff(np.concatenate([[0], ends])).tolist()


def text_of_runs(runs):
  """As pycocotools' rleToString."""
  text = ""
  for i, run in enumerate(runs):
    value = run - (runs[i - 2] if i > 2 else 0)
    more = True
    while more:
      part = value & 0x1F
      value >>= 5
      more = value != (-1 if part & 0x10 else 0)
      text += chr(48 + (part | (0x20 if more else 0)))
  return text


def random_mask(rng):
  y, x = np.mgrid[:HEIGHT, :WIDTH]
  mask = np.hypot(x - rng.uniform(0, WIDTH), y - rng.uniform(0, HEIGHT)) < rng.uniform(6, 25)
  return mask & (rng.random(mask.shape) < 0.9)


def box_of(mask):
  ys, xs = np.nonzero(mask)
  return [int(xs.min()), int(ys.min()), int(np.ptp(xs)) + 1, int(np.ptp(ys)) + 1]


@pytest.fixture(scope="module")
def coco(tmp_path_factory):
  """Of each picture a list of what its things are: a list of polygons, or a mask that the file has
  as runs. The last picture has a crowd alone."""
  root = tmp_path_factory.mktemp("instances")
  rng = np.random.default_rng(5)
  images, annotations, things = [], [], []
  for i in range(COUNT):
    Image.fromarray(rng.integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)).save(root / f"{i}.png")
    images.append({"id": i, "file_name": f"{i}.png", "width": WIDTH, "height": HEIGHT})
    crowd = {"size": [HEIGHT, WIDTH], "counts": text_of_runs(runs_of_mask(random_mask(rng)))}
    annotations.append({"image_id": i, "category_id": 1, "iscrowd": 1, "bbox": [0, 0, 9, 9],
                        "segmentation": crowd})
    things.append([])
    for k in range(0 if i == COUNT - 1 else 4 + 2 * i):
      if k % 4 == 0:  # apart from each other, overlapping, and one that crosses itself
        x, y = rng.uniform(20, 50), rng.uniform(20, 40)
        star = [(x + 18 * np.sin(4 * np.pi * j / 5), y - 18 * np.cos(4 * np.pi * j / 5))
                for j in range(5)]
        thing = [np.round(np.ravel(star), 2).tolist(),
                 np.round(rng.uniform(0, 55, 6), 2).tolist()]
        corners = np.concatenate([np.reshape(part, (-1, 2)) for part in thing])
        low, high = corners.min(0), corners.max(0)
        box, segmentation = [*low, *(high - low)], thing
      elif k % 4 == 1:
        x, y, w, h = (int(v) for v in rng.integers(2, 30, 4))
        thing = [[x, y, x + w, y, x + w, y + h, x, y + h]]
        box, segmentation = [x, y, w, h], thing
      else:
        thing = random_mask(rng)
        runs = runs_of_mask(thing)
        box = box_of(thing)
        segmentation = {"size": [HEIGHT, WIDTH],
                        "counts": runs if k % 4 == 2 else text_of_runs(runs)}
      things[i].append(thing)
      annotations.append({"image_id": i, "category_id": 1 + k % 2, "iscrowd": 0, "bbox": box,
                          "segmentation": segmentation})
  file = root / "instances_x.json"
  file.write_text(json.dumps({"images": images, "annotations": annotations, "categories": [
    {"id": 1, "name": "a"}, {"id": 2, "name": "b"}]}))
  return file, things


def whole_pictures(file, **options):
  """Every picture as it is, one at a time."""
  with data.ImageLoader(file, 1, (HEIGHT, WIDTH), train=False, fit="letterbox", last="drop",
                        targets="instances", **options) as loader:
    return [rows[0] for _images, rows in loader]


def test_masks_are_those_of_polygons_and_runs(coco):
  file, things = coco
  rows = whole_pictures(file)
  assert len(rows) == len(things) == COUNT
  near = 0
  for row, of_picture in zip(rows, things):
    masks = row["masks"]
    assert masks.dtype == np.uint8 and masks.shape == (len(of_picture), HEIGHT, WIDTH)
    assert len(row["boxes"]) == len(row["labels"]) == len(of_picture)
    assert row["iscrowd"].tolist() == [0] * len(of_picture)
    assert row["labels"].tolist() == [k % 2 for k in range(len(of_picture))]
    for mask, thing in zip(masks, of_picture):
      if isinstance(thing, np.ndarray):
        assert np.array_equal(mask, thing)
        continue
      parts = [pixels_of_polygon(polygon) for polygon in thing]
      differs = mask != np.any([inside for inside, _distance in parts], axis=0)
      edge = np.min([distance for _inside, distance in parts], axis=0)
      # pycocotools rounds corners to a fifth of a pixel, and walks edges in such steps.
      assert edge[differs].max(initial=0) < 0.25
      near += differs.sum()
      if len(thing) == 1:  # a rectangle of whole pixels
        assert not differs.any()
        x0, y0, x1, y1 = (int(v) for v in np.reshape(thing, (-1, 2))[[0, 2]].reshape(-1))
        want = np.zeros_like(mask)
        want[y0:y1, x0:x1] = 1
        assert np.array_equal(mask, want)
  assert near > 0  # or the bound above says nothing
  assert sum(len(row["masks"]) > 8 for row in rows) > 3


def nearest(mask, to_width, to_height, flip):
  xs = np.arange(to_width) + 0.5
  xs = (to_width - xs if flip else xs) * WIDTH / to_width
  ys = (np.arange(to_height) + 0.5) * HEIGHT / to_height
  return mask[np.ix_(ys.astype(int), xs.astype(int))]


@pytest.mark.parametrize("flip", [0, 1])
@pytest.mark.parametrize("size", [(120, 160), (30, 40), (90, 200), (47, 33)])
def test_masks_are_resized_and_mirrored_with_their_picture(coco, size, flip):
  file, _things = coco
  whole = whole_pictures(file)
  height, width = size
  scale = min(height / HEIGHT, width / WIDTH)
  h, w = round(HEIGHT * scale), round(WIDTH * scale)
  top, left = (height - h) // 2, (width - w) // 2
  with data.ImageLoader(file, COUNT, size, crop=(1, 1), fit="letterbox", flip=flip,
                        sampler="sequential", targets="instances", min_visible=0) as loader:
    (_images, rows), = loader
  for row, of_whole in zip(rows, whole, strict=True):
    assert row["masks"].shape == (len(of_whole["masks"]), *size)
    for mask, before in zip(row["masks"], of_whole["masks"]):
      want = np.zeros(size, np.uint8)
      want[top:top + h, left:left + w] = nearest(before, w, h, flip)
      assert np.array_equal(mask, want)


@pytest.mark.parametrize("options", [
  {}, {"train": False}, {"fit": "letterbox", "crop": (0.2, 1)},
  {"transforms": ["rotate(25)", "shear_x(0.2)"]}])
def test_masks_are_the_layers_of_the_label_map(coco, options):
  """The label map of the same crops, whose smaller things lie on larger ones."""
  file, things = coco
  listed = json.loads(file.read_text())
  listed["annotations"] = [row for row in listed["annotations"] if not row["iscrowd"]]
  listed["categories"] = [{"id": k, "name": str(k)} for k in range(40)]
  for row in listed["annotations"]:  # of several polygons, label maps take the sum of their areas
    if isinstance(row["segmentation"], list):
      del row["segmentation"][1:]
  layered = file.parent / "instances_layers.json"
  layered.write_text(json.dumps(listed))
  for i, of_picture in enumerate(whole_pictures(layered)):  # class k is the k-th largest
    order = np.argsort([-int(mask.sum()) for mask in of_picture["masks"]], kind="stable")
    own = [row for row in listed["annotations"] if row["image_id"] == i]
    for k, at in enumerate(order):
      own[at]["category_id"] = k
  layered.write_text(json.dumps(listed))
  common = {"batch": 3, "size": 64, "seed": 4, "min_visible": 0, "last": "drop", **options}
  with data.ImageLoader(layered, targets="instances", **common) as of_things, \
       data.ImageLoader(layered, targets="boxes+masks", **common) as of_maps:
    shown = 0
    for (images, rows), (same, boxes, maps) in zip(of_things, of_maps, strict=True):
      assert np.array_equal(images, same)
      for row, want, label_map in zip(rows, boxes, maps):
        assert all(np.array_equal(row[key], want[key]) for key in want)
        painted = np.zeros((64, 64), int)
        for label, mask in sorted(zip(row["labels"].tolist(), row["masks"]), key=lambda p: p[0]):
          painted[mask == 1] = label + 1
        assert np.array_equal(painted, np.where(label_map == 255, 0, label_map))
        shown += (painted > 0).sum()
  assert shown > 1000


def test_packs_threads_and_padding_change_nothing(coco, tmp_path):
  file, _things = coco
  data.pack(file, tmp_path / "pack", progress=False)
  options = {"batch": 4, "size": 48, "targets": "instances", "seed": 8, "last": "pad",
             "transforms": ["rand_augment(2, 9)"]}
  with data.ImageLoader(file, threads=1, **options) as one, \
       data.ImageLoader(tmp_path / "pack", threads=3, cache="user", **options) as packed:
    for _ in range(2):
      batches = 0
      for (images, rows, real), (others, same, _real) in zip(one, packed, strict=True):
        assert np.array_equal(images, others)
        assert all(np.array_equal(a[key], b[key]) for a, b in zip(rows, same) for key in a)
        for row, is_real in zip(rows, real):
          assert row["masks"].shape == (len(row["boxes"]), 48, 48)
          assert is_real or len(row["boxes"]) == 0
        batches += 1
      assert batches == 3


def test_detectors_get_what_they_take(coco):
  torch = pytest.importorskip("torch")
  file, _things = coco
  with data.ImageLoader(file, 3, 64, targets="instances", framework="torch") as loader:
    kept = next(iter(loader))[1]
  assert all(row["masks"].dtype == torch.uint8 and row["masks"].shape == (len(row["boxes"]), 64, 64)
             for row in kept)
  assert set(kept[0]) == {"boxes", "labels", "image_id", "area", "iscrowd", "masks"}
  before = [row["masks"].clone() for row in kept]
  with data.ImageLoader(file, 3, 64, targets="instances", framework="torch", seed=9) as loader:
    for _ in loader:
      pass
  assert all(torch.equal(row["masks"], copy) for row, copy in zip(kept, before))


def test_what_makes_no_masks_is_named(coco):
  file, _things = coco
  listed = json.loads(file.read_text())
  rows = [row for row in listed["annotations"] if row["image_id"] == 0 and not row["iscrowd"]]
  rows[1]["segmentation"] = []
  partly = file.parent / "instances_partly.json"
  partly.write_text(json.dumps(listed))
  with (data.ImageLoader(partly, 1, 64, targets="instances", sampler="sequential") as loader,
        pytest.raises(stretto.FormatError, match=r"0\.png.*the box from .* has none")):
    next(iter(loader))
  with data.ImageLoader(partly, 2, 64, targets="instances", errors="skip") as loader:
    # Once in each epoch, the second of which may have begun already.
    assert len(list(loader)) == 4 and loader.stats()["skipped"] in (1, 2)
  for row in listed["annotations"]:
    row.pop("segmentation")
  boxes = file.parent / "instances_boxes.json"
  boxes.write_text(json.dumps(listed))
  with pytest.raises(stretto.InvalidArgumentError, match="has no outlines: expected COCO's"):
    data.ImageLoader(boxes, 2, 64, targets="instances")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="share needs Linux")
def test_masks_that_another_process_makes_are_the_same(coco):
  """Batches that are kept, batches without any box, phases of other sizes, and a state that goes
  from one to the other."""
  file, _things = coco
  options = {"targets": "instances", "rank": 0, "world": 1, "threads": 2, "last": "wrap",
             "phases": [{"epoch": 0, "size": (40, 60)}, {"epoch": 2, "size": (90, 50), "batch": 1}]}

  def rows_of(loader, epochs):
    return [(images, rows, loader.state_dict()) for _ in range(epochs) for images, rows in loader]

  with (data.ImageLoader(file, 4, 64, **options) as alone,
        data.ImageLoader(file, 4, 64, share="host", **options) as shared):
    want, kept = rows_of(alone, 4), rows_of(shared, 4)
    same(kept, want)
    assert any(len(row["masks"]) > 8 for _images, rows, _state in kept for row in rows)
    assert any(len(row["masks"]) == 0 for _images, rows, _state in kept for row in rows)
    shared.load_state_dict(want[1][2])
    same(rows_of(shared, 1), want[2:3])
    same(kept, want)  # nothing came into their memory since
  same(kept, want)


def same(got, want):
  for (images, rows, state), (wanted, wanted_rows, wanted_state) in zip(got, want, strict=True):
    assert np.array_equal(images, wanted) and state == wanted_state
    for row, wanted_row in zip(rows, wanted_rows, strict=True):
      assert row.keys() == wanted_row.keys()
      for key, value in row.items():
        assert np.array_equal(value, wanted_row[key]), key
