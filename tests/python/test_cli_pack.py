"""`stretto pack` and `stretto unpack` on real photographs, compared by Pillow."""

import io
import json
import os
import signal
import subprocess
import tarfile
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn import datasets


def photo(name):
  return Image.fromarray(datasets.load_sample_image(name))


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
  """Two classes with every kind of file that Pillow writes and Stretto reads."""
  folder = tmp_path_factory.mktemp("pictures")
  for name in ("china", "flower"):
    below = folder / name / "deep"
    below.mkdir(parents=True)
    picture = photo(f"{name}.jpg")
    exif = picture.getexif()
    exif[0x0112] = 6
    picture.save(below / "baseline.jpg", quality=90, exif=exif)
    picture.save(below / "full.JPEG", quality=95, subsampling=0)
    picture.save(below / "progressive.jpg", quality=85, progressive=True)
    picture.convert("L").save(below / "grey.jpg")
    picture.convert("CMYK").save(below / "cmyk.jpg")
    small = picture.crop((0, 0, 101, 77))
    small.save(below / "small.png")
    small.quantize(16).save(below / "palette.png")
    small.convert("RGBA").save(below / "alpha.webp", lossless=True)
    small.save(below / "lossy.webp", quality=80)
    grey = np.asarray(small.convert("L")).astype(np.uint16) * 257
    Image.fromarray(grey).save(below / "deep.png")
  return folder


def files_of(folder):
  return {path.relative_to(folder).as_posix(): path.read_bytes()
          for path in sorted(Path(folder).rglob("*")) if path.is_file()}


def pixels(content):
  with Image.open(io.BytesIO(content)) as picture:
    return picture.mode, np.asarray(picture), picture.getexif().get(0x0112)


def test_pixels_by_pillow_are_the_same_after_pack_and_unpack(pictures, run_command, tmp_path):
  before = files_of(pictures)
  packed = json.loads(run_command("pack", pictures, "out", "--verify", "--json").stdout)
  assert files_of(pictures) == before
  assert packed["samples"] == len(before) == 20
  assert packed["left_out"] == [] and packed["resumed_at"] == 0 and packed["shards"] == 1
  assert packed["source_bytes"] == sum(map(len, before.values()))
  assert packed["bytes"] == (tmp_path / "out/shard-00000.bin").stat().st_size
  assert packed["verified"]["compared"] == 10 and packed["verified"]["damaged"] == []
  assert sorted(os.listdir(tmp_path / "out")) == ["index", "shard-00000.bin"]

  done = run_command("unpack", "out", "again")
  assert done.stdout.startswith("wrote 20 files to again: ")
  after = files_of(tmp_path / "again")
  assert after.keys() == before.keys()
  for name, content in before.items():
    mode, array, orientation = pixels(content)
    new_mode, new_array, new_orientation = pixels(after[name])
    assert (mode, orientation) == (new_mode, new_orientation), name
    np.testing.assert_array_equal(new_array, array, err_msg=name)
    if name.lower().endswith(("jpg", "jpeg")):
      assert b"\xff\xdd\x00\x04" in after[name], name  # it has restart markers now
      assert "progressive" not in Image.open(io.BytesIO(after[name])).info
    else:
      assert after[name] == content


def test_a_tar_of_pictures_packs_to_the_same_pictures(pictures, run_command, tmp_path):
  for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
    with tarfile.open(tmp_path / f"s-{form}.tar", "w", format=form) as tar:
      for number, (name, content) in enumerate(files_of(pictures).items()):
        key = f"{'x' * 60}/{'y' * 90}/{number:04}"
        for ending, data in ((name.rpartition(".")[2], content), ("cls", str(number).encode())):
          info = tarfile.TarInfo(f"{key}.{ending}")
          info.size = len(data)
          tar.addfile(info, io.BytesIO(data))
  run_command("pack", pictures, "folder.pack")
  run_command("pack", "s-{0..2}.tar", "tar.pack")
  folder = (tmp_path / "folder.pack/shard-00000.bin").read_bytes()
  assert (tmp_path / "tar.pack/shard-00000.bin").read_bytes() == folder * 3
  run_command("unpack", "tar.pack", "again")
  assert len(files_of(tmp_path / "again")) == 60


def test_killed_at_any_time_it_resumes_to_the_same_bytes(pictures, stretto_program, run_command,
                                                         tmp_path):
  run_command("pack", pictures, "whole")
  expected = files_of(tmp_path / "whole")
  resumed = []
  for delay in (0.02, 0.05, 0.1, 0.2):
    out = tmp_path / f"out-{delay}"
    process = subprocess.Popen([stretto_program, "pack", pictures, out, "-q", "--threads", "1"],
                               stdout=subprocess.DEVNULL)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    killed = process.wait() != 0
    if (out / "index").exists() and not (out / "journal").exists():  # all was written in time
      assert files_of(out) == expected
      continue
    assert killed, "it ended well and left no finished pack"
    if (out / "journal").exists():
      assert (out / "journal").stat().st_size < 48 or (
        "was interrupted: run `stretto pack SRC" in run_command("unpack", out, "x", code=1).stderr)
    resumed.append(json.loads(run_command("pack", pictures, out, "--json").stdout)["resumed_at"])
    assert files_of(out) == expected
  print("resumed at", resumed)


def test_bad_pictures_are_named(pictures, run_command, tmp_path):
  folder = tmp_path / "mixed"
  folder.mkdir()
  (folder / "a.jpg").write_bytes((pictures / "china/deep/baseline.jpg").read_bytes())
  (folder / "b.jpg").write_bytes((folder / "a.jpg").read_bytes()[:20000])
  said = run_command("pack", folder, "out", code=1).stderr
  assert str(folder / "b.jpg") in said
  done = run_command("pack", folder, "out", "--errors", "skip")
  assert f"left out {folder / 'b.jpg'}: JPEG data" in done.stderr
  assert done.stdout.startswith("packed 1 pictures into out: 1 shard, ")
  # JSON has no form of bytes that are no UTF-8.
  (folder / "b.jpg").rename(folder / "b\udcff.jpg")
  left_out = json.loads(run_command("pack", folder, "o2", "--errors", "skip", "--json",
                                    "-q").stdout)
  assert left_out["left_out"][0]["name"].endswith("b\ufffd.jpg")


def test_what_is_no_pack_is_said_to_be_none(pictures, run_command):
  for words in (("unpack", pictures, "out"), ("pack", "--verify", pictures)):
    assert f"{pictures}: it is no pack: expected a folder" in run_command(*words, code=1).stderr
  assert "nowhere/index: cannot open" in run_command("unpack", "nowhere", "out", code=1).stderr


def test_damage_is_found(pictures, run_command, tmp_path):
  run_command("pack", pictures, "out")
  shard = tmp_path / "out/shard-00000.bin"
  content = bytearray(shard.read_bytes())
  content[len(content) // 2] ^= 1
  shard.write_bytes(content)
  done = run_command("pack", "--verify", "out", code=1)
  assert done.stdout.endswith(": 1 damaged\n")
  assert "damaged: the checksum differs" in done.stderr
  assert "the checksum differs" in run_command("unpack", "out", "again", code=1).stderr


def test_wrong_words_are_refused(pictures, run_command):
  assert "expected SRC and OUT, or --verify" in run_command("pack", pictures, code=2).stderr
  assert "it lies in the source" in run_command("pack", pictures, pictures / "x", code=2).stderr
  run_command("pack", "nothing", "out", code=1)
  run_command("pack", pictures, "out", "--kind", "tar", code=1)
  run_command("pack", pictures, "out", "--errors", "ignore", code=2)
