"""What the command writes: refused before the work where it would replace something, or cannot be
written; and what happens where standard output or standard error cannot."""

import os
import shlex
import subprocess
import sys
import threading

import numpy as np
import onnx
import pytest
from conftest import two_by_two_model

OFF = ("--tuning", "off", "--threads", 1)


@pytest.fixture
def model(cnn, tmp_path):
  onnx.save(cnn, tmp_path / "m.onnx")
  return tmp_path / "m.onnx"


@pytest.fixture
def shell(stretto_program, tmp_path):
  """Runs a line of bash in which $stretto is the program."""
  def run(line, code):
    done = subprocess.run(["bash", "-c", f"stretto={shlex.quote(stretto_program)}; {line}"],
                          capture_output=True, text=True, cwd=tmp_path, timeout=300,
                          env={**os.environ, "STRETTO_PYTHON": sys.executable})
    assert done.returncode == code, f"{line}: exit code {done.returncode}\n{done.stderr}"
    return done

  return run


@pytest.mark.parametrize("stream", ["2>&-", "2>/dev/full"])
def test_the_command_does_not_abort_without_standard_error(stream, shell, model):
  done = shell(f"$stretto optimize m.onnx --tuning off {stream}", 0)  # notes that nothing is kept
  assert "largest error" in done.stdout
  shell(f"$stretto optimize m.onnx --tuning off -v {stream}", 0)
  shell(f"$stretto optimize nope.onnx {stream}", 1)
  shell(f"$stretto optimize m.txt {stream}", 2)
  shell(f"$stretto frobnicate {stream}", 2)


@pytest.mark.parametrize("words", ["--help", "inspect --passes", "inspect --passes --json"])
@pytest.mark.parametrize("stream", [">&-", ">/dev/full"])
def test_output_that_cannot_be_written_is_an_error(stream, words, shell):
  done = shell(f"$stretto {words} {stream}", 3)
  assert done.stderr.startswith("stretto: ") and done.stderr.count("\n") == 1
  shell(f"$stretto {words} {stream} 2>&-", 3)


def test_what_is_said_does_not_get_into_a_file_that_is_open(shell, model, tmp_path):
  """The first file to be opened after standard error was closed would get its number."""
  shell("$stretto optimize m.onnx --tuning off --threads 1 -v -o m.stretto <&- >&- 2>&-", 3)
  shell("$stretto inspect m.stretto --verify", 0)


@pytest.mark.parametrize("output", ["m.onnx", "./m.onnx", "link.stretto", "hard.stretto"])
def test_the_model_is_not_replaced_by_what_is_made_of_it(output, run_command, model, tmp_path):
  (tmp_path / "link.stretto").symlink_to("m.onnx")
  os.link(model, tmp_path / "hard.stretto")
  before = model.read_bytes()
  said = run_command("optimize", "m.onnx", "-o", output, *OFF, code=2).stderr
  assert f"-o {output}: " in said
  assert model.read_bytes() == before and (tmp_path / "link.stretto").is_symlink()


def test_an_artefact_is_not_called_onnx(run_command, model):
  said = run_command("optimize", "m.onnx", "-o", "new.onnx", *OFF, code=2).stderr
  assert "call it *.stretto" in said


def test_no_output_replaces_another_file_that_is_named(run_command, model, image, tmp_path):
  np.save(tmp_path / "x.npy", image)
  before = (tmp_path / "x.npy").read_bytes()
  (tmp_path / "r.json").write_text("kept")

  def refused(*words):
    return run_command(*words, *OFF, code=2).stderr

  assert "--report ./z.json: this would replace -o z.json" in refused(
    "optimize", "m.onnx", "-o", "z.json", "--report", "./z.json")
  assert "would replace --input x.npy" in refused(
    "optimize", "m.onnx", "--input", "x=x.npy", "-o", "x.npy")
  assert "would replace --tuning-cache r.json" in refused(
    "optimize", "m.onnx", "--tuning-cache", "r.json", "--report", "r.json")
  assert "would replace --input x.npy" in refused(
    "infer", "m.onnx", "--input", "x=x.npy", "-o", "x.npy")
  assert (tmp_path / "x.npy").read_bytes() == before
  assert (tmp_path / "r.json").read_text() == "kept" and not (tmp_path / "z.json").exists()


