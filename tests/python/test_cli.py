"""The stretto command from the outside: what it prints, writes and returns."""

import json
import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
from conftest import SEED, assert_close, cnn_model, expected, model_of, value
from onnx import helper


@pytest.fixture
def artefact(run_command, cnn_path, tmp_path):
  run_command("optimize", cnn_path, "-o", "m.stretto", "--tuning", "off", "--threads", 1)
  return tmp_path / "m.stretto"


def test_version_and_help(run_command):
  assert run_command("--version").stdout.startswith("stretto 0.")
  for verb in ("optimize", "infer", "bench", "inspect", "kernels"):
    assert verb in run_command("--help").stdout
    assert "--" in run_command(verb, "--help").stdout


def test_optimize_writes_artefact_and_report(run_command, cnn_path, tmp_path):
  done = run_command("optimize", cnn_path, "-o", "m.stretto", "--tuning", "off", "--report",
                     "r.html", "--peers", "none")
  assert "wrote m.stretto" in done.stdout and "wrote r.html" in done.stdout
  assert done.stderr == "", "no progress bar where there is no terminal"
  assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")


def test_a_report_has_no_peers_unless_asked(run_command, cnn_path, tmp_path):
  run_command("optimize", cnn_path, "--tuning", "off", "--report", "r.json")
  assert json.loads((tmp_path / "r.json").read_text())["latency"]["peers"] == []
  run_command("optimize", cnn_path, "--tuning", "off", "--peers", "installed", "--report", "r.json")
  peers = json.loads((tmp_path / "r.json").read_text())["latency"]["peers"]
  assert "onnxruntime" in [peer["name"] for peer in peers]  # ./dev test installs it


def test_optimize_compares_with_peers_at_the_end(run_command, cnn_path, tmp_path):
  done = run_command("optimize", cnn_path, "--tuning", "off", "--threads", 1, "--peers",
                     "onnxruntime", "--report", "r.json")
  titles, stretto, ort = [line for line in done.stdout.splitlines()
                          if line.split()[0] in ("name", "stretto", "onnxruntime")]
  for title in ("median ms", "Stretto is", "error", "memory"):
    assert title in titles
  report = json.loads((tmp_path / "r.json").read_text())
  assert report["memory"]["serving_peak_bytes"] > 1 << 20 and "MiB" in stretto
  assert all(error["relative_to_max"] <= 1e-4 for error in report["errors"])
  peer = report["latency"]["peers"][0]
  if "error" in peer:
    pytest.skip(f"no peer to compare with: {peer['error']}")
  assert peer["median_ms"] > 0 and peer["peak_bytes"] > 1 << 20 and "x" in ort
  assert peer["relative_to_max"] <= 1e-4
  assert report["latency"]["after"]["relative_to_max"] <= 1e-4, "timed beside the peer"


def test_measurements_beside_other_programs_say_so(run_command, cnn_path, tmp_path):
  loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
           for _ in range(os.cpu_count())]
  try:
    bench = run_command("bench", cnn_path, "--tuning", "off", "--threads", 1, "--seconds", 1)
    done = run_command("optimize", cnn_path, "--tuning", "off", "--report", "r.json")
  finally:
    for loop in loops:
      loop.kill()
      loop.wait()
  assert "other programs kept" in bench.stdout and "meanwhile, so times are noisy" in bench.stdout
  report = json.loads((tmp_path / "r.json").read_text())
  for other_work in (report["machine"]["other_work"], report["latency"]["other_work"]):
    assert other_work["remark"].startswith("other programs kept")
    assert 0.1 < other_work["cores"] <= os.cpu_count() and 0 <= other_work["steal"] <= 1
  assert "so times are noisy" in done.stdout


