"""`stretto migrate` as a command: what it prints, writes and refuses."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("libcst", reason="libcst is not installed: ./dev setup installs it")

from stretto.migrate import migrate  # noqa: E402
from stretto.migrate._rules import RULES  # noqa: E402

from stretto import InvalidArgumentError  # noqa: E402

HERE = Path(__file__).parent
TIMEOUT_S = 840  # a guard against hanging for ever; pytest has one of 900 s per test


def text(name):
  return (HERE / "migrate" / f"{name}.py").read_text()


@pytest.mark.parametrize("line, why", [
  ("import horovod.torch as hvd", "Horovod"), ("from accelerate import Accelerator", "Accelerate"),
  ("import lightning as L", "Lightning"), ("import deepspeed", "DeepSpeed"),
  ("torch.distributed.init_process_group('nccl')", "init_process_group() in line 2"),
  ("m = torch.nn.parallel.DistributedDataParallel(m)", "DistributedDataParallel")])
def test_distributed_scripts_are_recognised(line, why):
  source = f"import torch\n{line}\nloss.backward()\n"
  found = migrate(source)
  assert why in found.distributed and found.source == source


@pytest.mark.parametrize("source, complaint", [
  ("print(1)\n", "has no backward()"), ("def f(:\n", "line 1: this is no Python"),
  ("sampling = 3\nloader = torch.utils.data.DataLoader(s, shuffle=True)\nfor e in range(3):\n"
   "  for x in loader:\n    x.backward()\nimport torch\n", "a sampling of its own")])
def test_bad_input(source, complaint):
  with pytest.raises(InvalidArgumentError, match=re.escape(complaint)):
    migrate(source)


def test_an_unknown_backend():
  with pytest.raises(InvalidArgumentError, match="one of auto, stretto, gloo, nccl, got mpi"):
    migrate("", backend="mpi")
  assert 'backend = "gloo"' in migrate(text("stream"), backend="gloo").source
  assert "import stretto" not in migrate(text("stream"), backend="gloo").source


def test_indentation_and_ends_of_lines_stay():
  source = text("stream").replace("    ", "\t").replace("\n", "\r\n")
  new = migrate(source).source
  assert "\r\n\tmodel = DistributedDataParallel(model)\r\n" in new
  assert "\n" not in new.replace("\r\n", "") and "    " not in new


def test_every_rule_says_what_it_does():
  assert len({rule.name for rule in RULES}) == len(RULES)
  page = (HERE.parents[1] / "docs/howto/migrate.md").read_text()
  for rule in RULES:
    assert f"| {rule.name} |" in page, "docs/howto/migrate.md has a row for each rule"


def command(*words, code=0, **options):
  done = subprocess.run([sys.executable, "-m", "stretto.migrate", *map(str, words)],
                        capture_output=True, text=True, timeout=TIMEOUT_S, **options)
  assert done.returncode == code, done.stdout + done.stderr
  return done


def test_the_command_changes_nothing_unless_told(tmp_path):
  script = tmp_path / "train.py"
  script.write_text(text("stream"))
  done = command(script)
  assert script.read_text() == text("stream") and list(tmp_path.iterdir()) == [script]
  assert "+    model = DistributedDataParallel(model)" in done.stdout and "\x1b" not in done.stdout
  assert "No file was changed" in done.stderr and "Nothing is left to do by hand" in done.stderr


def test_the_diff_is_one_that_patch_takes(tmp_path):
  script = tmp_path / "train.py"
  script.write_text(text("gan"))
  patch = command(script, "--diff").stdout
  subprocess.run(["git", "apply", "-p1"], input=patch, text=True, cwd=tmp_path, check=True)
  assert script.read_text() == migrate(text("gan")).source


def test_in_place_keeps_the_rights_and_a_link(tmp_path):
  script, link = tmp_path / "real.py", tmp_path / "train.py"
  script.write_text(text("stream"))
  script.chmod(0o755)
  link.symlink_to(script)
  command(link, "--in-place")
  assert link.is_symlink() and script.stat().st_mode & 0o777 == 0o755
  assert script.read_text() == migrate(text("stream")).source
  again = command(link, "--in-place")
  assert "distributed already" in again.stderr
  assert script.read_text() == migrate(text("stream")).source
  assert sorted(p.name for p in tmp_path.iterdir()) == ["real.py", "train.py"]


def test_json_and_errors_of_the_command(tmp_path):
  script = tmp_path / "train.py"
  script.write_text(text("stream"))
  found = json.loads(command(script, "--json", "-o", tmp_path / "new.py").stdout)
  assert found["source"] == (tmp_path / "new.py").read_text()
  assert found["by_hand"] == [] and {"line", "rule", "text"} == set(found["done"][0])
  assert "absent.py: there is no such file" in command(tmp_path / "absent.py", code=2).stderr
  done = command(script, "-o", tmp_path / "no" / "x.py", code=2)
  assert "no: there is no such folder" in done.stderr
  script.write_bytes(b"\xff\xfe\x00")
  assert "this is no Python text" in command(script, code=2).stderr


def test_without_libcst_it_says_what_to_install(tmp_path):
  (tmp_path / "libcst.py").write_text("raise ImportError('no')\n")
  script = tmp_path / "train.py"
  script.write_text(text("stream"))
  path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
  done = command(script, code=1, env={**os.environ, "PYTHONPATH": path})
  assert "pip install 'stretto[migrate]'" in done.stderr


def test_stretto_run_starts_the_result(tmp_path):
  (tmp_path / "train.py").write_text(migrate(text("module_level")).source)
  done = subprocess.run([sys.executable, "-m", "stretto._launch", "-n", "2", "train.py"],
                        cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S)
  assert done.returncode == 0, done.stderr
  assert done.stdout.count("epoch") == 4 and (tmp_path / "net.pth").exists()
