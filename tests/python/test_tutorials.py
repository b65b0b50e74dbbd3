"""Scripts in the shape of PyTorch's tutorials and examples, in which only the backend has another
name. They give what Gloo gave: `SCRIPT gloo SIZE PORT` prints it. Gloo does not run here,
because it sometimes aborts or hangs when such a job ends on a busy machine."""

import json
import subprocess
import sys
from pathlib import Path

import conftest
import pytest

pytest.importorskip("torch", reason="the backend is for torch, which is not installed")
pytest.importorskip("sklearn")

HERE = Path(__file__).parent / "tutorials"
TIMEOUT_S = 240  # a guard against hanging for ever
# Sums in another order, and other processors: a few roundings of fp32, grown over ninety steps.
TOLERANCE = 2e-3

# Script, size of the job, and per result the values of Gloo (torch 2.13, Xeon).
SCRIPTS = [
  ("ddp_toy.py", 2, {
    "basic": [16.174631, 1.590545, 7.6062, 0.646485],
    "checkpoint": [14.515853, 1.707802, 7.606719, 0.721511]}),
  ("basics.py", 3, {
    "collectives": [0.0, 1.0, 2.0, 3.0],
    "training": [0.500455, 0.451273, 0.388171, 0.328524, 0.278078, 0.237242, 0.20463, 0.178571,
                 0.157612, 0.14061]}),
  ("sharded_digits.py", 2, {
    "fsdp state": [349.792114, 4.625776, 70.323715, 0.626064],
    "fsdp": [0.869581, 0.880979],
    "zero": [0.869581, 0.880979]}),
]


@pytest.mark.parametrize("script, size, want", SCRIPTS, ids=[script for script, *_ in SCRIPTS])
def test_gives_what_gloo_gave(script, size, want):
  done = subprocess.run([sys.executable, str(HERE / script), "stretto", str(size),
                         str(conftest.free_port())], capture_output=True, text=True,
                        timeout=TIMEOUT_S)
  assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
  lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
  got = {line["name"]: line["values"] for line in lines}
  assert list(got) == list(want)
  for name, values in want.items():
    assert got[name] == pytest.approx(values, rel=TOLERANCE, abs=TOLERANCE), name
