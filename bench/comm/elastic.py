"""Draws the loss of examples/python/train_elastic.py while a rank is killed and another one joins,
over that of a job that is left alone.

  python -m bench.comm.elastic -o build/elastic    # curves, logs and elastic.svg
  python -m bench.comm.elastic --publish           # also writes docs/images/elastic.svg

Three ranks train. Rank 0 is killed (SIGKILL) while steps run. A second `stretto run` then brings a
new rank; the job waits for it at a step, because it would else be over before. Exit code 1 when the
losses of the two jobs differ by more than sums in another order explain.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from bench.comm.rounds import free_port
from bench.plot_readme import IMAGES, text_at

SCRIPT = Path(__file__).resolve().parents[2] / "examples/python/train_elastic.py"
TIMEOUT_S = 150.0
SECRET = secrets.token_hex(16)  # of all launchers: they are one job
STEPS, KILL_AT, JOIN_AT = 200, 40, 120
# Sums of two and of three ranks round differently, and training carries that on.
TOLERANCE = 1e-3

WIDTH, HEIGHT, LEFT, RIGHT = 860, 440, 60, 24
LOSS_TOP, LOSS_BOTTOM = 84.0, 304.0
RANKS_TOP, RANKS_BOTTOM = 326.0, 378.0
ALONE, GREY, GRID = "#cfd8e3", "#555555", "#e4e4e4"
COLORS = ("#2e8540", "#c26a00", "#1f6fb4")  # of a job with 1, 2 and 3 ranks


class Job:
  """`stretto run` of the example, followed by what it prints."""

  def __init__(self, name: str, folder: Path, *words: str, waits: str = ""):
    self.out, self.log = folder / f"{name}.json", folder / f"{name}.log"
    command = [sys.executable, "-m", "stretto", "run", *words, str(SCRIPT), "--steps", str(STEPS),
               "--out", str(self.out), *(["--wait-for", waits] if waits else [])]
    with self.log.open("w") as log:
      self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT,
                                       env={**os.environ, "STRETTO_SECRET": SECRET})

  def __enter__(self) -> Job:
    return self

  def __exit__(self, *_) -> None:
    self._process.terminate()  # which ends its ranks as well
    self._process.wait()

  def until(self, pattern: str) -> re.Match[str]:
    """Waits for a line of the output."""
    stop = time.monotonic() + TIMEOUT_S
    while not (found := re.search(pattern, self.log.read_text(), re.M)):
      if self._process.poll() is not None or time.monotonic() > stop:
        raise SystemExit(f"no line '{pattern}' in {self.log}:\n{self.log.read_text()}")
      time.sleep(0.002)
    return found

  def curve(self) -> list[dict]:
    if self._process.wait(TIMEOUT_S):
      raise SystemExit(f"the job failed:\n{self.log.read_text()}")
    return json.loads(self.out.read_text())


def alone(folder: Path) -> list[dict]:
  with Job("alone", folder, "--elastic", "3:3") as job:
    return job.curve()


def disturbed(folder: Path) -> tuple[list[dict], float]:
  """The curve, and the seconds from the kill until the others are a job again."""
  meeting = ("--elastic", "2:3", "--master-addr", "127.0.0.1", "--master-port", str(free_port()))
  waits = f"{(KILL_AT + JOIN_AT) // 2}:2,{JOIN_AT}:3"  # the first one should the kill come late
  with Job("disturbed", folder, *meeting, "-n", "3", waits=waits) as job:
    process = int(job.until(r"^rank 0 of 3: process (\d+)$")[1])
    job.until(f"^step {KILL_AT}:")
    os.kill(process, signal.SIGKILL)
    begin = time.monotonic()
    job.until("^now rank 0 of 2")
    seconds = time.monotonic() - begin
    with Job("new", folder, *meeting, "-n", "1", "--node-rank", "1", waits=waits) as new:
      new.until("^rank 2 of 3")
      return job.curve(), seconds


def difference(curve: list[dict], other: list[dict]) -> float:
  return max(abs(a["loss"] - b["loss"]) for a, b in zip(curve, other, strict=True))


def spans(curve: list[dict]) -> list[tuple[int, int, int]]:
  """Ranks, first step and last step wherever their number stays."""
  found: list[tuple[int, int, int]] = []
  for step, point in enumerate(curve):
    if found and found[-1][0] == point["ranks"]:
      found[-1] = (*found[-1][:2], step)
    else:
      found.append((point["ranks"], step, step))
  return found


def picture(still: list[dict], curve: list[dict], recovery_s: float) -> str:
  steps, high = len(curve), max(point["loss"] for point in [*still, *curve])
  most = max(point["ranks"] for point in curve)

  def x(step: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * step / steps

  def y(loss: float) -> float:
    return LOSS_BOTTOM - (LOSS_BOTTOM - LOSS_TOP) * loss / (high * 1.05)

  def ranks_y(ranks: int) -> float:
    return RANKS_BOTTOM - (RANKS_BOTTOM - RANKS_TOP) * ranks / most

  def line(points: list[tuple[float, float]], color: str, width: float) -> str:
    text = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    return (f'<polyline points="{text}" fill="none" stroke="{color}" stroke-width="{width}" '
            'stroke-linejoin="round" stroke-linecap="round"/>')

  body = [text_at(16, 24, "Training goes on when a rank is killed and when one joins",
                  font_weight="bold"), *legend(curve)]
  for tick in range(int(high / 0.5) + 1):
    at = y(tick / 2)
    body.append(f'<line x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}" '
                f'stroke="{GRID}"/>')
    body.append(text_at(LEFT - 10, at + 4, f"{tick / 2:.1f}", text_anchor="end", fill=GREY))
  body.append(text_at(16, LOSS_TOP - 12, "loss", fill=GREY))
  body.append(line([(x(i), y(point["loss"])) for i, point in enumerate(still)], ALONE, 7))
  before = 0
  for ranks, first, final in spans(curve):
    color = COLORS[ranks - 1]
    body.append(f'<rect x="{x(first):.1f}" y="{ranks_y(ranks):.1f}" '
                f'width="{x(final + 1) - x(first):.1f}" '
                f'height="{RANKS_BOTTOM - ranks_y(ranks):.1f}" fill="{color}" opacity="0.85"/>')
    body.append(text_at((x(first) + x(final + 1)) / 2, RANKS_BOTTOM - 8, f"{ranks} ranks",
                        text_anchor="middle", fill="#ffffff"))
    shown = range(first, min(final + 2, steps))  # joined to what follows
    body.append(line([(x(i), y(curve[i]["loss"])) for i in shown], color, 1.8))
    if before:
      words = (("rank 0 is killed (kill -9)", f"{ranks} ranks go on after {recovery_s:.2f} s")
               if ranks < before else ("a new rank joins", f"{ranks} ranks go on"))
      body.append(f'<line x1="{x(first):.1f}" y1="{LOSS_TOP - 20:.1f}" x2="{x(first):.1f}" '
                  f'y2="{RANKS_BOTTOM:.1f}" stroke="#222222" stroke-dasharray="4 3"/>')
      body.append(text_at(x(first) + 8, LOSS_TOP - 10, words[0], font_weight="bold"))
      body.append(text_at(x(first) + 8, LOSS_TOP + 8, words[1], fill=GREY))
    before = ranks
  for step in range(0, steps + 1, 50):
    body.append(text_at(x(step), RANKS_BOTTOM + 18, str(step), text_anchor="middle", fill=GREY))
  body.append(text_at(16, RANKS_BOTTOM + 18, "step", fill=GREY))
  apart = f"{difference(still, curve):.0e}".replace("e-0", "e-")
  body.append(text_at(16, HEIGHT - 14, "Handwritten digits; a step has the same images for any "
                      f"number of ranks. The losses of the two jobs differ by at most {apart}.",
                      fill=GREY, font_size="12"))
  return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
          f'width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="13" '
          f'fill="#222222">\n<rect width="100%" height="100%" fill="#ffffff"/>\n'
          + "\n".join(body) + "\n</svg>\n")


def legend(curve: list[dict]) -> list[str]:
  entries = [(f"{ranks} ranks", COLORS[ranks - 1], 2.5)
             for ranks in sorted({point["ranks"] for point in curve}, reverse=True)]
  parts, at = [], WIDTH - RIGHT
  for words, color, width in [("undisturbed job", ALONE, 7), *reversed(entries)]:
    parts.append(text_at(at, 24, words, text_anchor="end"))
    at -= 7.2 * len(words) + 8
    parts.append(f'<line x1="{at - 24:.1f}" y1="20" x2="{at:.1f}" y2="20" stroke="{color}" '
                 f'stroke-width="{width}"/>')
    at -= 42
  return parts


def main() -> int:
  parser = argparse.ArgumentParser(prog="python -m bench.comm.elastic", description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("-o", "--out", type=Path, default=Path("build/elastic"))
  parser.add_argument("--publish", action="store_true", help="write docs/images/elastic.svg")
  args = parser.parse_args()
  args.out.mkdir(parents=True, exist_ok=True)
  still = alone(args.out)
  curve, seconds = disturbed(args.out)
  file = args.out / "elastic.svg"
  file.write_text(picture(still, curve, seconds))
  apart = difference(still, curve)
  print(f"{file}: two ranks went on {seconds:.2f} s after the kill; losses differ by {apart:.1e}")
  if apart > TOLERANCE:
    return 1
  if args.publish:
    shutil.copy(file, IMAGES / "elastic.svg")
  return 0


if __name__ == "__main__":
  sys.exit(main())
