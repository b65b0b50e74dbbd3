"""bench.unlike's tables, and bench.slowed, which must leave no stopped process behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

from bench import unlike  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def test_ratios_are_of_cases_in_the_same_round():
  def result(speed, off=0.0):
    return {"samples_per_s": speed, "loss_off": off, "loss": [1.0, 0.5],
            "history": [{"shares": [224, 32]}]}

  rounds = [{"fast chip alone": result(100.0), "equal shares": result(25.0),
             "proportional shares": result(110.0, 1e-6)},
            {"fast chip alone": result(200.0), "equal shares": result(100.0),
             "proportional shares": result(240.0)}]
  found = unlike.summary(rounds)["proportional shares"]
  assert found == {"samples_per_s": 175.0, "of_equal": pytest.approx((4.4 + 2.4) / 2),
                   "of_alone": pytest.approx((1.1 + 1.2) / 2), "loss_off": 1e-6}
  machine = {"cpu": "a", "cores": 2}
  page = unlike.page({"rounds": rounds, "machine": machine,
                      "options": {"batch": 256, "width": 8, "prefix": "nice -n -20"}})
  page = page.replace("\n", " ")
  assert "| proportional shares | 175 | 3.40x | 1.15x | 1.0e-06 |" in page
  assert "each behind `nice -n -20`" in page
  assert "at last 224 and 32 samples" in page
  assert "they were 2.40 to 4.40 times equal shares, and 1.10 to 1.20 times the fast" in page


def slowed(tmp_path, text, share="0.5"):
  script = tmp_path / "script.py"
  script.write_text(text)
  return subprocess.Popen([sys.executable, "-m", "bench.slowed", share, str(script), "a", "b"],
                          cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.parametrize("share", ["1", "0.5"])
def test_the_script_gets_its_arguments_and_its_exit_code_counts(tmp_path, share):
  done = slowed(tmp_path, "import sys; print(sys.argv[1:], flush=True); sys.exit(7)", share)
  assert done.communicate(timeout=120)[0].splitlines()[-1] == "['a', 'b']"
  assert done.returncode == 7


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_script_does_not_outlive_its_holder(tmp_path, number):
  done = slowed(tmp_path, "import os, time; print(os.getpid(), flush=True); time.sleep(300)", "0.1")
  pid = int(done.stdout.readline())
  done.send_signal(number)
  done.wait(60)
  end = time.monotonic() + 60
  while Path(f"/proc/{pid}").exists() and "Z" not in state(pid) and time.monotonic() < end:
    time.sleep(0.05)
  assert state(pid) in ("", "Z"), "it is still there"


def state(pid):
  try:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
  except OSError:
    return ""


def test_wrong_parts_of_the_time_are_refused(tmp_path):
  done = slowed(tmp_path, "", "1.5")
  assert "expected a part of the time" in done.communicate(timeout=120)[0]
  assert done.returncode == 1 and os.path.exists(tmp_path / "script.py")
