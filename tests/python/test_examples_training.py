"""The training examples, as a user would start them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")

EXAMPLES = Path(__file__).parent.parent.parent / "examples/python"


def stretto(*words: str) -> str:
  done = subprocess.run([sys.executable, "-m", "stretto", "run", "-n", "2", *words],
                        capture_output=True, text=True, timeout=300)
  assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
  return done.stdout


def test_digits_are_learnt_and_drawn(tmp_path):
  runs = []
  for codec in ("none", "int8"):
    runs.append(tmp_path / f"{codec}.json")
    stretto("--codec", codec, str(EXAMPLES / "train_digits.py"), "--epochs", "4", "--out",
            str(runs[-1]))
    run = json.loads(runs[-1].read_text())
    assert (run["backend"], run["codec"], run["ranks"]) == ("stretto", codec, 2)
    assert len(run["loss"]) == len(run["accuracy"]) == 4
    # Four epochs take the loss from about 2 to about 0.2, give or take a third between seeds.
    assert run["loss"][-1] < 0.5 and run["accuracy"][-1] > 0.85
  page = tmp_path / "curves.html"
  subprocess.run([sys.executable, EXAMPLES / "curves.py", *runs, "-o", page], check=True)
  text = page.read_text()
  assert text.count("<polyline") == 4
  assert "stretto int8, 2 ranks" in text and "stretto, 2 ranks" in text


def test_unlike_ranks_learn_what_one_process_learns(tmp_path):
  script = EXAMPLES.parent / "cluster/train_unlike.py"
  losses = {}
  for shares in ("alone", "equal", "proportional"):
    out = tmp_path / f"{shares}.json"
    words = [str(script), "--epochs", "2", "--width", "8", "--out", str(out)]
    if shares == "alone":
      subprocess.run([sys.executable, *words], check=True, timeout=300)
    else:
      printed = stretto(*words, "--shares", shares, "--probe", str(tmp_path / "probe.json"))
      assert "samples/s" in printed and "from batch 0: shares " in printed
    run = json.loads(out.read_text())
    assert [sum(entry["shares"]) for entry in run["history"]] == [256] * len(run["history"])
    losses[shares] = run["loss"]
  assert len(losses["alone"]) == 12  # of 1437 images, in batches of 256
  for shares in ("equal", "proportional"):
    # fp32 sums in another order; over 12 steps that stays far below what a wrong weight would do.
    assert losses[shares] == pytest.approx(losses["alone"], abs=1e-4)
  records = json.loads((tmp_path / "probe.json").read_text())["speeds"]
  assert {record["batch"] for record in records} == {32, 128}


def test_a_script_written_for_horovod_runs_with_another_import():
  lines = [line for line in stretto(str(EXAMPLES / "train_digits_horovod.py")).splitlines()
           if line.startswith("epoch")]
  assert len(lines) == 8
  # Between 0.8 and 0.95 from the fourth epoch on.
  assert float(lines[-1].split()[-1]) > 0.75
