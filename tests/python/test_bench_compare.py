"""The comparison counts only engines that compute the right thing, and says why others are out."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

np = pytest.importorskip("numpy", reason="the comparison needs numpy")

from bench import compare as comparing  # noqa: E402
from bench import engine_process, results_page, rounds, summary, tables, truth  # noqa: E402
from stretto import peers  # noqa: E402


def result(engine, median, status="ok", isa=None, uncapped=None, model="m", threads=1):
  return {"model": model, "threads": threads, "engine": engine, "status": status,
          "reason": "because", "version": "1", "tuning": "off" if engine == "stretto" else None,
          "cap": isa and {"isa": isa, "held": uncapped is None, "why": uncapped},
          "median_ms": median, "p95_ms": median, "fifth_ms": median, "min_ms": median,
          "cpu_ms": median, "load_s": 0.1, "runs": 10, "preempted": 0, "serving_mib": 1.0,
          "error_vs_float64": 1e-6}


def test_error_is_relative_to_the_largest_value():
  want = {"y": np.array([1.0, -200.0])}
  assert truth.error({"y": np.array([1.2, -200.0])}, want) == pytest.approx(1e-3)
  assert truth.error({"y": np.array([[1.0], [-200.0]])}, want) == 0


@pytest.mark.parametrize("got", [{}, {"y": np.array([1.0])}, {"y": np.array([1.0, np.nan])}])
def test_error_of_missing_short_or_nan_output_is_infinite(got):
  assert truth.error(got, {"y": np.array([1.0, 2.0])}) == float("inf")


def test_check_marks_a_wrong_engine(tmp_path):
  np.savez(tmp_path / "truth.npz", y=np.array([1.0, 2.0]))
  np.savez(tmp_path / "good.npz", **{"0": np.array([1.0, 2.0 + 1e-6])})
  np.savez(tmp_path / "bad.npz", **{"0": np.array([1.0, 2.01])})
  subject = rounds.Subject("m", None, Path("m.onnx"), Path("i.npz"), ["y"],
                           tmp_path / "truth.npz", 0)
  good, bad = ({"engine": name, "status": "loaded"} for name in ("good", "bad"))
  rounds.check([good, bad], subject, tmp_path)
  assert good["status"] == "loaded" and bad["status"] == "wrong"
  assert "5.0e-03" in bad["reason"]


def test_ratio_is_against_the_fastest_right_peer():
  results = [result("stretto", 10.0, isa="avx2"), result("a", 20.0, isa="avx2"),
             result("b", 15.0, isa="avx2", uncapped="no switch"),
             result("c", 5.0, status="wrong")]
  assert summary.ratio(results)["peer"] == "b"
  assert summary.ratio(results)["ratio"] == pytest.approx(1.5)
  assert summary.ratio(results, capped_only=True)["peer"] == "a"
  assert summary.ratio(results[1:]) is None
  assert "1.50x" in tables.comparison(results) and "b is not capped" in tables.caveats(results)[0]


def test_a_disturbed_run_says_so():
  results = [result("stretto", 10.0), result("a", 20.0) | {"preempted": 20}]
  assert "not quiet" in tables.comparison(results)
  assert "not quiet" not in tables.comparison(results[:1])


def test_every_row_of_ours_has_its_ratio():
  results = [result("stretto", 10.0), result("stretto-quick", 8.0), result("a", 20.0)]
  assert [line["ratio"] for line in summary.ratios(results)] == pytest.approx([2.0, 2.5])
  assert summary.best_peer(results)["engine"] == "a"
  entries = comparing.own_entries(["off", "quick"])
  assert [(e.name, e.tuning) for e in entries] == [("stretto", "off"), ("stretto-quick", "quick")]


def test_another_build_is_timed_beside_this_one(tmp_path):
  with pytest.raises(ValueError, match="holds no package stretto"):
    comparing.own_entries(["off"], tmp_path)
  (tmp_path / "stretto").mkdir()
  (tmp_path / "stretto" / "__init__.py").touch()
  now, quick, before = comparing.own_entries(["off", "quick"], tmp_path)
  assert (before.name, before.tuning, before.package) == ("stretto-before", "off", tmp_path)
  assert now.package is None and quick.package is None
  results = [result("stretto", 10.0), result("stretto-before", 12.0)]
  assert "stretto-before / stretto: 1.200x" in tables.comparison(results)
  assert summary.best_peer(results) is None, "an older build is no peer"


def test_the_process_of_another_build_imports_it(tmp_path):
  (tmp_path / "stretto" / "peers").mkdir(parents=True)
  (tmp_path / "stretto" / "__init__.py").touch()
  (tmp_path / "stretto" / "peers" / "__init__.py").touch()
  (tmp_path / "stretto" / "peers" / "__main__.py").write_text(
      """input(); print('{"version": "older"}')""")
  with engine_process.EngineProcess({}, tmp_path / "log", tmp_path) as process:
    assert process.ask(60) == {"version": "older"}


def test_ratio_of_lower_fifths_is_against_the_peer_with_the_least():
  steady, disturbed = result("a", 15.0), result("b", 20.0) | {"fifth_ms": 12.0}
  line = summary.ratio([result("stretto", 10.0) | {"fifth_ms": 8.0}, steady, disturbed])
  assert line["peer"] == "a" and line["ratio"] == pytest.approx(1.5)
  assert line["ratio_of_fifths"] == pytest.approx(1.5)  # 12 / 8, not 15 / 8
  assert summary.summarise([5.0, 1.0, 4.0, 2.0, 3.0, 100.0], [1.0])["fifth_ms"] == 2.0


def test_results_page_shows_a_model_that_stretto_refused():
  refused = result("stretto", 1.0, status="failed") | {"reason": "/home/me/m.onnx: no operator X"}
  ran = [result("stretto", 1.0, model="n"), result("a", 2.0, model="n")]
  text = results_page.measured([document([refused, result("a", 20.0), *ran])])
  assert "| m |  | 20.0 | a |  |  |" in text
  assert "m, stretto: failed: m.onnx: no operator X" in text


def document(results, isa=None, cpu="chip"):
  return {"machine": {"cpu": cpu, "cores": 2, "isa": ["avx2", "avx512f"]}, "isa": isa,
          "date": "2026-01-02T03:04:05", "results": results,
          "command": "python -m bench.compare all --json out.json --threads 1"}


def test_results_page_merges_runs_and_says_where_the_cap_held():
  first = document([result("stretto", 10.0), result("a", 20.0), result("b", 15.0),
                    result("stretto", 4.0, model="n"), result("a", 4.0, model="n")])
  again = document([result("stretto", 5.0, model="n"), result("a", 20.0, model="n")])
  capped = document([result("stretto", 10.0, isa="avx2"), result("a", 30.0, isa="avx2"),
                     result("b", 15.0, isa="avx2", uncapped="no switch")], isa="avx2")
  text = results_page.measured([first, again, capped])
  full, under_cap = text.split("capped at AVX2")
  assert "| m | 10.0 | 20.0 | 15.0 | b | 1.50 | 1.50 |" in full
  assert "| n | 5.0 | 20.0 |  | a | 4.00 | 4.00 |" in full, "the later run of a model counts, whole"
  assert "**2.45**" in full  # the root of 1.5 * 4
  assert "out.json" not in text
  assert "| m | 10.0 | 30.0 | 15.0 | b | 1.50 | 1.50 | 3.00 |" in under_cap
  assert "The cap held for stretto, a." in under_cap and "b: no switch." in under_cap


def test_results_page_refuses_to_mix_machines():
  with pytest.raises(ValueError, match="different machines: chip, chop"):
    results_page.measured([document([result("stretto", 1.0)]), document([], cpu="chop")])


def test_geometric_mean():
  assert summary.geometric_mean([2.0, 0.5]) == pytest.approx(1.0)


def test_selection_of_peers():
  assert all(e.setting == "best" for e in peers.select("best"))
  assert len(peers.select("all")) > len(peers.select("best"))
  assert [e.name for e in peers.select("mnn,stretto")] == ["mnn"]
  with pytest.raises(ValueError, match="ort: no such peer.*onnxruntime"):
    peers.select("ort")


def compare(tmp_path, *words):
  return subprocess.run([sys.executable, "-m", "bench.compare", *words], cwd=ROOT,
                        capture_output=True, text=True)


def test_end_to_end_on_a_small_file(tmp_path):
  pytest.importorskip("onnxruntime", reason="the run needs a peer, onnxruntime")
  onnx = pytest.importorskip("onnx", reason="the run needs onnx to write a model")
  from onnx import TensorProto, helper

  def spec(name):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4])

  graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [spec("x")], [spec("y")])
  model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
  onnx.save(model, str(tmp_path / "relu.onnx"))
  np.savez(tmp_path / "in.npz", x=np.array([[-1, 0, 1, 2]], np.float32))
  done = compare(tmp_path, str(tmp_path / "relu.onnx"), "--inputs", str(tmp_path / "in.npz"),
                 "--peers", "onnxruntime,torch", "--no-stretto", "--runs", "7", "--burst", "3",
                 "--json", str(tmp_path / "out.json"))
  assert done.returncode == 0, done.stderr
  ran, skipped = json.loads((tmp_path / "out.json").read_text())["results"]
  assert ran["status"] == "ok" and len(ran["times_ms"]) == 7 and ran["min_ms"] > 0
  assert ran["serving_mib"] > ran["base_mib"] > 0 and ran["cap"] is None
  assert skipped["status"] == "skipped"


def test_a_missing_file_and_a_missing_input_are_named(tmp_path):
  pytest.importorskip("onnx", reason="reading the file's inputs needs onnx")
  done = compare(tmp_path, "nowhere.onnx")
  assert done.returncode == 2 and "nowhere.onnx: no such file" in done.stderr
  done = compare(tmp_path, "resnet51")
  assert done.returncode == 2 and "no model 'resnet51'" in done.stderr
