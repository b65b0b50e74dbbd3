"""python -m stretto.data: a page of what a model sees, and what loading costs."""

import base64
import io
import json
import re
import shutil
import subprocess
import sys

import data_pictures
import numpy as np
import pytest
from PIL import Image

from stretto import data
from stretto.data import _peers


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  path = tmp_path_factory.mktemp("pictures")
  data_pictures.write_folder(path, 20, seed=5)
  return path


def look(*words, code=0):
  done = subprocess.run([sys.executable, "-m", "stretto.data", *map(str, words)],
                        capture_output=True, text=True, timeout=120)
  assert done.returncode == code, done.stdout + done.stderr
  return done.stdout + done.stderr


def test_the_page_shows_what_the_loader_gives(folder, tmp_path):
  look("show", folder, "-o", tmp_path / "page.html", "--count", "6", "--size", "48", "--seed", "3",
       "--epoch", "2")
  text = (tmp_path / "page.html").read_text()
  pictures = [np.asarray(Image.open(io.BytesIO(base64.b64decode(match))))
              for match in re.findall(r"data:image/png;base64,([^\"]+)", text)]
  with data.ImageLoader(folder, 6, 48, dtype="uint8", layout="NHWC", seed=3) as loader:
    loader.set_epoch(2)
    images, labels = next(iter(loader))
    assert np.array_equal(np.stack(pictures), images)
    for sample, label in zip(loader.samples, labels):
      assert loader.dataset.name(int(sample)) in text and f"{label}: class{label}" in text
  assert "http" not in text


def test_loading_is_timed(folder):
  result = json.loads(look("bench", folder, "--size", "32", "--batch", "5", "--seconds", "0.3",
                           "--step-ms", "20", "--threads", "1", "--json", "--peers", "none"))
  # Four batches of five take at least 80 ms of steps.
  assert 0 < result["pictures_per_s"] < 250 and result["seconds"] >= 0.3
  assert result["pictures_per_thread_s"] > 0 and result["stages_s"]["decoding"] > 0
  assert result["peers"] == []
  text = look("bench", folder, "--size", "32", "--batch", "5", "--seconds", "0.2", "--peers",
              "none")
  assert "pictures/s" in text and "decoding" in text and "waits for" in text


def test_other_loaders_are_timed_on_the_same_files(folder, tmp_path):
  words = "bench", folder, "--size", "32", "--batch", "5", "--seconds", "0.2"
  rows = {row["name"]: row for row in json.loads(look(*words, "--json"))["peers"]}
  for name in ("stretto", "pillow"):
    assert rows[name]["pictures_per_s"] > 0, rows[name]
  assert re.search(r"pillow +[0-9,]+ pictures/s +[0-9.]+ x ", look(*words))
  # One that fails says why. PIL has nothing to say of a file that is no picture.
  broken = tmp_path / "broken"
  broken.mkdir()
  (broken / "a.jpg").write_bytes(b"no picture")
  (entry,) = (row for row in _peers.compare(str(broken), [str(broken / "a.jpg")], 32, 1, 0.1)
              if row["name"] == "pillow")
  assert "cannot identify image file" in entry["failed"]


def test_names_that_are_no_utf8_are_shown(tmp_path):
  folder = tmp_path / "pictures"
  (folder / "a\nb").mkdir(parents=True)
  Image.new("RGB", (9, 7)).save(folder / "a\nb" / "x.png")
  (folder / "a\nb" / "x.png").rename(folder / "a\nb" / "f\udcff<.png")
  look("show", folder, "-o", tmp_path / "page.html", "--size", "8")
  assert r"f\xff&lt;.png" in (tmp_path / "page.html").read_text()


def test_what_is_left_out_is_said(folder, tmp_path):
  both = tmp_path / "both"
  shutil.copytree(folder, both)
  for name in ("x.png", "y.png"):
    Image.new("RGB", (9, 7)).save(both / name)
  said = look("bench", both, "--size", "32", "--batch", "5", "--seconds", "0.1", "--peers", "none")
  assert f"stretto: warning: {both}: 2 pictures beside the folders of classes are left out" in said


def test_what_is_missing_is_named(tmp_path):
  assert "nowhere" in look("bench", tmp_path / "nowhere", code=1)


def test_the_command_hands_over(run_command, folder, tmp_path):
  run_command("data", "show", folder, "-o", tmp_path / "page.html", "--count", "2", "--size", "16")
  assert (tmp_path / "page.html").read_text().count("<figure>") == 2
  done = run_command("data", "bench", folder, "--size", "16", "--batch", "4", "--seconds", "0.2",
                     "--validation", "--json")
  assert json.loads(done.stdout)["batch"] == 4
  assert "--step-ms" in run_command("help", "data", "bench").stdout
  done = run_command("data", "show", folder, "-o", "p.html", "--count", "3", "--json")
  assert json.loads(done.stdout) == {"page": "p.html", "pictures": 3}
  run_command("data", "show", folder, code=2)
