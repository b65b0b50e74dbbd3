"""What every verb of the command has: help with groups and exit codes, -v, -q, --json, warnings."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import model_of, value
from onnx import helper

ROOT = Path(__file__).resolve().parents[2]

VERBS = ("optimize", "infer", "bench", "inspect", "check", "convert", "run", "migrate", "pack",
         "unpack", "kernels", "operators", "peers", "doctor", "completion", "help")


@pytest.fixture
def artefact(run_command, cnn_path, tmp_path):
  run_command("optimize", cnn_path, "-o", "m.stretto", "--tuning", "off", "--threads", 1)
  return tmp_path / "m.stretto"


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_groups_and_exit_codes(verb, run_command):
  help_text = run_command(verb, "--help").stdout
  assert "General\n" in help_text or "General:\n" in help_text
  for option in ("--help", "--json", "--quiet", "--verbose"):
    assert option in help_text
  codes = help_text[help_text.index("Exit codes"):]
  for code in ("0 ", "2 ", "3 ", "130 "):
    assert f"\n  {code}" in codes
  assert max(len(line) for line in help_text.splitlines()) <= 100


def test_help_of_a_kernel_family_has_its_own_groups(run_command):
  help_text = run_command("kernels", "conv2d", "--help").stdout
  at = [help_text.find(f"\n{title}\n") for title in ("Problem", "Timing", "General", "Exit codes")]
  assert -1 not in at and at == sorted(at)


def test_optimize_help_is_grouped(run_command):
  lines = run_command("optimize", "--help").stdout.splitlines()
  titles = [line for line in lines if line and line[0].isupper() and " " not in line]
  assert titles == ["Output", "Input", "Tuning", "Accuracy", "General", "Examples"]


def test_a_misspelt_option_or_verb_is_guessed(run_command):
  said = run_command("bench", "m.onnx", "--thread", 2, code=2).stderr
  assert said.startswith("stretto: bench has no option --thread, did you mean --threads?; ")
  said = run_command("bench", "m.onnx", "n.onnx", code=2).stderr
  assert said.startswith("stretto: bench takes no further argument 'n.onnx'; ")
  assert "did you mean bench?" in run_command("bensh", code=2).stderr


def test_quiet_and_verbose_exclude_each_other(run_command):
  assert "--quiet" in run_command("inspect", "--passes", "-q", "-v", code=2).stderr


def test_without_an_output_file_optimize_says_that_nothing_is_kept(run_command, cnn_path):
  done = run_command("optimize", cnn_path, "--tuning", "off", "--threads", 1)
  assert "not kept" in done.stderr and "-o FILE.stretto" in done.stderr
  assert run_command("optimize", cnn_path, "--tuning", "off", "--threads", 1, "-q").stderr == ""


def test_verbose_names_the_stages(run_command, cnn_path):
  done = run_command("optimize", cnn_path, "-o", "m.stretto", "--tuning", "off", "-v")
  assert sum(" s  " in line for line in done.stderr.splitlines()) >= 2


@pytest.mark.parametrize("words, option", [
  (("infer", "ARTEFACT", "--input", "x=x.npy", "--tuning", "full"), "--tuning"),
  (("bench", "ARTEFACT", "--seconds", 0.05, "--no-verify"), "--no-verify"),
  (("inspect", "ARTEFACT", "--disable", "x"), "--disable"),
  (("inspect", "MODEL", "--tolerance", 1), "--tolerance"),
  (("inspect", "MODEL", "--report"), "--report"),
  (("inspect", "--passes", "--rules"), "--rules"),
  (("inspect", "--passes", "MODEL"), "source"),
  (("inspect", "--passes", "--disable", "x"), "--disable"),
  (("inspect", "MODEL", "--rules", "--before"), "--before"),
  (("inspect", "MODEL", "--bisect", "--rules"), "--rules"),
])
def test_an_option_without_effect_is_warned_about(words, option, run_command, artefact, cnn_path,
                                                  image, tmp_path):
  import numpy as np
  np.save(tmp_path / "x.npy", image)
  words = [{"ARTEFACT": artefact, "MODEL": cnn_path}.get(word, word) for word in words]
  assert f"warning: {option} has no effect" in run_command(*words).stderr
  assert run_command(*words, "-q").stderr == ""


@pytest.mark.parametrize("tolerance", ["nan", "-1"])
def test_a_tolerance_that_nothing_meets_is_refused(tolerance, run_command, cnn_path):
  words = ("inspect", cnn_path, "--bisect", f"--tolerance={tolerance}")
  assert "--tolerance" in run_command(*words, code=2).stderr


@pytest.mark.parametrize("option", ["-o", "--report"])
def test_a_file_that_cannot_be_written_is_refused_before_the_work(option, run_command, tmp_path):
  (tmp_path / "broken.onnx").write_bytes(b"no model")  # refused as soon as the work begins
  folder = tmp_path / "folder.html"
  folder.mkdir()
  done = run_command("optimize", "broken.onnx", option, "/proc/nowhere/file.html", code=1)
  assert "/proc/nowhere/file.html: cannot create: there is no folder /proc/nowhere" in done.stderr
  done = run_command("optimize", "broken.onnx", option, folder, code=1)
  assert "Is a directory" in done.stderr


def test_an_artefact_is_not_optimised_again(run_command, artefact):
  done = run_command("optimize", artefact, "--threads", 2, code=2)
  assert "already optimised" in done.stderr


def test_json_of_optimize(run_command, cnn_path, tmp_path):
  done = run_command("optimize", cnn_path, "-o", "m.stretto", "--tuning", "off", "--threads", 1,
                     "--report", "r.json", "--peers", "none", "--json")
  result = json.loads(done.stdout)
  assert result["artefact"] == "m.stretto" and result["report"] == "r.json"
  assert result["threads"] == 1 and result["weight_bytes"] > 0 and result["memory_bytes"] > 0
  assert result["latency"]["after"]["median_ms"] > 0
  assert [error["output"] for error in result["errors"]] == ["y"]
  assert result["stretto"]["name"] == "stretto" and result["peers"] == []


def test_json_of_infer(run_command, artefact, image, tmp_path):
  import numpy as np
  np.save(tmp_path / "x.npy", image)
  result = json.loads(run_command("infer", artefact, "--input", "x=x.npy", "-o", "y.npy",
                                  "--json").stdout)
  y = np.load(tmp_path / "y.npy")
  [output] = result["outputs"]
  assert output["name"] == "y" and output["shape"] == [1, 10] and output["dtype"] == "float32"
  assert output["max"] == pytest.approx(y.max()) and output["max_at"] == y.argmax()
  assert output["mean"] == pytest.approx(y.mean()) and output["nan_count"] == 0
  assert result["wrote"] == "y.npy"


def test_json_of_bench(run_command, cnn_path):
  result = json.loads(run_command("bench", cnn_path, "--threads", "1,2", "--tuning", "off",
                                  "--seconds", 0.05, "--json").stdout)
  assert result["machine"]["cores"] > 0 and result["machine"]["isa"]
  assert [entry["threads"] for entry in result["measured"]] == [1, 2]
  for entry in result["measured"]:
    ours = entry["stretto"]
    assert ours["name"] == "stretto" and ours["median_ms"] > 0 and ours["runs"] > 0
    assert entry["peers"] == []


def test_json_of_inspect(run_command, cnn_path, artefact):
  def shown(*words):
    return json.loads(run_command("inspect", *words, "--json").stdout)

  assert {"name", "summary"} == set(shown("--passes")["passes"][0])
  assert {"pass", "rule", "node"} == set(shown(cnn_path, "--rules")["rules"][0])
  assert shown(cnn_path)["stage"] == "after" and "Conv" in shown(cnn_path, "--before")["text"]
  assert shown(cnn_path, "--bisect")["culprit"] is None
  model = shown(artefact)
  assert model["inputs"] == [{"name": "x", "dtype": "float32", "shape": [1, 3, 16, 16]}]
  assert model["threads"] == 1 and model["weight_bytes"] > 0


def test_json_of_kernels(run_command):
  families = json.loads(run_command("kernels", "--json").stdout)["families"]
  softmax = next(f for f in families if f["family"] == "softmax")
  result = json.loads(run_command("kernels", "softmax", "--rows", 8, "--length", 64, "--seconds",
                                  0.02, "--json").stdout)
  assert [row["name"] for row in result["kernels"]] == softmax["kernels"]
  for row in result["kernels"]:
    assert row["seconds"] > 0 if row["fits"] else row["reason"]
  assert result["winner"] in softmax["kernels"] and result["peak_flops_per_s"] > 0


def test_json_of_operators(run_command):
  result = json.loads(run_command("operators", "--json").stdout)
  rows = {row["name"]: row for row in result["operators"]}
  assert "ai.onnx.ml.LabelEncoder" in rows and "StringConcat" in rows
  oldest, newest = result["opsets"]
  assert oldest <= 7 and newest >= 22
  conv = rows["Conv"]
  assert [port["name"] for port in conv["inputs"]] == ["X", "W", "B"]
  assert conv["inputs"][2]["arity"] == "optional" and "float32" in conv["inputs"][0]["dtypes"]
  assert {"name": "strides", "kind": "ints", "required": False} in conv["attributes"]
  assert rows["Dropout"]["becomes"] == "Identity" and rows["Softmax"]["becomes"] is None
  assert "bool" not in rows["Gemm"]["inputs"][0]["dtypes"] and "stretto.Linear" not in rows
  assert any("shape depends on data" in limit for limit in rows["Reshape"]["limits"])
  shown = run_command("operators").stdout
  assert all(f"\n{name}" in shown for name in rows)


def test_limits_name_operators_that_are_there(run_command):
  rows = json.loads(run_command("operators", "--json").stdout)["operators"]
  listed = sum(len(row["limits"]) for row in rows)
  source = (ROOT / "src/stretto/ir/ops/limits.cc").read_text()
  assert listed == source.count('      {"'), "a row of limits.cc names no operator"


def test_a_shape_that_depends_on_the_input_makes_stages_as_listed(run_command, tmp_path):
  import onnx
  from conftest import model_of, value
  model = model_of([onnx.helper.make_node("Reshape", ["x", "shape"], ["y"], "r")],
                   [value("x", [4]), value("shape", [2], onnx.TensorProto.INT64)],
                   [value("y", ["a", "b"])], {})
  onnx.save(model, tmp_path / "r.onnx")
  done = run_command("optimize", "r.onnx", "--tuning", "off", "-o", "r.stretto")
  assert "runs in stages" in done.stderr and "Reshape" in done.stderr  # made-up sizes do not fit
  np.save(tmp_path / "x.npy", np.arange(4, dtype=np.float32))
  for sizes in ((2, 2), (4, 1)):
    np.save(tmp_path / "shape.npy", np.array(sizes))
    shown = run_command("infer", "r.stretto", "--input", "x=x.npy", "--input", "shape=shape.npy")
    assert "x".join(map(str, sizes)) in shown.stdout


def test_open_dimensions_take_any_length(run_command, tmp_path):
  import onnx
  from conftest import model_of, value
  model = model_of([onnx.helper.make_node("Relu", ["x"], ["y"])], [value("x", ["n", 3])],
                   [value("y", ["n", 3])], {})
  onnx.save(model, tmp_path / "open.onnx")
  run_command("optimize", "open.onnx", "--tuning", "off", "--shape", "x=1..8x3", "-o", "o.stretto")
  for rows in (1, 2, 8):
    x = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3) - 4
    np.save(tmp_path / "x.npy", x)
    run_command("infer", "o.stretto", "--input", "x=x.npy", "-o", "y.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.maximum(x, 0))
  np.save(tmp_path / "x.npy", np.zeros((9, 3), np.float32))
  assert "x" in run_command("infer", "o.stretto", "--input", "x=x.npy", code=2).stderr
  said = run_command("bench", "o.stretto", "--input", "x=x.npy", code=2).stderr
  assert "input x: expected" in said and "9x3" in said


def test_json_of_peers(run_command):
  rows = {row["name"]: row for row in json.loads(run_command("peers", "--json").stdout)["peers"]}
  assert {"onnxruntime", "openvino", "ncnn", "mnn", "torch"} <= set(rows)
  for row in rows.values():
    assert row["installed"] == (row["version"] is not None) and row["packages"] and row["setting"]
  assert all(name in run_command("peers").stdout for name in rows)


def test_a_peer_that_fails_is_quoted(stretto_program, cnn_path, tmp_path):
  """A peer that dies while it loads: how its process ended, and the last lines it wrote."""
  package = tmp_path / "site" / "onnxruntime"
  package.mkdir(parents=True)
  (package / "__init__.py").write_text(
    "import os, sys\nprint('first line\\nno licence found', file=sys.stderr, flush=True)\n"
    "os.abort()\n")
  info = tmp_path / "site" / "onnxruntime-1.0.dist-info"
  info.mkdir()
  (info / "METADATA").write_text("Metadata-Version: 2.1\nName: onnxruntime\nVersion: 1.0\n")
  path = os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")])
  words = [stretto_program, "bench", str(cnn_path), "--tuning", "off", "--seconds", "0.05",
           "--peers", "onnxruntime"]
  environment = {**os.environ, "PYTHONPATH": path, "STRETTO_PYTHON": sys.executable}
  done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=300)
  assert done.returncode == 0, done.stderr
  assert "its process was killed by signal 6 (Aborted)" in done.stdout
  assert "onnxruntime failed; the last lines it wrote:\n  first line\n  no licence found" in (
    done.stdout)
  done = subprocess.run([*words, "--json"], capture_output=True, text=True, env=environment,
                        timeout=300)
  [entry] = json.loads(done.stdout)["measured"]
  assert entry["peers"][0]["last_words"][:2] == ["first line", "no licence found"]


def test_peers_need_python(stretto_program, tmp_path):
  done = subprocess.run([stretto_program, "peers"], capture_output=True, text=True, timeout=60,
                        env={**os.environ, "STRETTO_PYTHON": str(tmp_path / "no-python")})
  assert done.returncode == 3 and "no-python" in done.stderr


def test_check_says_which_steps_are_slow(run_command, cnn_path, tmp_path):
  assert " steps have kernels\n" in run_command("check", cnn_path).stdout
  steps = json.loads(run_command("check", cnn_path, "--json").stdout)["steps"]
  assert {"conv2d"} <= {step["kernel"] for step in steps}
  assert all(step["count"] >= 1 and step["first"] for step in steps)

  slow = model_of([helper.make_node("Hardmax", ["x"], ["s"], "largest"),
                   helper.make_node("Relu", ["s"], ["y"], "relu")],
                  [value("x", ["N", 4])], [value("y", ["N", 4])],
                  {})
  onnx.save(slow, tmp_path / "slow.onnx")
  text = run_command("check", tmp_path / "slow.onnx").stdout
  assert "1 of 2 steps have kernels, the others are interpreted, which is slow" in text
  first = json.loads(run_command("check", tmp_path / "slow.onnx", "--json").stdout)["steps"][0]
  assert (first["operator"], first["kernel"], first["first"]) == ("Hardmax", None, "largest")

  unknown = model_of([helper.make_node("Relu", ["x"], ["y"], "odd")],
                     [value("x", [4])], [value("y", [4])], {})
  unknown.graph.node[0].op_type, unknown.graph.node[0].domain = "Strange", "elsewhere"
  onnx.save(unknown, tmp_path / "odd.onnx")
  assert "elsewhere.Strange (1 node" in run_command("check", tmp_path / "odd.onnx", code=1).stderr
