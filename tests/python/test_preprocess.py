"""Models that take pictures: stretto.optimize(..., preprocess=...), and photos for the command."""

import io
import json
import subprocess
import sys
import time

import conftest
import numpy as np
import onnx
import pytest
from onnx import helper
from PIL import Image
from preprocess_pictures import SIZE, SIZES, cnn, optimized, pixels_of, write_pictures

import stretto
from stretto import data, media


@pytest.fixture(scope="module")
def fast():
  return optimized()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  path = tmp_path_factory.mktemp("pictures") / "all"
  path.mkdir()
  write_pictures(path)
  return path.parent


@pytest.fixture(scope="module")
def loaded(folder):
  """What the loader makes of each file in validation, by name."""
  found = {}
  with data.ImageLoader(folder, 8, SIZE, train=False, threads=1) as loader:
    names = [loader.dataset.name(i) for i in range(len(loader.dataset))]
    for batch in loader:
      for image, sample in zip(np.array(batch[0]), loader.samples):
        if sample >= 0:
          found[names[sample]] = image
  assert len(found) == len(names) >= 3 * len(SIZES)
  return found


def test_files_give_the_bits_of_the_loader(fast, folder, loaded):
  for name, image in loaded.items():
    assert np.array_equal(fast.prepare(folder / name)[0], image), name


def test_pixels_give_the_bits_of_the_loader(fast, folder, loaded):
  """Of files that hold pixels. A JPEG file's chroma is resized from its own resolution, by the
  loader and for files; a whole picture in RGB is another one then, by less than Pillow's is."""
  for name, image in loaded.items():
    with Image.open(folder / name) as opened:
      kept = opened.format != "JPEG" or "grey" in name
      pixels = np.asarray(opened if opened.mode == "L" else opened.convert("RGB"))
    if "turned" in name or "cmyk" in name:
      continue
    got = fast.prepare(pixels)[0]
    if kept:
      assert np.array_equal(got, image), name
    elif min(pixels.shape[:2]) > 8:
      off = np.abs(got - image) * np.array(media.IMAGENET_STD).reshape(3, 1, 1) * 255
      assert off.mean() <= 0.5, (name, off.mean())


@pytest.mark.parametrize("steps", [
  media.Imagenet(16), [media.Resize(18), media.CenterCrop(16), media.Normalize()],
  "resize(18), center_crop(16), normalize()"])
def test_steps_are_the_preset_in_parts(steps):
  picture = pixels_of(123, 77)
  preset = optimized(media.Imagenet(16), cnn(size=16))
  got = optimized(steps, cnn(size=16))
  assert got.preprocess == preset.preprocess
  assert np.array_equal(got.prepare(picture), preset.prepare(picture))


def torchvisions(pixels, resize, size, resample=Image.BILINEAR):
  """Resize and CenterCrop of torchvision on a PIL picture, as values 0 to 1."""
  image = Image.fromarray(pixels)
  shorter, longer = min(image.size), max(image.size)
  large = int(resize * longer / shorter)
  target = (resize, large) if image.width <= image.height else (large, resize)
  image = image.resize(target, resample)
  left, top = round((image.width - size) / 2), round((image.height - size) / 2)
  return np.asarray(image.crop((left, top, left + size, top + size)), np.float32) / 255


