"""Two chips of unlike speed: shares of a batch in proportion to speed, beside equal shares and
beside the fast chip alone.

    python -m bench.unlike --out build/unlike --rounds 3
    python -m bench.unlike --out build/unlike --page bench/results/unlike.md

The pair is like a V100 and a K80, which made 4.39 and 0.62 steps per second. Both are parts of the
time of one core: a rank that has used up its part is stopped until more has come (bench.slowed).
On a core each they would disturb each other, because cores of a virtual machine may be the two
threads of one, and do so by as much as there is to gain. The cases take turns, in an order that
changes every round, and the median of the rounds counts. In
each round the losses of all cases are compared with those of one process, step by step, as far as
both go.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import socket
import statistics
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from bench import machine

ROOT = Path(__file__).resolve().parents[1]
STEPS_PER_S = (4.39, 0.62)  # V100, K80
SLOW = STEPS_PER_S[1] / STEPS_PER_S[0]
FAST_PART = 0.8  # of the core; both leave a part of it, so that neither has to wait for it long
SCRIPT = ROOT / "examples/cluster/train_unlike.py"
# Sums of fp32 in another order differ by some 1e-6 of a loss in the first steps, and training
# amplifies that.
LOSS_TOLERANCE = 1e-3
TIMED_EPOCHS = 3  # the last ones, when shares have settled
WIDTH = 100  # of lines of the page
INTERVAL = 4  # batches between two comparisons of times

# Arguments of the script, and epochs: proportional shares may move before they are timed.
CASES: dict[str, tuple[list[str], int]] = {
    "fast chip alone": ([], 4 + TIMED_EPOCHS),
    "equal shares": (["--shares", "equal"], 1 + TIMED_EPOCHS),
    "proportional shares": (["--shares", "proportional", "--interval", str(INTERVAL)],
                            4 + TIMED_EPOCHS),
}


def run(case: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
  """What the script measured."""
  out, probe = folder / "run.json", folder / "probe.json"
  for file in (out, probe):
    file.unlink(missing_ok=True)
  words, epochs = CASES[case]
  script = [str(SCRIPT), *words, "--batch", str(options.batch), "--epochs", str(epochs), "--width",
            str(options.width), "--out", str(out)]
  ranks = len(STEPS_PER_S) if words else 1
  parts = ",".join(f"{FAST_PART * speed:.4f}" for speed in (1, SLOW)[:ranks])
  slowed = [sys.executable, "-m", "bench.slowed", parts, *script]
  start = [sys.executable, "-m", "stretto", "run", "-q", "-n", str(ranks), "--no-bind",
           "--no-python"] if ranks > 1 else []
  command = ["taskset", "-c", str(max(os.sched_getaffinity(0))), *start, *slowed]
  with socket.create_server(("127.0.0.1", 0)) as server:
    port = str(server.getsockname()[1])
  command = [*shlex.split(options.prefix), *command]
  done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300,
                        env={**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1",
                             "MASTER_PORT": port})
  if done.returncode != 0:
    raise SystemExit(f"{case}: {' '.join(command)} failed\n{done.stdout[-2000:]}"
                     f"{done.stderr[-4000:]}")
  result: dict[str, Any] = json.loads(out.read_text())
  result["samples_per_s"] = TIMED_EPOCHS * result["samples"] / sum(
      result["epoch_seconds"][-TIMED_EPOCHS:])
  return result


def one_round(folder: Path, options: argparse.Namespace, number: int) -> dict[str, Any]:
  order = list(CASES)
  random.Random(number).shuffle(order)
  results = {case: run(case, folder, options) for case in order}
  alone = results["fast chip alone"]["loss"]
  for case, result in results.items():
    result["loss_off"] = max(abs(a - b) for a, b in zip(result["loss"], alone))
    if result["loss_off"] > LOSS_TOLERANCE:
      raise SystemExit(f"{case}: a loss differs by {result['loss_off']:.2g} from that of one "
                       f"process; at most {LOSS_TOLERANCE:g} is rounding")
  return results


def ratios(rounds: list[dict[str, Any]], case: str, to: str) -> list[float]:
  """Of cases in the same round, from the least."""
  return sorted(r[case]["samples_per_s"] / r[to]["samples_per_s"] for r in rounds)


def summary(rounds: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
  """Medians over rounds."""
  return {case: {"samples_per_s": statistics.median(r[case]["samples_per_s"] for r in rounds),
                 "of_equal": statistics.median(ratios(rounds, case, "equal shares")),
                 "of_alone": statistics.median(ratios(rounds, case, "fast chip alone")),
                 "loss_off": max(r[case]["loss_off"] for r in rounds)} for case in CASES}


def spread(rounds: list[dict[str, Any]], to: str) -> str:
  found = ratios(rounds, "proportional shares", to)
  return f"{found[0]:.2f} to {found[-1]:.2f}"


def page(content: dict[str, Any]) -> str:
  rounds, options = content["rounds"], content["options"]
  rows = [f"| {case} | {s['samples_per_s']:.0f} | {s['of_equal']:.2f}x | "
          f"{s['of_alone']:.2f}x | {s['loss_off']:.1e} |"
          for case, s in summary(rounds).items()]
  shares = rounds[-1]["proportional shares"]["history"][-1]["shares"]
  ideal = 1 + SLOW

  def steps(case: str) -> int:
    return len(rounds[-1][case]["loss"])

  return "\n".join([
      "# Chips of unlike speed", "", textwrap.fill(
      "Two ranks like a V100 and a K80, which made 4.39 and 0.62 steps per second: they have "
      f"{FAST_PART:.0%} and {FAST_PART * SLOW:.0%} of the time of one core, on "
      f"{machine.name(content['machine'])}. `python -m bench.unlike` trains "
      f"`examples/cluster/train_unlike.py --batch {options['batch']} --width {options['width']}`"
      f"{', each behind `' + options['prefix'] + '`' if options['prefix'] else ''}.", WIDTH), "",
      "| | samples/s | of equal shares | of the fast chip alone | largest difference of a loss |",
      "|---|--:|--:|--:|--:|", *rows, "", textwrap.fill(
      f"Medians of {len(rounds)} rounds; ratios are of cases in the same round. For proportional "
      f"shares they were {spread(rounds, 'equal shares')} times equal shares, and "
      f"{spread(rounds, 'fast chip alone')} times the fast chip alone, of {ideal:.2f} that "
      "the time of both allows; a rank is some percent faster where more of a smaller batch is in "
      f"its caches. Proportional shares were at last {shares[0]} and {shares[1]} samples. Losses "
      f"are compared with those of one process, in each of {steps('proportional shares')} steps "
      f"(with equal shares of {steps('equal shares')}).", WIDTH), ""])


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--out", type=Path, default=Path("build/unlike"))
  parser.add_argument("--rounds", type=int, default=1, help="added to those in the folder")
  parser.add_argument("--batch", type=int, default=479)
  parser.add_argument("--width", type=int, default=96)
  parser.add_argument("--prefix", default="",
                      help="a command that runs each case, such as 'nice -n -20'")
  parser.add_argument("--page", type=Path, help="run nothing; write the page of results")
  options = parser.parse_args()
  file = options.out / "unlike.json"
  rounds = json.loads(file.read_text())["rounds"] if file.exists() else []
  if options.page:
    if not rounds:
      raise SystemExit(f"bench.unlike: {file} has no rounds yet; run it without --page first")
    options.page.write_text(page(json.loads(file.read_text())))
    return
  options.out.mkdir(parents=True, exist_ok=True)
  settings = {name: getattr(options, name) for name in ("batch", "width", "prefix")}
  if rounds and json.loads(file.read_text())["options"] != settings:
    raise SystemExit(f"bench.unlike: {file} has rounds with other options; give another --out")
  for _ in range(options.rounds):
    rounds.append(one_round(options.out, options, len(rounds)))
    part = file.with_suffix(".part")
    part.write_text(json.dumps({"options": settings, "machine": machine.describe(),
                                "rounds": rounds}, indent=1))
    os.replace(part, file)
  for case, s in summary(rounds).items():
    print(f"{case:20} {s['samples_per_s']:8.0f} samples/s  {s['of_equal']:5.2f}x equal  "
          f"{s['of_alone']:5.2f}x alone  losses within {s['loss_off']:.1e}")


if __name__ == "__main__":
  main()
