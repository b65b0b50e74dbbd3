"""Wrong usage of the command: refused at once, with what is wrong and what there is."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

OFF = ("--tuning", "off", "--threads", 1)


def test_general_options_stand_before_the_verb_too(run_command, cnn_path):
  assert run_command("-q", "optimize", cnn_path, *OFF).stderr == ""
  assert " s  " in run_command("--verbose", "optimize", cnn_path, *OFF).stderr
  assert json.loads(run_command("--json", "inspect", "--passes").stdout)["passes"]
  assert "--verbose excludes --quiet" in run_command("-q", "inspect", "--passes", "-v",
                                                     code=2).stderr
  dry = json.loads(run_command("--json", "run", "-n", 2, "--dry-run", "x.py").stdout)
  assert dry["commands"]


@pytest.mark.parametrize("words", [(), ("-q",)])
def test_without_a_verb_the_verbs_are_listed(words, run_command):
  assert "stretto needs a verb: optimize, infer, " in run_command(*words, code=2).stderr


def test_a_misspelt_verb_behind_an_option_is_guessed(run_command):
  assert "did you mean optimize?" in run_command("-q", "optimise", code=2).stderr
  assert "stretto has no option --frob" in run_command("--frob", "optimize", "m.onnx",
                                                       code=2).stderr


def test_two_dashes_end_the_options(run_command, cnn_path, tmp_path):
  (tmp_path / "-m.onnx").write_bytes(cnn_path.read_bytes())
  assert "-m: 1 thread" in run_command("optimize", *OFF, "--", "-m.onnx").stdout
  assert "takes no further argument 'k'" in run_command("optimize", "--", "m.onnx", "k",
                                                        code=2).stderr


@pytest.mark.parametrize("text, said", [
  ("[optimize]\nfoo = 3\n", "c.toml:2: optimize has no option foo"),
  ("[optimize]\n\ntunning = 'off'\n", "c.toml:3: optimize has no option tunning, did you mean "
                                      "tuning?"),
  ("[optimise]\n", "c.toml:1: stretto has no 'optimise', did you mean optimize?"),
  ("[kernels.conv3d]\nthreads = 1", "c.toml:1: kernels has no 'conv3d'"),
  ("[bench]\nfoo = 3\n", "c.toml:2: bench has no option foo"),
  ("[run]\nn = 3\n", "c.toml:1: 'run' takes its options from the command line only"),
  ("[optimize]\nthreads = [1, 2]\n", "c.toml:2: threads takes one value, got 2"),
  ("[optimize", "c.toml:1: expected ']'"),
  ("[optimize]\ntuning = off\n", "c.toml:2: expected a value"),
  ("[optimize]\nthreads = 'x'\n", "--threads: 'x' is not a whole number"),
  ("\x7fELF\n", "c.toml:1: expected a key"),
])
def test_a_file_of_options_that_is_wrong_is_refused(text, said, run_command, cnn_path, tmp_path):
  (tmp_path / "c.toml").write_text(text)
  assert said in run_command("--config", "c.toml", "optimize", cnn_path, code=2).stderr


def test_a_file_of_options_is_obeyed_and_the_command_line_wins(run_command, cnn_path, tmp_path):
  (tmp_path / "c.toml").write_text("quiet = true\n[optimize]\nthreads = 2\ntuning = 'off'\n"
                                   "disable = ['fuse-epilogue']\n[bench]\nthreads = [1, 2]\n")
  done = run_command("--config", "c.toml", "optimize", cnn_path)
  assert "2 threads" in done.stdout and done.stderr == ""
  assert "1 thread," in run_command("--config", "c.toml", "optimize", cnn_path, "--threads",
                                    1).stdout


@pytest.mark.parametrize("name", ["nope.toml", "."])
def test_a_file_of_options_that_cannot_be_read_is_refused(name, run_command, cnn_path):
  assert f"--config: {name} cannot be read" in run_command("--config", name, "inspect", cnn_path,
                                                           code=2).stderr


@pytest.mark.parametrize("words, said", [
  (("--input", "x=x.npy", "--input", "x=x.npy"), "--input: x is given twice"),
  (("--shape", "x=1", "--shape", "x=2"), "--shape: x is given twice"),
  (("--force", "conv2d=direct", "--force", "conv2d=direct"), "--force: conv2d is given twice"),
  (("--threads", 1, "--threads", 2), "--threads is given twice"),
])
def test_an_option_of_which_one_counts_is_not_given_twice(words, said, run_command, cnn_path, image,
                                                          tmp_path):
  np.save(tmp_path / "x.npy", image)
  assert said in run_command("optimize", cnn_path, *words, code=2).stderr


@pytest.mark.parametrize("verb", ["optimize", "bench"])
def test_an_unknown_peer_is_refused_before_the_work(verb, run_command, tmp_path):
  (tmp_path / "broken.onnx").write_bytes(b"no model")  # refused as soon as the work begins
  said = run_command(verb, "broken.onnx", "--peers", "onnxruntime,fooo", code=2).stderr
  assert "fooo: no such peer; there are onnxruntime, openvino" in said
  said = run_command(verb, "broken.onnx", "--peers", "none,onnxruntime", code=2).stderr
  assert "'none' stands alone" in said


@pytest.mark.parametrize("words", [("peers",), ("run", "--help"), ("run", "x.py"),
                                   ("optimize", "m.onnx", "--peers", "torch")])
def test_without_the_package_it_is_named_with_its_remedy(words, stretto_program, tmp_path):
  """A Python that starts and has no stretto package: -S and -E leave its own library."""
  python = tmp_path / "python"
  python.write_text(f"#!/bin/sh\nexec {sys.executable} -S -E \"$@\"\n")
  python.chmod(0o755)
  done = subprocess.run([stretto_program, *words], capture_output=True, text=True, timeout=60,
                        cwd=tmp_path, env={**os.environ, "STRETTO_PYTHON": str(python)})
  assert done.returncode == 3, done.stderr
  assert done.stderr == (f"stretto: {python} cannot import the stretto package, which runs peers "
                         f"and ranks: {python} -m pip install stretto\n")


@pytest.mark.parametrize("words", [
  ("optimize", "MODEL"), ("infer", "ARTEFACT"), ("bench", "ARTEFACT"), ("inspect", "MODEL"),
  ("inspect", "ARTEFACT"), ("kernels", "softmax"),
])
def test_an_unknown_instruction_set_is_refused_by_its_variable(words, stretto_program, run_command,
                                                               cnn_path, tmp_path):
  run_command("optimize", cnn_path, "-o", "m.stretto", *OFF)
  words = [{"MODEL": str(cnn_path), "ARTEFACT": "m.stretto"}.get(word, word) for word in words]
  done = subprocess.run([stretto_program, *words], capture_output=True, text=True, timeout=60,
                        cwd=tmp_path, env={**os.environ, "STRETTO_ISA": "foo"})
  assert done.returncode == 2
  assert done.stderr == ("stretto: STRETTO_ISA: expected portable, avx2 or avx512, got 'foo'\n")


@pytest.mark.parametrize("words, said", [
  (("conv2d", "--channels", -5), "--channels: -5 is not in the range 0 to 1048576"),
  (("conv2d", "--kernel", 99999999999), "--kernel: 99999999999 is not in the range 1 to 4096"),
  (("conv2d", "--dilation", 1000000000), "--dilation: 1000000000 is not in the range 1 to 4096"),
  (("conv2d", "--stride", "0x1"), "--stride: 0 is not in the range 1 to 4096"),
  (("conv2d", "--pad", -1), "--pad: expected numbers"),
  (("conv2d", "--pad", "1x2x3"), "--pad: expected same, one number, two like 1x2"),
  (("conv2d", "--pad", "1x2x3x4x5"), "or four like 0x0x1x2 (top, left, bottom, right)"),
  (("conv2d", "--input", "1x0x8x8"), "--input: expected NxCxHxW, each at least 1"),
  (("conv2d", "--input", "1x3x2000000000x2000000000"), "--input: a tensor of 1e+19 elements"),
  (("conv_transpose2d", "--input", "1x0x8x8"), "--input: expected NxCxHxW, each at least 1"),
  (("matmul", "--batch", 10000000, "-m", 10000000), "--batch, -m and -k: a tensor of 6e+15"),
  (("attention", "--queries", 1048576, "--keys", 1048576), "a tensor of 1e+13 elements"),
  (("softmax", "--rows", 1073741824, "--length", 1073741824), "--rows and --length: a tensor"),
  (("gemm", "-m", "x"), "-m: 'x' is not a whole number"),
])
def test_sizes_that_are_wrong_are_refused_by_their_option(words, said, run_command):
  assert said in run_command("kernels", *words, code=2).stderr
