"""bench.regret: problems are drawn from a seed, and every one of them can be asked for."""

import argparse

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
