"""The list of architectures, and the command that runs them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench import architectures  # noqa: E402
from bench.architectures import page, table  # noqa: E402

# Modules of this folder, which need no library: what people write that was refused once, or wrong.
OWN = ["lstm_projected", "gru_tagger", "recommender", "spatial_transformer", "llama_step",
       "conformer", "message_passing", "fourier_operator", "spectrogram_front", "unet_3d", "nerf"]


def test_the_list_is_broad_and_names_are_unique():
  rows = architectures.ARCHITECTURES
  names = [row.name for row in rows]
  assert len(names) == len(set(names)) >= 60
  assert {row.family for row in rows} >= {
    "convnet", "hybrid", "vit", "segmentation", "detector", "encoder", "decoder",
    "encoder-decoder", "speech", "diffusion", "3-D", "recurrent"}
  assert all(len(row.keywords) in (0, len(row.inputs)) for row in rows)


def test_listing_needs_no_torch():
  code = ("import sys; sys.modules['torch'] = None; sys.argv = ['x', '--list']; "
          "from bench.architectures.__main__ import main; main()")
  out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
  assert out.returncode == 0, out.stderr
  assert f"{len(architectures.ARCHITECTURES)} architectures" in out.stdout


def test_names_and_families_select_rows():
  chosen = architectures.select(["llama_step", "recurrent", "lstm_classifier"])
  assert chosen[0].name == "llama_step"
  assert [row.name for row in chosen].count("lstm_classifier") == 1
  assert architectures.select(["all"]) == architectures.ARCHITECTURES
  with pytest.raises(ValueError, match="no 'resnet7'; expected a name .* convnet"):
    architectures.select(["resnet7"])


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("batch", [1, 4])
def test_own_modules_run_and_agree_with_pytorch(name, batch, tmp_path):
  pytest.importorskip("torch")
  from bench.architectures.check import check

  found = check(architectures.select([name])[0], batch, ["module"], "off", tmp_path)
  assert found["module"]["status"] == "runs", found
  assert (tmp_path / f"{name}.b{batch}.module.stretto").exists()


def test_wrong_results_are_seen():
  torch = pytest.importorskip("torch")
  from bench.architectures.check import verdict

  one, ids = torch.ones(2, 3), torch.arange(3)
  assert verdict([one * 1.0009], [one])["status"] == "runs"
  assert "off by 2.0e-03" in verdict([one * 1.002], [one])["reason"]
  assert "off by inf" in verdict([one * float("nan")], [one])["reason"]
  assert "shape" in verdict([one.mT], [one])["reason"]
  assert "integers differ" in verdict([ids + 1], [ids])["reason"]
  assert "0 results instead of 1" in verdict([], [one])["reason"]


def test_fresh_weights_do_not_hide_mistakes():
  torch = pytest.importorskip("torch")
  from bench.architectures.make import shake

  module = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 4))
  module[1].weight.data.zero_()
  module[1].register_parameter("gamma", torch.nn.Parameter(torch.full((4,), 1e-6)))
  shake(module)
  assert all(float(p.detach().abs().min()) > 0 for p in module.parameters())
  assert not bool((module[0].running_var == 1).any())


def test_the_command_writes_what_it_finds(tmp_path):
  pytest.importorskip("torch")
  pytest.importorskip("onnxruntime")
  file = tmp_path / "found.json"
  words = [sys.executable, "-m", "bench.architectures", "--run", "n_beats", "--by",
           "module,classic", "--seconds", "0.05", "--folder", str(tmp_path), "--json", str(file)]
  done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
  assert done.returncode == 0, done.stderr
  result, = json.loads(file.read_text())["results"]
  assert {way: entry["status"] for way, entry in result["ways"].items()} == {
    "module": "runs", "classic": "runs"}, result
  assert set(result["time"]["ms"]) == {"module", "classic", "onnxruntime.classic"}
  assert "| n_beats | tables | 1 | runs " in done.stdout
  assert not list(tmp_path.glob("*.stretto"))  # they were timed and are not needed any more


def test_the_table_has_ratios_reasons_and_sums():
  results = [
    {"name": "a", "family": "f", "batch": 1, "ways": {"module": {"status": "runs"}},
     "time": {"ms": {"module": 2.0, "onnxruntime.classic": 3.0}}},
    {"name": "b", "family": "f", "batch": 1,
     "ways": {"module": {"status": "refused", "reason": "lacks it"}}},
    {"name": "c", "family": "f", "batch": 1, "skipped": "not here"}]
  text = "\n".join(table.lines(results, ["module"]))
  assert "| a | f | 1 | runs 1.50 |" in text and "| b | f | 1 | refused |" in text
  assert "- b, batch 1, module: refused: lacks it" in text
  assert "- c, batch 1: skipped: not here" in text
  assert "module: 1 refused, 1 runs; times ONNX Runtime: median 1.50" in text


def test_inductor_rows_say_what_failed():
  results = [
    {"name": "a", "batch": 1, "inductor": {
      "ms": {"eager": 2.0, "inductor": 1.5, "stretto": 1.0},
      "failed": {"inductor max-autotune": "no compiler"}}},
    {"name": "b", "batch": 4, "inductor": {
      "ms": {"inductor": 3.0, "inductor max-autotune": 1.8, "stretto": 2.0}}},
    {"name": "c", "batch": 1, "inductor": {"failed": "no result in 300 s"}}]
  text = "\n".join(table.inductor_lines(results))
  assert "| a | 1 | 2.000 | 1.500 |  | 1.000 | 1.50 |" in text
  assert "| b | 4 |  | 3.000 | 1.800 | 2.000 | 0.90 |" in text
  assert "- a, batch 1, inductor max-autotune: no compiler" in text
  assert "- c, batch 1, all: no result in 300 s" in text
  assert "2 compared: geometric mean 1.16, least 0.90, 1 below 0.95" in text


def test_the_page_has_a_table_per_batch_and_all_that_did_not_run():
  results = [
    {"name": "fast", "family": "convnet", "batch": 1, "ways": {"module": {"status": "runs"}},
     "time": {"ms": {"module": 2.0, "onnxruntime.onnx": 6.0}}},
    {"name": "slow", "family": "convnet", "batch": 1, "ways": {"module": {"status": "runs"}},
     "time": {"ms": {"module": 4.0, "onnxruntime.onnx": 3.0}}},
    {"name": "odd", "family": "vit", "batch": 4,
     "ways": {"module": {"status": "wrong", "reason": "off by 1"}},
     "time": {"ms": {"module": 1.0, "onnxruntime.onnx": 9.0}}},
    {"name": "absent", "family": "vit", "batch": 4, "skipped": "no timm"},
    {"name": "compiled", "family": "vit", "batch": 8,
     "inductor": {"ms": {"inductor": 3.0, "stretto": 2.0}}},
  ]
  text = page.measured({
    "machine": {"cpu": "A processor", "cores": 2}, "versions": {"torch": "9.0"},
    "date": "2030-01-02T00:00:00+00:00", "results": results,
    "commands": ["python -m bench.architectures --run all --folder /x --json /y/z.json"]})
  assert "A processor, 2 cores, one thread, float32, 2030-01-02; torch 9.0: " \
         "`python -m bench.architectures --run all`." in text
  assert "| fast | convnet | 2.00 | 6.00 | 3.00 |" in text
  assert "| slow | convnet | 4.00 | 3.00 | 0.75 |" in text
  assert "| geometric mean | | | | **1.50** |" in text
  assert "| odd | vit | wrong | 9.00 |  |" in text  # a wrong result is not timed
  assert "- odd, batch 4, module: wrong: off by 1" in text
  assert "- absent, batch 4: skipped: no timm" in text
  assert "Batch 8" not in text and "| compiled | 8 | 3.000 | 2.000 | 1.50 |" in text