@pytest.mark.parametrize("name,resample", [("triangle", Image.BILINEAR), ("cubic", Image.BICUBIC)])
def test_pixels_are_pillows(name, resample):
  model = optimized(media.Imagenet(SIZE, mean=0, std=1, filter=name))
  for width, height in [(500, 375), (375, 500), (64, 48), (224, 224), (1200, 40)]:
    pixels = pixels_of(width, height)
    off = np.abs(model.prepare(pixels)[0].transpose(1, 2, 0)
                 - torchvisions(pixels, SIZE * 256 // 224, SIZE, resample))
    # Pillow rounds to bytes after each of two passes; this does not round.
    assert off.mean() <= 0.5 / 255 and off.max() <= 3 / 255, (width, height, off.mean(), off.max())


def test_a_stretched_picture_keeps_no_ratio():
  model = optimized([media.Resize((SIZE, SIZE))])
  pixels = pixels_of(90, 40)
  want = np.asarray(Image.fromarray(pixels).resize((SIZE, SIZE), Image.BILINEAR), np.float32) / 255
  assert np.abs(model.prepare(pixels)[0].transpose(1, 2, 0) - want).max() <= 2 / 255


def test_a_call_takes_pixels_files_bytes_and_what_was_prepared(fast, folder):
  plain = stretto.optimize(cnn(), tuning="off", progress=False, threads=1)
  file = folder / "all" / "13_png.png"
  with Image.open(file) as opened:
    pixels = np.asarray(opened)
    want = plain(fast.prepare(pixels))
    for value in (pixels, pixels[None], file, str(file), file.read_bytes(), [file], opened,
                  fast.prepare(file), {"x": pixels}):
      assert np.array_equal(fast(value), want)
  assert np.array_equal(fast(x=pixels), want)


def test_batches_and_greys():
  model = optimized(model=cnn("n"))
  assert model.inputs[0].sizes.startswith("n:0..x"), model.inputs
  pictures = [pixels_of(*size) for size in ((50, 40), (8, 90), (300, 200))]
  alone = np.concatenate([model(picture) for picture in pictures])
  conftest.assert_close(model(pictures), alone)  # another batch may have other kernels
  same = np.stack([pixels_of(61, 47, seed) for seed in range(5)])
  for threads in (1, 2):
    model = stretto.optimize(cnn("n"), preprocess=media.Imagenet(SIZE), tuning="off",
                             progress=False, threads=threads)
    assert np.array_equal(model.prepare(same), np.concatenate([model.prepare(p) for p in same]))
    assert model(same).shape == (5, 10)
  grey = pixels_of(61, 47)[:, :, 0]
  want = model.prepare(np.stack([grey] * 3, 2))
  # One plane for all channels, or three equal ones: the same sums.
  assert np.abs(model.prepare(grey) - want).max() <= 1e-6
  assert np.array_equal(model.prepare(grey), model.prepare(grey[:, :, None]))


def test_lists_are_shared_by_threads(folder):
  """Whoever makes them, they come in their order; what one thread finds wrong is told."""
  files = sorted((folder / "all").glob("*.jpg"))
  given = [file if i % 3 else file.read_bytes() for i, file in enumerate(files)]
  models = [stretto.optimize(cnn("n"), preprocess=media.Imagenet(SIZE), tuning="off",
                             progress=False, threads=threads) for threads in (1, 3)]
  made = [model.prepare(*given, np.stack([pixels_of(40, 30)] * 3)) for model in models]
  assert made[0].shape == (len(files) + 3, 3, SIZE, SIZE)
  assert np.array_equal(*made)
  for i in (0, 1, len(files) - 1):
    assert np.array_equal(made[0][i], models[0].prepare(given[i])[0])
  with pytest.raises(FileNotFoundError, match="absent.jpg"):
    models[1].prepare(*given, folder / "absent.jpg", *given)
  with pytest.raises(stretto.FormatError, match="picture 1"):
    models[1].prepare(given[0], b"no picture")


@pytest.mark.parametrize("kind", ["FLOAT16", "BFLOAT16"])
def test_narrow_types_take_all_kinds_of_pictures(kind, folder):
  narrow = cnn()
  narrow.graph.input[0].CopyFrom(helper.make_tensor_value_info(
    "narrow", getattr(onnx.TensorProto, kind), [1, 3, SIZE, SIZE]))
  narrow.graph.node.insert(0, helper.make_node("Cast", ["narrow"], ["x"], "wide",
                                               to=onnx.TensorProto.FLOAT))
  file = folder / "all" / "13_png.png"
  with Image.open(file) as opened:
    pixels = np.asarray(opened)
  model = optimized(model=narrow, inputs={"narrow": pixels})
  made, want = model.prepare(file), model(pixels)
  full = optimized()
  bits = 11 if kind == "FLOAT16" else 8
  off = np.abs(made.astype(np.float32) - full.prepare(file))
  assert 0 < off.max() <= 3 * 2.0 ** -bits
  assert np.abs(want - full(file)).max() <= 0.05
  for value in (file, file.read_bytes(), [file], made, [pixels], pixels[None]):
    assert np.array_equal(model(value), want)


def test_tensors_are_converted_as_elsewhere(fast):
  made = fast.prepare(pixels_of(50, 40))
  want = fast(made)
  assert np.array_equal(fast(made.astype(np.float64)), want)
  assert np.array_equal(fast(made.tolist()), want)
  half = made.astype(np.float16)
  assert np.array_equal(fast(half), fast(half.astype(np.float32)))
  pixels = pixels_of(7, 5)
  assert np.array_equal(fast(pixels.tolist()), fast(pixels))


def test_other_inputs_follow_height_and_width():
  """As a mask of the picture does, whose dimensions have the same names."""
  model = conftest.model_of(
    [helper.make_node("Unsqueeze", ["mask", "one"], ["m"], "channels"),
     helper.make_node("Mul", ["x", "m"], ["y"], "masked")],
    [conftest.value("x", ["n", 3, "height", "width"]),
     conftest.value("mask", ["n", "height", "width"])],
    [conftest.value("y", ["n", 3, "height", "width"])], {"one": np.array([1], np.int64)})
  taken = optimized(media.Imagenet(SIZE), model)
  mask = (np.arange(SIZE * SIZE).reshape(1, SIZE, SIZE) % 2).astype(np.float32)
  pixels = pixels_of(70, 60)
  assert np.array_equal(taken(pixels, mask), taken.prepare(pixels) * mask[:, None])


def test_channels_last():
  pixels = pixels_of(90, 70)
  last, first = optimized(model=cnn(nhwc=True)), optimized()
  assert last.prepare(pixels).shape == (1, SIZE, SIZE, 3)
  assert np.array_equal(last.prepare(pixels).transpose(0, 3, 1, 2), first.prepare(pixels))
  assert np.abs(last(pixels) - first(pixels)).max() <= 1e-5
  with pytest.raises(stretto.InvalidArgumentError, match="no input takes"):
    optimized([media.Imagenet(SIZE), media.ToLayout("NHWC")])


def test_new_sizes_need_no_new_program(fast):
  weights = fast._session.shared_weight_bytes, fast.weight_bytes, fast.memory_bytes
  taken = []
  for i in range(40):  # each size is a new one; the best of them is what a quiet machine takes
    picture = np.zeros((100 + i, 150 + 2 * i, 3), np.uint8)
    begin = time.perf_counter()
    fast(picture)
    taken.append(time.perf_counter() - begin)
  assert min(taken) < 0.010, taken
  assert weights == (fast._session.shared_weight_bytes, fast.weight_bytes, fast.memory_bytes)


def test_an_artefact_keeps_the_steps(fast, tmp_path):
  file = tmp_path / "m.stretto"
  fast.save(file)
  again = stretto.load(file, verify=True)
  picture = pixels_of(90, 200)
  assert again.preprocess == fast.preprocess
  assert again.inputs == fast.inputs and fast.inputs[0].dtype == "uint8"
  assert np.array_equal(again.prepare(picture), fast.prepare(picture))
  assert np.array_equal(again(picture), fast(picture))
  open_batch = optimized(model=cnn("n"))
  open_batch.save(file)
  again = stretto.load(file)
  conftest.assert_close(again([picture] * 3), open_batch([picture] * 3))


def test_the_report_has_a_line_of_its_own(fast):
  part = fast.report["preprocess"]
  assert part["steps"] == fast.preprocess and part["shape"] == [1, 3, SIZE, SIZE]
  assert part["ms"] > 0
  assert stretto.optimize(cnn(), tuning="off", progress=False).report["preprocess"] is None


def test_given_pictures_check_the_model(tmp_path):
  pixels = pixels_of(90, 70)
  model = optimized(inputs={"x": pixels})
  assert model.report["inputs"] == [{"name": "x", "source": "user"}]
  model.save(tmp_path / "m.stretto")
  assert np.array_equal(stretto.load(tmp_path / "m.stretto", verify=True)(pixels), model(pixels))


@pytest.mark.parametrize("steps,problem", [
  ("imagenett(224)", "there is no step 'imagenett'; there are imagenet, letterbox"),
  ("imagenet", "needs its size"),
  ("imagenet(0)", "whole number from 1 to 16384, got '0'"),
  ("imagenet(32", "a \\) is missing"),
  ("imagenet(32) normalize()", "expected a comma"),
  ("imagenet(32),", "there is no step ''"),
  ("imagenet(32, colour=3)", "no argument 'colour'"),
  ("imagenet(32, 36, 0.5, 0.5, box, 1)", "too many arguments"),
  ("imagenet(32, size=32)", "given twice"),
  ("imagenet(32, resize=31)", "at least the size"),
  ("imagenet(32, mean=[0.5, 0.5])", "one number or three"),
  ("imagenet(32, std=0)", "number from 1e-06"),
  ("imagenet(32, mean=nan)", "got 'nan'"),
  ("imagenet(32, filter=sinc)", "triangle or cubic or box"),
  ("imagenet(32), normalize()", "does the same"),
  ("resize(36)", "leaves the longer side open"),
  ("resize(30), center_crop(32)", "larger than the picture"),
  ("center_crop(32), resize(36)", "center_crop comes after resize"),
  ("letterbox(32), center_crop(32)", "cannot follow"),
  ("normalize()", "no step that gives pictures one size"),
  ("resize(36), center_crop(32), to_layout(NCWH)", "NCHW or NHWC"),
  ("imagenet(224)", "makes 1x3x224x224 of a picture, which no input takes"),
  ([], "got none"),
  (3, "expected a step of stretto.media"),
  (media.Resize("large"), "Resize: size: expected an integer"),
  (media.Normalize(mean=(1, 2)), "Normalize: mean: expected a number or three"),
])
def test_wrong_steps_are_named(steps, problem):
  with pytest.raises(stretto.InvalidArgumentError, match=problem):
    optimized(steps)


def test_wrong_pictures_are_named(fast, tmp_path):
  wrong = [(np.zeros((40, 30, 4), np.uint8), "got uint8 of shape 40x30x4"),
           (np.zeros((40, 30, 3), np.float32), "got float32"),
           (np.zeros((2, 40, 30, 3), np.uint8), "expected a batch of 1, got 2"),
           (np.zeros((0, 30, 3), np.uint8), "1 to 1048576 pixels a side, got 0x30")]
  for value, problem in wrong:
    with pytest.raises(stretto.InvalidArgumentError, match=problem):
      fast(value)
  with pytest.raises(stretto.FormatError, match="input x: .*JPEG, PNG or WebP"):
    fast(b"no picture")
  with pytest.raises(FileNotFoundError, match="absent.jpg"):
    fast(tmp_path / "absent.jpg")
  with open(tmp_path / "large.jpg", "wb") as large:
    large.truncate(2 << 30)
  with pytest.raises(stretto.FormatError, match="large.jpg.*more than a picture may have"):
    fast(tmp_path / "large.jpg")
  cut = io.BytesIO()
  Image.fromarray(pixels_of(90, 80)).save(cut, "JPEG")
  (tmp_path / "cut.jpg").write_bytes(cut.getvalue()[:900])
  with pytest.raises(stretto.FormatError, match="cut.jpg"):
    fast(tmp_path / "cut.jpg")
  plain = stretto.optimize(cnn(), tuning="off", progress=False)
  with pytest.raises(stretto.InvalidArgumentError, match="takes tensors; optimise it with"):
    plain.prepare(pixels_of(9, 9))
  with pytest.raises(stretto.InvalidArgumentError, match="several inputs may take pictures"):
    optimized(model=two_pictures())


def two_pictures():
  return conftest.model_of(
    [helper.make_node("Add", ["a", "b"], ["y"], "add")],
    [conftest.value("a", [1, 3, SIZE, SIZE]), conftest.value("b", [1, 3, SIZE, SIZE])],
    [conftest.value("y", [1, 3, SIZE, SIZE])], {})


# ---- the command ------------------------------------------------------------------------------


def command(*words, code=0):
  done = subprocess.run([sys.executable, "-m", "stretto", *map(str, words)], capture_output=True,
                        text=True, timeout=300)
  assert done.returncode == code, done.stdout + done.stderr
  return done.stdout if code == 0 else done.stderr


@pytest.fixture(scope="module")
def files(folder, tmp_path_factory):
  """Two models, of one picture and of any number, and names of their classes."""
  path = tmp_path_factory.mktemp("command")
  onnx.save(cnn(), path / "one.onnx")
  onnx.save(cnn("n"), path / "many.onnx")
  for name in ("one", "many"):
    command("optimize", path / f"{name}.onnx", "-o", path / f"{name}.stretto", "--tuning", "off",
            "--preprocess", f"imagenet({SIZE})", "--threads", 1)
  (path / "names.txt").write_text("\n".join(f"class {i}" for i in range(10)) + "\n")
  photos = sorted((folder / "all").glob("*_420.jpg"))
  return path, photos


@pytest.mark.parametrize("name", ["one", "many"])
def test_photos_at_the_command_line(files, name):
  path, photos = files
  words = [word for photo in photos for word in ("--input", photo)]
  out = path / "out.npz"
  result = json.loads(command("infer", path / f"{name}.stretto", *words, "--json", "--labels",
                              path / "names.txt", "-o", out))
  model = stretto.load(path / f"{name}.stretto")
  want = np.concatenate([model(photo) for photo in photos])
  with np.load(out) as outputs:
    got = outputs["y"]
  conftest.assert_close(got, want)  # another batch may have other kernels
  assert result["pictures"] == [str(photo) for photo in photos]
  assert len(result["classes"]) == len(photos)
  for scores, classes in zip(got, result["classes"]):
    best = np.argsort(-scores, kind="stable")[:5]
    assert [c["class"] for c in classes] == best.tolist()
    assert [c["label"] for c in classes] == [f"class {i}" for i in best]
    assert np.allclose([c["score"] for c in classes], scores[best], rtol=1e-6)


def test_groups_of_photos_suit_the_batch(files, tmp_path):
  path, photos = files
  model = tmp_path / "range.stretto"
  command("optimize", path / "many.onnx", "-o", model, "--tuning", "off", "--threads", 1,
          "--preprocess", f"imagenet({SIZE})", "--shape", f"x=4..6x3x{SIZE}x{SIZE}")
  folder = tmp_path / "lr=0.1"
  folder.mkdir()
  (folder / "a.jpg").write_bytes(photos[0].read_bytes())
  for count, code in ((5, 0), (8, 0), (9, 0), (3, 2), (7, 2)):
    words = [w for photo in [folder / "a.jpg", *photos[1:count]] for w in ("--input", photo)]
    said = command("infer", model, *words, "--json", code=code)
    if code == 0:
      assert len(json.loads(said)["classes"]) == count
    else:
      assert f"and {count} were given" in said


def test_the_best_classes_are_printed(files):
  path, photos = files
  text = command("infer", path / "one.stretto", "--input", f"x={photos[13]}", "--labels",
                 path / "names.txt")
  lines = text.splitlines()
  assert lines[0] == str(photos[13]) and lines[1].split() == ["class", "label", "score"]
  assert " class " in lines[2]
  text = command("infer", path / "one.onnx", "--preprocess", f"imagenet({SIZE})", "--tuning",
                 "off", "--input", photos[13])
  lines = text.splitlines()
  assert lines[0] == str(photos[13]) and lines[1].split() == ["class", "score"]
  assert "--labels" in lines[7]


def test_what_inspect_says(files):
  path, _ = files
  assert "takes pictures: resize(36), center_crop(32, 32), normalize(" in command(
    "inspect", path / "one.stretto")
  found = json.loads(command("inspect", path / "one.stretto", "--json"))
  assert found["preprocess"].startswith("resize(36)")
  assert found["inputs"][0]["dtype"] == "uint8"


def test_a_photo_checks_the_model(files, tmp_path):
  path, photos = files
  command("optimize", path / "one.onnx", "--preprocess", f"imagenet({SIZE})", "--tuning", "off",
          "--input", f"x={photos[13]}", "-o", tmp_path / "m.stretto", "--report",
          tmp_path / "r.json")
  report = json.loads((tmp_path / "r.json").read_text())
  assert report["preprocess"]["ms"] > 0
  assert report["inputs"] == [{"name": "x", "source": "user"}]
  assert report["latency"]["after"]["median_ms"] > 0
  command("inspect", tmp_path / "m.stretto", "--verify")


def test_wrong_words_about_photos(files, tmp_path):
  path, photos = files
  plain = path / "plain.stretto"
  command("optimize", path / "one.onnx", "-o", plain, "--tuning", "off")
  broken = tmp_path / "broken.jpg"
  broken.write_bytes(photos[13].read_bytes()[:500])
  (tmp_path / "few.txt").write_text("cat\ndog\n")
  for code, words, problem in [
      (2, ["infer", plain, "--input", photos[0]], "takes tensors (x 1x3x32x32); optimise it with "
                                                  "--preprocess 'imagenet(224)'"),
      (2, ["optimize", path / "one.onnx", "--input", f"x={photos[0]}"], "add --preprocess"),
      (1, ["infer", path / "one.stretto", "--input", broken], "broken.jpg"),
      (1, ["infer", path / "one.stretto", "--input", tmp_path / "absent.png"], "absent.png"),
      (2, ["infer", path / "one.stretto", "--input", f"y={photos[0]}"], "takes pictures is x"),
      (2, ["infer", path / "one.stretto", "--input", photos[0], "--input", f"x={photos[0]}"],
       "names another"),
      (2, ["infer", path / "one.stretto"], "or --input photo.jpg"),
      (2, ["infer", path / "one.stretto", "--input", photos[0], "--labels", tmp_path / "few.txt"],
       "2 lines, and the model 10 classes"),
      (2, ["optimize", path / "one.onnx", "--preprocess", "imagenet(224)"], "which no input takes"),
  ]:
    assert problem in command(*words, code=code), words
