"""The commands of docs/howto/cluster.md: three kinds of node, a job across unlike chips, and an
urgent one that preempts and gives back."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cluster_slurm import Cluster, short_folder

from stretto.cluster import _programs

pytest.importorskip("torch")
pytest.importorskip("sklearn")
if _programs.missing():
  pytest.skip("Slurm's daemons are not installed", allow_module_level=True)

ROOT = Path(__file__).parent.parent.parent
SECTION = "## An urgent job takes chips, and gives them back"
LIMIT_S = 480  # against hanging for ever; on two idle cores it takes 53 s


def commands():
  text = (ROOT / "docs/howto/cluster.md").read_text()
  section = text[text.index(SECTION):].split("\n## ")[0]
  return "\n".join(re.findall(r"```bash\n(.*?)```", section, re.DOTALL))


def test_the_commands_of_the_page_do_what_it_says(stretto_program, tmp_path):
  shutil.copytree(ROOT / "examples", tmp_path / "examples",
                  ignore=shutil.ignore_patterns("__pycache__"))
  tools = tmp_path / "bin"
  tools.mkdir()
  (tools / "stretto").symlink_to(stretto_program)
  with short_folder() as state:
    cluster = Cluster(state, tmp_path, {"STRETTO_PYTHON": sys.executable,
                                        "PATH": f"{tools}:{os.environ['PATH']}"})
    begin = time.monotonic()
    try:
      done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", commands()], cwd=tmp_path,
                            env=cluster.environment, capture_output=True, text=True,
                            timeout=LIMIT_S, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as late:
      pytest.fail(f"no end after {LIMIT_S} s\n{late.stdout!r}\n{late.stderr!r}")
    finally:
      cluster.run("down")
    assert done.returncode == 0, done.stdout + done.stderr
    print(f"{time.monotonic() - begin:.1f} s")
    out = done.stdout
    assert "[0] epoch  4  loss" in out
    assert re.search(r"[\d.]+ s on 4 ranks", out)
    assert re.search(r"^\d+ +urgent1 +running", out, re.MULTILINE)
    saved = re.search(r"\[0\] saved epoch (\d), step (\d+)", out)
    went_on = re.search(r"\[0\] goes on at epoch (\d), step (\d+)", out)
    assert saved and went_on and int(went_on[2]) == int(saved[2]) + 1
    assert "the job was preempted; start 2" in out
    accuracy = float(re.findall(r"\[0\] epoch  4  accuracy ([\d.]+)", out)[-1])
    assert accuracy > 0.75  # an uninterrupted run on two ranks has 0.92
    assert (tmp_path / "results/digits.pt").stat().st_size > 1e6
    assert cluster.processes() == []
