"""Draws problems that nobody has tuned for, and compares the kernel that Stretto chooses with the
fastest one.

  python -m bench.regret --seed 1 --count 1000 --isa avx2 --tune off --json build/regret.json
  python -m bench.regret --seed 1 --count 2000 --isa avx2 --json build/regret.json --resume

Regret is the time of the chosen kernel divided by that of the fastest. --tune off judges the
built-in order, --tune quick a choice by a short measurement, as the tuner makes it. --resume
measures only the problems that the file lacks, so a long run can be made in pieces.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bench import machine

MOST_FLOPS = 4e9
LEAST_FLOPS = 2e5
# What the tuner spends on a problem of the usual size. It does not measure kernels that expect to
# take so many times as long as the best one (runtime/select.cc), and keeps the kernel of the
# built-in order within 3 %.
QUICK_S, TOO_SLOW, NEAR_TIE = 0.03, 2.5, 1.03
# A larger regret is measured again, and the least time of each kernel counts: other work on the
# machine makes times longer, never shorter.
SUSPICIOUS, AGAIN = 1.2, 2
SAVE_EVERY = 10  # problems, so that a run that is interrupted can be resumed


def size(rng: random.Random, least: int, most: int) -> int:
  """Small ones as often as large ones."""
  return round(least * (most / least) ** rng.random())


def channels(rng: random.Random, most: int) -> int:
  """Mostly multiples of 8 or 16, as in networks; the others are odd."""
  count = size(rng, 1, most)
  step = rng.choice((1, 8, 16, 16))
  return max(count // step, 1) * step


def conv2d(rng: random.Random) -> tuple[list[str], float]:
  """(words of the command, flops)"""
  batch = rng.choice((1, 1, 1, 1, 2, 4, 8))
  height = size(rng, 1, 128)
  width = height if rng.random() < 0.7 else size(rng, 1, 128)
  kind = rng.choice(("dense", "dense", "pointwise", "depthwise", "grouped", "dilated", "line"))
  kernel = [1, 1] if kind == "pointwise" else [rng.choice((3, 3, 3, 2, 4, 5, 7))] * 2
  stride, dilation, groups = rng.choice((1, 1, 1, 2)), 1, 1
  inputs, outputs = channels(rng, 1024), channels(rng, 1024)
  if kind == "line":
    kernel = rng.choice(([1, 3], [3, 1], [1, 7], [7, 1], [1, 5], [5, 1]))
    height = rng.choice((1, height))
    kernel = [min(kernel[0], height), kernel[1]]
  if kind == "depthwise":
    groups = outputs = inputs
  if kind == "grouped":
    groups = rng.choice((2, 3, 4, 8, 16, 32))
    each = size(rng, 1, 64)
    inputs, outputs = groups * each, groups * rng.choice((each, each, size(rng, 1, 64)))
  if kind == "dilated":
    dilation, stride = rng.choice((2, 2, 3, 4, 6, 12, 18)), 1
  pads = [dilation * (k - 1) // 2 for k in kernel] * 2
  if rng.random() < 0.2:  # on one side only
    pads = [0, 0, dilation * (kernel[0] - 1), dilation * (kernel[1] - 1)]
  out = [(n + pads[i] + pads[i + 2] - dilation * (kernel[i] - 1) - 1) // stride + 1
         for i, n in enumerate((height, width))]
  flops = 2.0 * batch * outputs * max(out[0], 0) * max(out[1], 0) * inputs / groups \
      * kernel[0] * kernel[1]
  layouts = rng.choice((("blocked", "blocked"),) * 6 + (("plain", "blocked"), ("blocked", "plain"),
                                                         ("plain", "plain")))
  return ["conv2d", "--input", f"{batch}x{inputs}x{height}x{width}", "--channels", str(outputs),
          "--kernel", f"{kernel[0]}x{kernel[1]}", "--stride", str(stride), "--dilation",
          str(dilation), "--pad", "x".join(map(str, pads)), "--groups", str(groups),
          "--input-layout", layouts[0], "--output-layout", layouts[1], "--bias", "--activation",
          rng.choice(("none", "relu", "silu"))], flops


def gemm(rng: random.Random) -> tuple[list[str], float]:
  m, n, k = size(rng, 1, 1024), size(rng, 8, 4096), size(rng, 8, 4096)
  words = ["gemm", "-m", str(m), "-n", str(n), "-k", str(k), "--bias"]
  return words + (["--transposed"] if rng.random() < 0.5 else []), 2.0 * m * n * k


def matmul(rng: random.Random) -> tuple[list[str], float]:
  batch, m, n, k = size(rng, 1, 64), size(rng, 1, 512), size(rng, 1, 512), size(rng, 1, 512)
  words = ["matmul", "--batch", str(batch), "-m", str(m), "-n", str(n), "-k", str(k)]
  return words + (["--transposed"] if rng.random() < 0.5 else []), 2.0 * batch * m * n * k


KINDS: tuple[tuple[Callable[[random.Random], tuple[list[str], float]], float], ...] = (
  (conv2d, 0.8), (gemm, 0.1), (matmul, 0.1))


def draw(seed: int, count: int) -> list[list[str]]:
  """The words of `count` problems, the same for the same seed."""
  rng = random.Random(seed)
  problems: list[list[str]] = []
  while len(problems) < count:
    kind = rng.choices([make for make, _ in KINDS], [share for _, share in KINDS])[0]
    words, flops = kind(rng)
    if LEAST_FLOPS <= flops <= MOST_FLOPS:
      problems.append(words)
  return problems


def timed(command: list[str], words: list[str], args: argparse.Namespace, seconds: float,
          reference: bool = False) -> dict:
  """What the command measures; the reference, which takes long, where it is asked for or chosen."""
  done = subprocess.run([*command, "kernels", *words, "--json", "--seconds", str(seconds),
                         "--threads", str(args.threads), *([] if reference else ["--unchecked"]),
                         *(["--isa", args.isa] if args.isa else [])],
                        capture_output=True, text=True)
  if done.returncode:
    raise SystemExit(f"{' '.join(words)}: {done.stderr.strip()}")
  answer = json.loads(done.stdout)
  if answer["built_in_order"] not in seconds_of(answer) and not reference:
    return timed(command, words, args, seconds, reference=True)
  return answer


def seconds_of(answer: dict) -> dict[str, float]:
  return {row["name"]: row["seconds"] for row in answer["kernels"] if "seconds" in row}


def tuned(answer: dict) -> str:
  """The kernel that the tuner chooses by these measurements."""
  rows = [row for row in answer["kernels"] if "seconds" in row]
  most = max(row["expected"] for row in rows)
  seconds = {row["name"]: row["seconds"] for row in rows if row["expected"] * TOO_SLOW >= most}
  best, by_order = min(seconds, key=seconds.__getitem__), answer["built_in_order"]
  return by_order if seconds.get(by_order, float("inf")) <= NEAR_TIE * seconds[best] else best


def judge(command: list[str], words: list[str], args: argparse.Namespace) -> dict:
  answer = timed(command, words, args, args.seconds)
  seconds = seconds_of(answer)
  chosen = answer["built_in_order"]
  if args.tune == "quick":
    chosen = tuned(timed(command, words, args, QUICK_S))
  for _ in range(AGAIN):
    if seconds[chosen] <= SUSPICIOUS * min(seconds.values()):
      break
    for name, again in seconds_of(timed(command, words, args, args.seconds)).items():
      seconds[name] = min(seconds[name], again)
  best = min(seconds, key=seconds.__getitem__)
  return {"problem": answer["problem"], "words": words, "chosen": chosen, "best": best,
          "regret": seconds[chosen] / seconds[best], "seconds": seconds,
          "best_of_peak": answer["flops"] / seconds[best] / answer["peak_flops_per_s"],
          "expected": {row["name"]: row["expected"] for row in answer["kernels"]
                       if "expected" in row}}


def percentile(values: list[float], share: float) -> float:
  return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def summary(results: list[dict]) -> dict:
  regrets = [r["regret"] for r in results]
  return {"count": len(results), "mean": statistics.mean(regrets),
          "median": statistics.median(regrets), "p90": percentile(regrets, 0.9),
          "p99": percentile(regrets, 0.99), "largest": max(regrets)}


def asked(args: argparse.Namespace) -> dict:
  """What has to agree between the pieces of one run."""
  return {"seed": args.seed, "isa": args.isa, "threads": args.threads, "tune": args.tune}


def measured_earlier(args: argparse.Namespace) -> list[dict]:
  """The results in --json, if --resume asks for them."""
  if not args.resume or not args.json.exists():
    return []
  earlier = json.loads(args.json.read_text())
  if earlier["arguments"] != asked(args):
    raise SystemExit(f"--resume: {args.json} was measured with {earlier['arguments']}, "
                     f"not with {asked(args)}")
  if earlier["machine"]["cpu"] != machine.describe()["cpu"]:
    raise SystemExit(f"--resume: {args.json} was measured on {earlier['machine']['cpu']}")
  return earlier["results"]


def write(args: argparse.Namespace, results: list[dict]) -> None:
  args.json.write_text(json.dumps({"machine": machine.describe(), "arguments": asked(args),
                                   "summary": summary(results), "results": results}, indent=1))


def main() -> int:
  parser = argparse.ArgumentParser(prog="python -m bench.regret", description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--seed", type=int, default=1)
  parser.add_argument("--count", type=int, default=200, help="problems")
  parser.add_argument("--isa", choices=["portable", "avx2", "avx512"])
  parser.add_argument("--threads", type=int, default=1)
  parser.add_argument("--tune", choices=["off", "quick"], default="off", help="how to choose")
  parser.add_argument("--seconds", type=float, default=0.15, help="per problem, for all kernels")
  parser.add_argument("--worst", type=int, default=15, help="problems to print")
  parser.add_argument("--json", type=Path, help="write everything measured here")
  parser.add_argument("--resume", action="store_true",
                      help="go on where the file of --json ends, with the same options")
  args = parser.parse_args()
  if args.resume and not args.json:
    parser.error("--resume needs --json FILE")
  program = shutil.which("stretto")
  command = [program] if program else [sys.executable, "-m", "stretto"]
  results = measured_earlier(args)[:args.count]
  for n, words in enumerate(draw(args.seed, args.count)[len(results):], len(results) + 1):
    results.append(judge(command, words, args))
    if args.json and n % SAVE_EVERY == 0:
      write(args, results)
    if sys.stderr.isatty() or n % 50 == 0:
      print(f"\r{n} of {args.count}, mean regret {summary(results)['mean']:.3f}", end="",
            file=sys.stderr, flush=True)
  print(file=sys.stderr)
  for r in sorted(results, key=lambda r: -r["regret"])[:args.worst]:
    print(f"{r['regret']:6.2f}  {r['chosen']} instead of {r['best']}: {r['problem']}")
  found = summary(results)
  print(f"{found['count']} problems, tune={args.tune}: regret mean {found['mean']:.3f}, median "
        f"{found['median']:.3f}, 90 % {found['p90']:.3f}, 99 % {found['p99']:.3f}")
  if args.json:
    write(args, results)
  return 0


if __name__ == "__main__":
  sys.exit(main())