def test_without_python_the_command_times_itself(stretto_program, cnn_path, tmp_path):
  done = subprocess.run([stretto_program, "bench", str(cnn_path), "--tuning", "off", "--seconds",
                         "0.05"], capture_output=True, text=True, timeout=300,
                        env={**os.environ, "STRETTO_PYTHON": str(tmp_path / "no-python")})
  assert done.returncode == 0, done.stderr
  row = next(line for line in done.stdout.splitlines() if line.startswith("stretto "))
  assert float(row.split()[1]) > 0


def test_what_differs_from_the_artefact_is_noted(run_command, cnn_path, image, tmp_path):
  many = os.cpu_count() + 1
  run_command("optimize", cnn_path, "-o", "many.stretto", "--tuning", "off", "--threads", many)
  np.save(tmp_path / "x.npy", image)
  for verb in (["infer", "many.stretto", "--input", "x=x.npy"], ["inspect", "many.stretto"]):
    done = run_command(*verb)
    assert f"stretto: note: many.stretto: optimised for {many} threads, runs with" in done.stderr
    assert done.stderr.count("note:") == 1
    assert "note:" not in run_command(*verb, "-q").stderr
    assert "optimised for" not in run_command(*verb, "--threads", 1).stderr


def test_infer_gives_the_reference_result(run_command, artefact, cnn, image, tmp_path):
  np.save(tmp_path / "x.npy", image)
  done = run_command("infer", artefact, "--input", "x=x.npy", "-o", "out.npz")
  assert "y" in done.stdout and "1x10" in done.stdout
  assert_close(np.load(tmp_path / "out.npz")["y"], expected(cnn, x=image)[0])
  run_command("infer", artefact, "--input", "x=x.npy", "-o", "out.npy")
  assert_close(np.load(tmp_path / "out.npy"), expected(cnn, x=image)[0])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_infer_reads_archives(save, run_command, artefact, cnn, image, tmp_path):
  save(tmp_path / "in.npz", x=image)
  run_command("infer", artefact, "--inputs", "in.npz", "-o", "out.npz")
  assert_close(np.load(tmp_path / "out.npz")["y"], expected(cnn, x=image)[0])


def test_infer_reads_fortran_order(run_command, artefact, cnn, image, tmp_path):
  np.save(tmp_path / "x.npy", np.asfortranarray(image))
  run_command("infer", artefact, "--input", "x=x.npy", "-o", "out.npz")
  assert_close(np.load(tmp_path / "out.npz")["y"], expected(cnn, x=image)[0])


@pytest.mark.parametrize("source", ["artefact", "cnn_path"])
def test_float64_was_refused_that_python_takes(run_command, source, request, cnn, image, tmp_path):
  model = request.getfixturevalue(source)
  np.save(tmp_path / "x.npy", image.astype(np.float64))
  words = ["infer", model, "--input", "x=x.npy", "-o", "out.npz", "--tuning", "off"]
  done = run_command(*words[:None if source == "cnn_path" else -2])
  assert done.stderr.count("input x: float64 was rounded to float32") == 1
  assert_close(np.load(tmp_path / "out.npz")["y"], expected(cnn, x=image)[0])
  np.save(tmp_path / "x.npy", image.astype(np.int64))
  assert "expected float32" in run_command(*words, code=2).stderr


def test_the_note_about_an_open_batch_was_only_in_the_report(run_command, tmp_path):
  onnx.save(cnn_model(batch="N"), tmp_path / "open.onnx")
  words = ["optimize", "open.onnx", "-o", "open.stretto", "--tuning", "off"]
  done = run_command(*words)
  assert done.stderr.count(
    "stretto: note: open.onnx: input x takes N:0..x3x16x16: optimised for 1x3x16x16, and compiled "
    "for other sizes when they come") == 1
  assert "takes" not in run_command(*words, "-q").stderr
  assert "takes" not in run_command(*words, "--shape", "x=2x3x16x16").stderr


