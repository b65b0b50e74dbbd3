"""What each clever thing of the gradient engine gains: the same job with it and without it, or with
other engines.

  python -m bench.comm.gains --list
  python -m bench.comm.gains --json build/gains.json
  python -m bench.comm.gains tuning,mixed
  python -m bench.comm.gains accumulate --seed 3    # the model begins with other values

All variants of a row are up at once on the same hosts and take turns, as in bench.comm. A row says
what was promised and whether it was reached; every result is checked before it counts.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import random
import shlex
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench import machine
from bench.comm import gains_engines
from bench.comm.cases import MB, contiguous
from bench.comm.gains_engines import Against
from bench.comm.network import Hosts, Network, unavailable
from bench.comm.peers import Peer
from bench.comm.processes import RankLost, Ranks, Skipped
from bench.comm.ratios import Times, gain_over, gain_over_best
from bench.comm.rounds import median
from bench.comm.tables import time_text

TURN_TIMEOUT_S = 300.0
BASE_PORT = 29700
NO_CACHE = {"STRETTO_TUNING_CACHE": "none"}
EQUAL_LOSS = 0.02
MIXED_ERROR = 0.01  # STRETTO_MIXED_ERROR
BAD_START = "unit=131072 streams=1 algorithm=gather_sum"


@dataclass(frozen=True)
class Variant:
  name: str
  environment: dict[str, str] = field(default_factory=dict)
  wire: str = ""  # a codec that the process group asks for


@dataclass(frozen=True)
class Gain:
  """`promised` compares the variants by name, in seconds per step of every turn: it returns what
  was reached, as a ratio, and whether that is what the row promises."""
  name: str
  promise: str
  network: Network
  model: str
  variants: tuple[Variant, ...]
  promised: Callable[[Times], tuple[float, bool]]
  peer: str = "stretto"
  ranks: int = 2
  steps: int = 5    # of a turn
  warm_up: int = 5  # steps without a break, before the first turn
  rounds: int = 7
  equal_loss: float = 0  # the losses after as many steps may differ by so much; 0: not compared
  # How far the mean of a tensor may be from the exact one with the last variant, as a share of the
  # tensor's norm; 0: not compared.
  most_error: float = 0


def fixed(setting: str) -> dict[str, str]:
  return {**NO_CACHE, "STRETTO_TUNING": "off", "STRETTO_TUNING_START": setting}


def tuning() -> list[Gain]:
  promise = "after 50 steps at least 0.95 of the best fixed setting"

  def row(name: str, network: Network, tensor_mb: int, algorithms: tuple[str, ...] = ("direct",),
          **others: int) -> Gain:
    settings = [f"unit={unit} streams={streams} algorithm={algorithm}" for algorithm in algorithms
                for unit in (512 << 10, 2 << 20) for streams in (1, 2, 4, 8)]
    variants = (Variant("tuned from a bad start", {**NO_CACHE, "STRETTO_TUNING_START": BAD_START}),
                Variant("bad start, kept", fixed(BAD_START)),
                *(Variant(setting, fixed(setting)) for setting in settings))

    def promised(times: Times) -> tuple[float, bool]:
      reached = gain_over_best(times, settings, "tuned from a bad start")
      return reached, reached >= 0.95

    return Gain(f"tuning at {name}", promise, network, f"4 x {tensor_mb * MB}", variants, promised,
                peer="stretto-core", warm_up=50, **others)

  # Two hosts of one rank each send as much by a bad algorithm as by the best, so that at 1 Gbit/s
  # nothing is to be gained; with two ranks each, gather_sum sends four times as much.
  return [row("1 Gbit/s", Network(2), 2, rounds=5, steps=5),
          row("1 Gbit/s on 2 x 2", Network(2), 2, ("direct", "hierarchical"), ranks=4, rounds=5,
              steps=5),
          row("250 Mbit/s per connection", Network(2, flow_mbit=250), 2, rounds=5, steps=5),
          row("no limit of speed", Network(2, rails_mbit=(0,)), 16, rounds=20, steps=10)]


def segments() -> list[Gain]:
  variants = (Variant("whole buckets", NO_CACHE),
              Variant("segments", {**NO_CACHE, "STRETTO_BENCH_SEGMENTS": "1"}))

  def at_least(least: float) -> Callable[[Times], tuple[float, bool]]:
    def promised(times: Times) -> tuple[float, bool]:
      reached = gain_over(times, "whole buckets", "segments")
      return reached, reached >= least
    return promised

  return [Gain("segments with a long tail", "at least 1.1 times as fast",
               Network(2, rails_mbit=(2000,)), "digits-mlp", variants, at_least(1.1), warm_up=50),
          Gain("segments without a tail", "at least 0.99 times as fast",
               Network(2, rails_mbit=(0,)), "digits", variants, at_least(0.99), warm_up=150,
               steps=10, rounds=9)]


def mixed() -> list[Gain]:
  codecs = ("none", "fp16", "bf16", "int8")
  variants = tuple(Variant(codec, {**NO_CACHE, "STRETTO_CODEC": codec,
                                   "STRETTO_MIXED_ERROR": str(MIXED_ERROR)})
                   for codec in (*codecs, "mixed"))

  def promised(times: Times) -> tuple[float, bool]:
    reached = gain_over_best(times, codecs, "mixed")
    return reached, reached >= 0.95

  # What ranks contribute is encoded, and their mean once more.
  most = 2 * MIXED_ERROR
  promise = ("at least 0.95 of the best fixed codec; errors of an encoding at most "
             f"{MIXED_ERROR:g} of a tensor's norm, of a mean {most:g}")
  return [Gain(f"mixed at {name}", promise,
               Network(2, rails_mbit=(mbit,)), "digits", variants, promised, warm_up=15,
               steps=5 if mbit else 20, most_error=most)
          for name, mbit in (("100 Mbit/s", 100), ("1 Gbit/s", 1000), ("no limit of speed", 0))]


def policies() -> list[Gain]:
  """Against an exchange in every step with the same codec, after as many steps.

  Accumulation makes the batch larger, so its learning rate is larger by as much. It trains for more
  steps, because with a quarter of the updates the loss falls late."""
  slow = {"accumulate:4": Network(2, rails_mbit=(100,)), "local:4": Network(2, rails_mbit=(100,)),
          "local:4:overlap": Network(2, rails_mbit=(100,)),
          "gossip:8:overlap": Network(8, rails_mbit=(100,))}
  rows = []
  for policy, network in slow.items():
    least = 1.5 if "gossip" in policy else 2.5
    for codec in ("none", "fp16"):
      larger = "accumulate" in policy
      rate = {"STRETTO_BENCH_RATE_FACTOR": "4"} if larger else {}
      every = {**NO_CACHE, "STRETTO_CODEC": codec}
      variants = (Variant("every", every),
                  Variant(policy, {**every, "STRETTO_STEP_POLICY": policy, **rate}))

      def promised(times: Times, policy: str = policy, least: float = least) -> tuple[float, bool]:
        reached = gain_over(times, "every", policy)
        return reached, reached >= least

      more = " at 4 times the learning rate" if larger else ""
      rows.append(Gain(f"{policy} with {codec}{more}",
                       f"at least {least} times the steps per second, loss within {EQUAL_LOSS}",
                       network, "digits", variants, promised, ranks=network.hosts, steps=8,
                       warm_up=360 if larger else 120, rounds=5, equal_loss=EQUAL_LOSS))
  return rows


def sparse() -> list[Gain]:
  """Codecs for very slow networks, with their default density and rank. The warm-up of topk, in
  which it sends more, ends before the first turn."""
  rows = []
  for codec in ("topk", "powersgd"):
    for name, mbit, least in (("100 Mbit/s", 100, 5.0), ("1 Gbit/s", 1000, 1.5)):
      settings = {**NO_CACHE, "STRETTO_TOPK_WARMUP": "100"}
      variants = tuple(Variant(each, {**settings, "STRETTO_CODEC": each})
                       for each in ("none", codec))

      def promised(times: Times, codec: str = codec, least: float = least) -> tuple[float, bool]:
        reached = gain_over(times, "none", codec)
        return reached, reached >= least

      rows.append(Gain(f"{codec} at {name}",
                       f"at least {least:g} times the steps per second, loss within {EQUAL_LOSS}",
                       Network(2, rails_mbit=(mbit,)), "digits", variants, promised, steps=8,
                       warm_up=200, rounds=5, equal_loss=EQUAL_LOSS))
  return rows


GROUPS: dict[str, list[Gain] | list[Against]] = {
    "tuning": tuning(), "segments": segments(), "mixed": mixed(), "sparse": sparse(),
    "policies": policies(),
    "horovod": gains_engines.horovod(), "sizes": gains_engines.sizes()}


def select(words: str) -> list[Gain | Against]:
  chosen: list[Gain | Against] = []
  for word in words.split(","):
    everything = [gain for gains in GROUPS.values() for gain in gains]
    found = ([gain for gain in everything if gain.name == word] or
             [gain for group, gains in GROUPS.items() for gain in gains
              if word in ("all", group) or word in gain.name])
    if not found:
      raise ValueError(f"no gain '{word}'; groups: {', '.join(GROUPS)}")
    chosen += [gain for gain in found if gain not in chosen]
  return chosen


def run(gain: Gain | Against, number: int, rounds: int, say: Callable[[str], None]) -> dict:
  row = {"gain": gain.name, "promise": gain.promise}
  with_engines = isinstance(gain, Against)
  return row | (gains_engines.run if with_engines else run_variants)(gain, number, rounds, say)


def run_variants(gain: Gain, number: int, rounds: int, say: Callable[[str], None]) -> dict:
  reason = unavailable(gain.network)
  if reason:
    return {"status": "skipped", "reason": reason}
  with contextlib.ExitStack() as stack:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stretto-gains-")))
    try:
      hosts = stack.enter_context(Hosts(gain.network, f"g{number}"))
      ranks = contiguous(gain.network.hosts, gain.ranks // gain.network.hosts)
      running = {variant.name: stack.enter_context(
          Ranks(Peer(f"v{i}", "", "", like=gain.peer, environment=variant.environment or NO_CACHE),
                hosts, ranks, BASE_PORT + i, folder))
                 for i, variant in enumerate(gain.variants)}
      return measure(gain, running, rounds, say)
    except (RankLost, Skipped, RuntimeError) as why:
      return {"status": "failed", "reason": str(why)}


def measure(gain: Gain, running: dict[str, Ranks], rounds: int, say) -> dict:
  times: Times = {variant.name: [] for variant in gain.variants}
  losses: dict[str, float] = {}
  errors: dict[str, float] = {}
  order = list(gain.variants)
  shuffle = random.Random(0)
  for turn in range(rounds + 1):
    say(f"{gain.name}: " + (f"turn {turn} of {rounds}" if turn else "warm-up"))
    shuffle.shuffle(order)
    for variant in order:
      replies = running[variant.name].ask(TURN_TIMEOUT_S, kind="steps", bytes=0,
                                          operations=gain.steps if turn else gain.warm_up,
                                          model=gain.model, wire=variant.wire)
      if not all(reply["correct"] for reply in replies):
        return {"status": "wrong", "reason": f"{variant.name}: the results are not right"}
      if turn:
        times[variant.name].append(max(r["seconds"] for r in replies) / gain.steps)
  for variant in order:
    replies = running[variant.name].ask(TURN_TIMEOUT_S, kind="steps", bytes=0, operations=0,
                                        model=gain.model, wire=variant.wire, last=True,
                                        error=gain.most_error > 0)
    if "loss" in replies[0]:
      losses[variant.name] = max(reply["loss"] for reply in replies)
    if "error" in replies[0]:
      errors[variant.name] = max(reply["error"] for reply in replies)
  medians = {name: median(seconds) for name, seconds in times.items()}
  reached, kept = gain.promised(times)
  if gain.equal_loss:
    kept &= max(losses.values()) - losses[gain.variants[0].name] <= gain.equal_loss
  if gain.most_error:
    kept &= errors[gain.variants[-1].name] <= gain.most_error
  return {"status": "ok", "reached": reached, "kept": kept, "median_s": medians, "seconds": times,
          "loss": losses, "error": errors, "most_error": gain.most_error}


def text(row: dict) -> str:
  lines = [f"{row['gain']}: {row['promise']}"]
  if row["status"] != "ok":
    return "\n".join([*lines, f"  {row['status']}: {row['reason']}", ""])
  for name, seconds in sorted(row["median_s"].items(), key=lambda item: item[1]):
    loss = f"   loss {row['loss'][name]:.4f}" if name in row["loss"] else ""
    error = f"   error {row['error'][name]:.6f}" if name in row["error"] else ""
    lines.append(f"  {name:<44}{time_text(seconds):>10}{loss}{error}")
  lines.append(f"  {'reached' if row['kept'] else 'MISSED'}: {row['reached']:.2f}")
  return "\n".join([*lines, ""])


def main(words: list[str]) -> int:
  parser = argparse.ArgumentParser(prog="python -m bench.comm.gains", description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("gains", nargs="?", default="all",
                      help="groups or parts of names, comma-separated (all)")
  parser.add_argument("--rounds", type=int, help="instead of each row's own number")
  parser.add_argument("--seed", type=int, default=0, help="of the models' first values (0)")
  parser.add_argument("--json", type=Path, help="write the results here, after every row")
  parser.add_argument("--list", action="store_true", help="show the rows, run nothing")
  args = parser.parse_args(words)
  if args.list:
    for group, gains in GROUPS.items():
      print(group)
      for gain in gains:
        print(f"  {gain.name:<52}{gain.promise}")
    return 0
  try:
    chosen = select(args.gains)
  except ValueError as error:
    print(f"bench.comm.gains: {error}", file=sys.stderr)
    return 2
  os.environ["STRETTO_BENCH_SEED"] = str(args.seed)
  rows = []
  for number, gain in enumerate(chosen):
    progress = lambda words: sys.stderr.isatty() and print(f"\r\033[K{words}", end="",
                                                           file=sys.stderr, flush=True)
    rows.append(run(gain, number, args.rounds or gain.rounds, progress))
    progress("")
    print(text(rows[-1]), flush=True)
    if args.json:
      content = {"date": datetime.datetime.now().isoformat(timespec="seconds"),
                 "machine": machine.describe(),
                 "command": "python -m bench.comm.gains " + shlex.join(words), "rows": rows}
      args.json.parent.mkdir(parents=True, exist_ok=True)
      partial = args.json.with_name(args.json.name + ".partial")
      partial.write_text(json.dumps(content, indent=1) + "\n")
      os.replace(partial, args.json)
  return 0 if all(row.get("kept", row["status"] == "skipped") for row in rows) else 1


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
