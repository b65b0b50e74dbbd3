"""bench.regret: problems are drawn from a seed, and every one of them can be asked for."""

import argparse
import json

import pytest

from bench import regret


def test_a_seed_gives_the_same_problems_and_another_seed_others():
  assert regret.draw(4, 30) == regret.draw(4, 30)
  assert regret.draw(4, 30) != regret.draw(5, 30)
  assert regret.draw(4, 30)[:10] == regret.draw(4, 10)


def test_problems_are_of_every_kind():
  problems = regret.draw(1, 300)
  words = [" ".join(problem) for problem in problems]
  assert {problem[0] for problem in problems} == {"conv2d", "gemm", "matmul"}
  for part in ("--dilation 12", "--stride 2", "--kernel 1x7", "--kernel 1x1", "--groups 8",
               "--input-layout plain", "--pad 0x0x"):
    assert any(part in text for text in words), part


def test_the_fastest_kernel_has_no_regret(stretto_program):
  args = argparse.Namespace(threads=1, isa=None, tune="off", seconds=0.02)
  problems = sorted(regret.draw(2, 60), key=lambda words: words[0])
  for words in (problems[0], problems[-1], next(p for p in problems if p[0] == "gemm")):
    found = regret.judge([stretto_program], words, args)
    assert found["seconds"][found["best"]] == min(found["seconds"].values())
    assert found["regret"] >= 1 and found["chosen"] in found["expected"]
    assert found["best_of_peak"] > 0


def test_the_summary_has_mean_and_percentiles():
  found = regret.summary([{"regret": 1.0}] * 98 + [{"regret": 2.0}, {"regret": 3.0}])
  assert found == {"count": 100, "mean": 1.03, "median": 1.0, "p90": 1.0, "p99": 3.0,
                   "largest": 3.0}


def test_the_tuner_measures_what_may_win_and_keeps_the_built_in_order_in_near_ties():
  def chosen(**seconds):
    expected = {"direct": 1.0, "gemm": 0.5, "slow": 0.3}
    rows = [{"name": name, "expected": expected[name], "seconds": s} for name, s in seconds.items()]
    rows.append({"name": "does_not_fit", "reason": "no"})
    return regret.tuned({"kernels": rows, "built_in_order": "direct"})

  assert chosen(direct=1.02, gemm=1.0) == "direct"
  assert chosen(direct=1.04, gemm=1.0) == "gemm"
  assert chosen(direct=1.2, gemm=1.1, slow=0.5) == "gemm"


def run(monkeypatch, *words):
  measured = []

  def judge(command, words, args):
    measured.append(words)
    return {"words": words, "regret": 1.0, "problem": "p", "chosen": "a", "best": "a"}

  monkeypatch.setattr(regret, "judge", judge)
  monkeypatch.setattr("sys.argv", ["regret", *map(str, words)])
  assert regret.main() == 0
  return measured


def test_a_run_in_pieces_measures_every_problem_once(monkeypatch, tmp_path):
  file = tmp_path / "regret.json"
  words = ["--seed", 7, "--json", file, "--resume", "--count"]
  first = run(monkeypatch, *words, 12)
  assert first + run(monkeypatch, *words, 30) == regret.draw(7, 30)
  assert run(monkeypatch, *words, 30) == []
  found = json.loads(file.read_text())
  assert [r["words"] for r in found["results"]] == regret.draw(7, 30)
  assert found["summary"]["count"] == 30
  # Without --resume everything is measured again, and pieces of other runs are refused.
  assert len(run(monkeypatch, "--seed", 7, "--json", file, "--count", 30)) == 30
  with pytest.raises(SystemExit, match="was measured with"):
    run(monkeypatch, "--seed", 8, "--json", file, "--resume", "--count", 30)


def test_what_was_measured_is_kept_if_a_run_is_interrupted(monkeypatch, tmp_path):
  file = tmp_path / "regret.json"

  def judge(command, words, args):
    if words == regret.draw(1, 25)[-1]:
      raise KeyboardInterrupt
    return {"words": words, "regret": 1.0, "problem": "p", "chosen": "a", "best": "a"}

  monkeypatch.setattr(regret, "judge", judge)
  monkeypatch.setattr("sys.argv", ["regret", "--json", str(file), "--count", "25"])
  with pytest.raises(KeyboardInterrupt):
    regret.main()
  assert len(json.loads(file.read_text())["results"]) == 20
