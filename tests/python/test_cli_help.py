"""`stretto help`: the command as data, its environment variables, and shell completion."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stretto import _launch_options as launch_options

ROOT = Path(__file__).resolve().parents[2]
VARIABLE = re.compile(r"""["'](STRETTO_[A-Z0-9_]+)["']""")


@pytest.fixture
def described(run_command):
  return json.loads(run_command("help", "--json").stdout)


def commands(command):
  yield command
  for sub in command["commands"]:
    yield from commands(sub)


def test_help_json_has_every_verb_and_option(run_command, described):
  verbs = {c["name"].split()[-1]: c for c in described["commands"]}
  listed = run_command("--help").stdout
  assert described["version"] in run_command("--version").stdout
  for name, verb in verbs.items():
    assert f"\n  {name} " in listed
    assert verb["summary"] and {code["code"] for code in verb["exit_codes"]} >= {"0", "2", "130"}
    shown = run_command(name, "--help").stdout
    for option in verb["options"]:
      assert option["text"] and (option["group"] or option["positional"]), option
      for word in option["names"]:
        assert word in shown, f"{name} --help lacks {word}"
  assert {"optimize", "run", "doctor", "help"} <= set(verbs)
  accuracy = next(o for o in verbs["optimize"]["options"] if o["names"] == ["--accuracy"])
  assert accuracy["choices"] == ["strict", "default", "fast"] and accuracy["default"] == "default"
  assert verbs["run"]["options"] and verbs["run"]["examples"]


def test_every_text_of_the_help_reads_alike(described):
  for command in commands(described):
    assert command["summary"][0].isupper() and not command["summary"].endswith(".")
    for option in command["options"]:
      assert not option["text"].endswith("."), option


def test_help_of_a_verb_is_its_help(run_command):
  assert run_command("help", "bench").stdout == run_command("bench", "--help").stdout
  assert run_command("help", "kernels", "gemm").stdout == (
    run_command("kernels", "gemm", "--help").stdout)
  assert "there are: optimize" in run_command("help", "frobnicate", code=2).stderr


def variables_read():
  """STRETTO_* names in string literals of what ships, tests left out."""
  found = {}
  for folder in ("src", "cli", "python"):
    for path in (ROOT / folder).rglob("*"):
      if path.suffix in (".cc", ".h", ".py") and not path.name.endswith("_test.cc"):
        for name in VARIABLE.findall(path.read_text()):
          found.setdefault(name, []).append(str(path.relative_to(ROOT)))
  return found


def test_every_variable_that_is_read_is_listed(run_command):
  listed = json.loads(run_command("help", "environment", "--json").stdout)["environment"]
  names = [row["name"] for row in listed]
  assert len(set(names)) == len(names)
  own = {"STRETTO_PRESET", "STRETTO_JOBS", "STRETTO_BUILD"}  # of ./dev and the tests
  read = variables_read()
  missing = {name: places for name, places in read.items() if name not in {*names, *own}}
  assert not missing, "add a row to cli/environment.cc"
  tables = {"cli/environment.cc"}
  unread = [n for n in names if not set(read.get(n, [])) - tables]
  assert not unread, "nothing reads these"
  shown = run_command("help", "environment").stdout
  for row in listed:
    assert row["meaning"] and f"\n  {row['name']}" in shown


def complete(script, line, folder):
  """What bash offers for the last word of `line`."""
  words = re.split(r"(=)|\s", line)
  words = [w for w in words if w is not None and w != ""] + ([""] if line.endswith(" ") else [])
  quoted = " ".join(f"'{w}'" for w in words)
  done = subprocess.run(
    ["bash", "--norc", "-c", f"source {script}\nCOMP_WORDS=({quoted})\n"
     f"COMP_CWORD={len(words) - 1}\n_stretto\nprintf '%s\\n' \"${{COMPREPLY[@]}}\""],
    capture_output=True, text=True, cwd=folder, timeout=60)
  assert done.stderr == ""
  return done.stdout.split()


@pytest.fixture
def bash_script(run_command, tmp_path):
  path = tmp_path / "completion.bash"
  path.write_text(run_command("completion", "bash").stdout)
  return path


@pytest.mark.parametrize("line, offered", [
  ("stretto opt", ["optimize"]),
  ("stretto optimize --tun", ["--tuning", "--tuning-cache"]),
  ("stretto optimize --accuracy ", ["strict", "default", "fast"]),
  ("stretto optimize --accuracy=st", ["strict"]),
  ("stretto optimize m.onnx --tuning f", ["full"]),
  ("stretto bench --peers onnxruntime,openvino-", ["onnxruntime,openvino-default"]),
  ("stretto kernels conv", ["conv2d", "conv_transpose2d"]),
  ("stretto kernels conv2d --input-layout b", ["blocked"]),
  ("stretto run --codec p", ["powersgd"]),
  ("stretto run --rdzv-e", ["--rdzv-endpoint"]),
  ("stretto completion z", ["zsh"]),
  ("stretto help doc", ["doctor"]),
  ("stretto optimize mod", ["model.onnx"]),
  ("stretto infer --inputs dat", ["data.npz"]),
])
def test_bash_completes(line, offered, bash_script, tmp_path):
  folder = tmp_path / "files"
  folder.mkdir()
  for name in ("model.onnx", "data.npz"):
    (folder / name).touch()
  assert complete(bash_script, line, folder) == offered


def test_bash_offers_every_verb_and_option(bash_script, described, tmp_path):
  verbs = [command["name"].split()[-1] for command in described["commands"]]
  assert sorted(complete(bash_script, "stretto ", tmp_path)) == sorted(verbs)
  for command in commands(described):
    names = {n for o in command["options"] if not o["positional"] for n in o["names"]}
    assert set(complete(bash_script, command["name"] + " -", tmp_path)) == names


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_know_every_verb_and_option(shell, run_command, described):
  script = run_command("completion", shell).stdout
  for command in commands(described):
    assert command["name"].split()[-1] in script
    for option in command["options"]:
      for name in option["names"] if not option["positional"] else []:
        if shell == "zsh":
          assert f"*{name}[" in script
        else:
          flag = f" -l {name[2:]} " if name.startswith("--") else f" -s {name[1:]} "
          assert flag in script
  for codec in launch_options.CODECS.split("|"):
    assert codec in script


def test_without_the_package_the_options_of_run_are_missing_and_said_to_be(stretto_program,
                                                                           tmp_path):
  done = subprocess.run([stretto_program, "help", "--json"], capture_output=True, text=True,
                        env={**os.environ, "STRETTO_PYTHON": str(tmp_path / "no-python")},
                        timeout=60)
  assert done.returncode == 0 and "options of 'run' are missing" in done.stderr
  run = next(c for c in json.loads(done.stdout)["commands"] if c["name"] == "stretto run")
  assert run["options"] == []


def test_the_package_has_the_same_command(run_command):
  done = subprocess.run([sys.executable, "-m", "stretto", "help", "--json"], capture_output=True,
                        text=True, timeout=60)
  assert done.stdout == run_command("help", "--json").stdout