def test_damaged_arrays_are_refused(run_command, artefact, image, tmp_path):
  np.save(tmp_path / "x.npy", image)
  whole = (tmp_path / "x.npy").read_bytes()
  for size in (0, 5, 9, 40, 128, len(whole) - 1):
    (tmp_path / "cut.npy").write_bytes(whole[:size])
    assert "cut.npy" in run_command("infer", artefact, "--input", "x=cut.npy", code=1).stderr
  np.savez_compressed(tmp_path / "in.npz", x=image)
  whole = bytearray((tmp_path / "in.npz").read_bytes())
  whole[len(whole) // 2] ^= 0xFF
  (tmp_path / "bad.npz").write_bytes(whole)
  assert "bad.npz" in run_command("infer", artefact, "--inputs", "bad.npz", code=1).stderr


@pytest.mark.parametrize("arguments, code, words", [
  ((), 2, ""),
  (("frobnicate",), 2, "there are: optimize, infer"),
  (("kernels", "conv3d"), 2, "conv2d"),
  (("optimize", "model.txt"), 2, "*.onnx"),
  (("optimize",), 2, "source"),
  (("optimize", "nowhere.onnx"), 1, "nowhere.onnx"),
  (("infer", "nowhere.stretto"), 1, "nowhere.stretto"),
  (("optimize", "MODEL", "--threads", "-1"), 2, "threads"),
  (("optimize", "MODEL", "--level", "lossy"), 2, "level"),
  (("optimize", "MODEL", "--shape", "x"), 2, "--shape"),
  (("optimize", "MODEL", "--input", "z=x.npy"), 1, "x.npy"),
  (("infer", "MODEL", "--tuning", "off"), 2, "--input x=file.npy"),
  (("kernels", "conv2d", "--input", "3x3"), 2, "--input"),
  (("kernels", "conv2d", "--input", "1x8x2x2", "--kernel", "5", "--pad", "0"), 2, "does not fit"),
  (("inspect",), 2, "--passes"),
])
def test_failures_have_exit_codes_and_say_why(arguments, code, words, run_command, cnn_path):
  arguments = [str(cnn_path) if a == "MODEL" else a for a in arguments]
  assert words in run_command(*arguments, code=code).stderr


def test_bench_prints_a_row_per_peer_and_thread_count_also_if_named_twice(run_command, cnn_path):
  done = run_command("bench", cnn_path, "--threads", "1,2,1", "--peers", "onnxruntime,onnxruntime",
                     "--seconds", "0.05", "--tuning", "off")
  lines = done.stdout.splitlines()
  assert [line for line in lines if line.endswith("thread") or line.endswith("threads")] == [
    "1 thread", "2 threads"]
  assert sum(line.startswith("stretto ") for line in lines) == 2
  assert sum(line.startswith("onnxruntime ") for line in lines) == 2


def test_bench_runs_an_artefact_with_as_many_threads_as_asked(run_command, artefact):
  assert "1 thread\n" in run_command("bench", artefact, "--seconds", 0.05).stdout
  assert "2 threads\n" in run_command("bench", artefact, "--threads", 2, "--seconds", 0.05).stdout


def test_inspect_verifies_an_artefact(run_command, artefact, cnn_path):
  assert "outputs agree" in run_command("inspect", artefact, "--verify").stderr
  assert "--verify has no effect" in run_command("inspect", cnn_path, "--verify").stderr


def test_bench_refuses_to_compare_an_artefact(run_command, artefact):
  assert "ONNX" in run_command("bench", artefact, "--peers", "onnxruntime", code=2).stderr


def test_inspect_lists_passes_and_which_rule_fired_where(run_command, cnn_path):
  passes = run_command("inspect", "--passes").stdout.splitlines()
  assert passes[0].split() == ["pass", "what", "it", "does"] and len(passes) > 4
  fired = run_command("inspect", cnn_path, "--rules").stdout
  assert "bn1" in fired or "conv1" in fired
  before = run_command("inspect", cnn_path, "--before").stdout
  after = run_command("inspect", cnn_path).stdout
  assert "BatchNormalization" in before and "BatchNormalization" not in after


def test_passes_are_switched_by_flag_and_by_file(run_command, cnn_path, tmp_path):
  names = [line.split()[0] for line in run_command("inspect", "--passes").stdout.splitlines()[1:]]
  by_flag = run_command("inspect", cnn_path, "--rules", "--disable", ",".join(names)).stdout
  assert by_flag.splitlines() == ["pass  rule  node"]
  listed = ", ".join(f'"{name}"' for name in names)
  (tmp_path / "s.toml").write_text(f"[inspect]\ndisable=[{listed}]\n")
  by_file = run_command("--config", "s.toml", "inspect", cnn_path, "--rules").stdout
  assert by_file == by_flag


def test_bisect_finds_nothing_in_a_sound_model(run_command, cnn_path):
  assert "no rewrite" in run_command("inspect", cnn_path, "--bisect").stdout


def test_bisect_names_the_rewrite_that_loses_accuracy(run_command, tmp_path):
  # The batch norm takes away what the shift adds, six digits of it. Folded into the weights, its
  # factor rounds them, and that rounding times a million is in the result.
  rng = np.random.default_rng(SEED)
  million = np.float32(1e6)
  conv, other = (rng.standard_normal((4, c, 1, 1)).astype(np.float32) for c in (3, 4))
  weights = {"million": million, "conv": conv, "other": other,
             "scale": np.full(4, 0.3, np.float32), "shift": np.zeros(4, np.float32),
             "mean": conv.sum(axis=(1, 2, 3)) * million, "var": np.ones(4, np.float32)}
  nodes = [
    helper.make_node("Identity", ["x"], ["i"], "same"),
    helper.make_node("Add", ["i", "million"], ["a"], "far_away"),
    helper.make_node("Conv", ["a", "conv"], ["c"], "conv1"),
    helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["b"], "norm"),
    helper.make_node("Relu", ["b"], ["r"], "relu1"),
    helper.make_node("Conv", ["r", "other"], ["d"], "conv2"),
    helper.make_node("Relu", ["d"], ["y"], "relu2"),
  ]
  onnx.save(model_of(nodes, [value("x", [1, 3, 8, 8])], [value("y", [1, 4, 8, 8])], weights),
            tmp_path / "far.onnx")
  assert len(run_command("inspect", "far.onnx", "--rules").stdout.splitlines()) > 4
  found = run_command("inspect", "far.onnx", "--bisect", code=1).stdout
  assert "rule fold-batch-norm of pass fold-batch-norm at node norm " in found
  assert "moves output y by" in found and "--disable fold-batch-norm" in found
  without = run_command("inspect", "far.onnx", "--bisect", "--disable", "fold-batch-norm").stdout
  assert "no rewrite" in without
  # Nothing is wrong where that much is allowed.
  assert "no rewrite" in run_command("inspect", "far.onnx", "--bisect", "--tolerance", 10).stdout


def test_inspect_shows_an_artefact(run_command, artefact):
  shown = run_command("inspect", artefact).stdout
  assert "x" in shown and "1x3x16x16" in shown
  assert json.loads(run_command("inspect", artefact, "--report").stdout)["model"]["name"]


def test_kernels_prints_every_row_and_one_winner(run_command):
  listing = run_command("kernels").stdout
  assert "conv2d" in listing
  rows = next(line for line in listing.splitlines() if line.startswith("conv2d")).split()[1:]
  shown = run_command("kernels", "conv2d", "--input", "1x32x14x14", "--seconds", "0.05").stdout
  lines = shown.splitlines()
  for row in rows:
    line = next(line for line in lines if line.startswith(row + " "))
    assert "%" in line or len(line.split()) > 5, "a time and a fraction of peak, or a reason"
  assert sum("(wins)" in line for line in lines) == 1
  assert lines[-1].split()[1].startswith("wins")