def test_external_data_is_not_replaced(run_command, cnn, tmp_path):
  onnx.save(onnx.ModelProto.FromString(cnn.SerializeToString()), tmp_path / "e.onnx",
            save_as_external_data=True, location="e.data", size_threshold=0)
  before = (tmp_path / "e.data").read_bytes()
  assert "e.data" in run_command("optimize", "e.onnx", "-o", "e.data", *OFF, code=2).stderr
  assert (tmp_path / "e.data").read_bytes() == before


def test_a_link_stays_and_a_pipe_is_written_to(run_command, model, image, tmp_path):
  (tmp_path / "real.stretto").write_text("old")
  (tmp_path / "link.stretto").symlink_to("real.stretto")
  run_command("optimize", "m.onnx", "-o", "link.stretto", *OFF)
  assert (tmp_path / "link.stretto").is_symlink()
  np.save(tmp_path / "x.npy", image)
  run_command("infer", "real.stretto", "--input", "x=x.npy", "-o", "y.npz")

  pipe = tmp_path / "pipe.npz"
  os.mkfifo(pipe)
  received = []
  reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()), daemon=True)
  reader.start()
  run_command("infer", "link.stretto", "--input", "x=x.npy", "-o", pipe)
  reader.join(60)
  assert received == [(tmp_path / "y.npz").read_bytes()] and pipe.is_fifo()


@pytest.mark.parametrize("words", [
  ("optimize", "broken.onnx", "-o", "typo/z.stretto"),
  ("optimize", "broken.onnx", "--report", "typo/r.html"),
  ("infer", "broken.onnx", "-o", "typo/z.npz"),
])
def test_a_missing_folder_is_named_before_the_work_and_not_made(words, run_command, tmp_path):
  (tmp_path / "broken.onnx").write_bytes(b"no model")  # refused as soon as the work begins
  assert "there is no folder typo" in run_command(*words, code=1).stderr
  assert not (tmp_path / "typo").exists()


@pytest.mark.parametrize("words, endings", [
  (("optimize", "broken.onnx", "--report", "r.pdf"), ".html or .json"),
  (("optimize", "broken.onnx", "--report", "r"), ".html or .json"),
  (("infer", "broken.onnx", "-o", "y.txt"), ".npz or .npy"),
])
def test_an_ending_of_another_format_is_refused_before_the_work(words, endings, run_command,
                                                                tmp_path):
  (tmp_path / "broken.onnx").write_bytes(b"no model")
  assert f"ends in {endings}, got {words[-1]}" in run_command(*words, code=2).stderr
  assert not (tmp_path / words[-1]).exists()


def test_several_outputs_do_not_fit_one_array_file(run_command, tmp_path):
  onnx.save(two_by_two_model(), tmp_path / "two.onnx")
  said = run_command("infer", "two.onnx", "-o", "y.npy", *OFF, code=2).stderr
  assert "the model has 2 outputs; name an .npz file" in said


def test_the_launcher_refuses_files_it_cannot_write_before_the_training(run_command, tmp_path):
  (tmp_path / "train.py").write_text("open('began', 'w')\n")
  run = ("run", "-n", 1)
  assert "there is no folder typo" in run_command(*run, "--report", "typo/r.html", "train.py",
                                                  code=1).stderr
  assert "same file" in run_command(*run, "--report", "r", "--trace", "./r", "train.py",
                                    code=2).stderr
  assert not (tmp_path / "typo").exists() and not (tmp_path / "began").exists()
