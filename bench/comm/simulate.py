"""Plays collectives of many ranks in virtual time: the engine's schedules, negotiation and tuning.

  python -m bench.comm simulate --ranks 64,512,4096 --json build/simulate.json
  python -m bench.comm simulate --ranks 512 --link 10gbit --html build/simulate.html
  python -m bench.comm simulate --ranks 512 --ranks-per-host 1 --kind reduce_scatter,all_gather

What it plays is the code of the engine. The network and the processors are a model, so times are
not measurements; bytes and messages are counted.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.comm import simulate_page, tables
from bench.comm.simulate_page import size_text

# Assumptions, not measurements: round trips of sockets over switched Ethernet, and of RDMA at
# 100 Gbit/s. The first is what the engine assumes before it has measured anything.
LINKS = {
    "1gbit": {},
    "10gbit": {"wire_latency_s": 30e-6, "wire_message_s": 3e-6, "wire_byte_s": 0.8e-9},
    "100gbit": {"wire_latency_s": 5e-6, "wire_message_s": 1e-6, "wire_byte_s": 0.08e-9},
}
SIZES = "4,256,4K,64K,1M,16M,256M"
# An algorithm that the cost model expects to take so many times longer is not played.
HOPELESS = 20
ALGORITHMS = {
    "all_reduce": ("direct", "gather_sum", "recursive_doubling", "hierarchical",
                   "hierarchical_exchange", "tree_halving", "tree_doubling"),
    "all_gather": ("direct", "hierarchical", "ring", "recursive_doubling"),
    "reduce_scatter": ("direct", "hierarchical", "tree_halving"),
    "broadcast": ("direct", "tree", "ring", "pipelined_trees"),
    "reduce": ("direct", "gather_sum", "hierarchical", "pipelined_trees"),
    "all_to_all": ("direct",),
}
# The bytes of these are those of a rank's whole input or output; others have a block per rank.
WHOLE = ("all_reduce", "broadcast", "reduce")


def bytes_of(text: str) -> int:
  units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
  return int(text[:-1]) * units[text[-1]] if text[-1:] in units else int(text)


def arguments(words: list[str]) -> argparse.Namespace:
  parser = argparse.ArgumentParser(prog="python -m bench.comm simulate", description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--ranks", default="64,512,4096", help="sizes of jobs (%(default)s)")
  parser.add_argument("--ranks-per-host", type=int, default=8)
  parser.add_argument("--hosts-per-rack", type=int, default=0, help="0: all hosts in one rack")
  parser.add_argument("--kind", default="all_reduce",
                      help=f"all, or some of {', '.join(ALGORITHMS)} (%(default)s)")
  parser.add_argument("--sizes", default=SIZES, help="bytes, with K, M or G (%(default)s)")
  parser.add_argument("--link", choices=LINKS, default="1gbit")
  parser.add_argument("--codec", default="none", choices=("none", "fp16", "bf16", "int8"),
                      help="of all_reduce (%(default)s)")
  parser.add_argument("--names", type=int, default=200,
                      help="tensors that are negotiated (%(default)s); 0: none")
  parser.add_argument("--step", default="64M", help="bytes of a step that is tuned; 0: none")
  parser.add_argument("--most-steps", type=int, default=3_000_000,
                      help="steps of all ranks that are played per operation (%(default)s); of "
                           "longer ones the first units are played, and the rest is inferred")
  parser.add_argument("--json", type=Path, help="write the results here")
  parser.add_argument("--html", type=Path, help="write a page with curves here")
  args = parser.parse_args(words)
  try:
    args.ranks = [int(n) for n in args.ranks.split(",")]
    args.sizes = [bytes_of(s) for s in args.sizes.split(",")]
    args.step = bytes_of(args.step)
  except (ValueError, IndexError) as error:
    parser.error(str(error))
  args.kinds = list(ALGORITHMS) if args.kind == "all" else args.kind.split(",")
  if args.codec != "none" and args.kinds != ["all_reduce"]:
    parser.error("--codec: only all_reduce goes through a codec")
  for kind in args.kinds:
    if kind not in ALGORITHMS:
      parser.error(f"--kind: expected all or some of {', '.join(ALGORITHMS)}, got '{kind}'")
  return args


def show(words: str) -> None:
  """What is played now: at 512 ranks some operations and the tuning take a minute each."""
  if sys.stderr.isatty():
    print(f"\r\033[K{words}", end="", file=sys.stderr, flush=True)


def doing(ranks: int, what: str, request: dict) -> str:
  if what == "negotiation":
    return f"{ranks} ranks negotiate {request['names']} names"
  about = f"a step of {size_text(request['bytes'])}" if what == "tuning" else \
      f"{request['kind']} of {size_text(request['bytes'])}"
  return " ".join([f"{ranks} ranks {'tune' if what == 'tuning' else 'play'} {about}",
                   request.get("algorithm", "")]).rstrip()


def ask(args: argparse.Namespace, ranks: int, what: str = "", **request) -> dict:
  from stretto import _stretto
  if what != "link":
    show(doing(ranks, what, request) + " ...")
  if what:
    request["what"] = what
  answer = json.loads(_stretto.comm_simulate(json.dumps(
      {"ranks": ranks, "ranks_per_host": args.ranks_per_host,
       "hosts_per_rack": args.hosts_per_rack, "link": LINKS[args.link],
       "most_steps": args.most_steps, "codec": args.codec} | request)))
  show("")
  return answer


def operations(args: argparse.Namespace, ranks: int) -> Iterator[dict]:
  """Of each kind and size the chosen algorithm first, then the others that fit."""
  for kind in args.kinds:
    for size in args.sizes:
      count = size if kind in WHOLE else max(size // ranks, 4)
      chosen = ask(args, ranks, kind=kind, bytes=count)
      about = {"ranks": ranks, "kind": kind, "bytes": size}
      yield about | {"chosen": True, **chosen}
      for name in ALGORITHMS[kind]:
        if name == chosen["algorithm"]:
          continue
        request = {"kind": kind, "bytes": count, "algorithm": name}
        other = ask(args, ranks, **request, most_steps=0)
        if "unfit" in other:
          continue
        if other["seconds"] < HOPELESS * chosen["seconds"]:
          other = ask(args, ranks, **request)
        yield about | {"chosen": False, **other}


HEADER = (f"{'kind':<15}{'ranks':>6}{'bytes':>9}  {'algorithm':<22}{'time':>10}{'bound':>10}"
          f"{'ratio':>9}{'card bytes':>12}{'/ bound':>10}{'messages':>10}{'peers':>7}"
          f"{'played':>12}")


def row(r: dict) -> str:
  ratio = r["seconds"] / r["bound_s"] if r["bound_s"] else 0
  over = r["card_bytes"] / r["bound_bytes"] if r["bound_bytes"] else 0
  known = r["played_units"] > 0
  messages, peers = (f"{r['rank_messages']:.0f}", r["peers"]) if known else ("-", "-")
  played = f"{r['played_units']} of {r['units']}" if known else "estimate"
  return (f"{r['kind']:<15}{r['ranks']:>6}{size_text(r['bytes']):>9}  "
          f"{('*' if r['chosen'] else ' ') + r['algorithm']:<22}"
          f"{tables.time_text(r['seconds']):>10}{tables.time_text(r['bound_s']):>10}{ratio:>9.2f}"
          f"{size_text(r['card_bytes']):>12}{over:>10.2f}{messages:>10}{peers:>7}{played:>12}")


def negotiation_text(n: dict) -> str:
  lines = [f"{n['ranks']} ranks negotiate {n['names']} names:"]
  for i, r in enumerate(n["rounds"]):
    lines.append(f"  round {i + 1}: {r['agreed']} names agreed in "
                 f"{tables.time_text(r['seconds'])}, {r['rank_messages']} messages and "
                 f"{size_text(r['rank_bytes'])} sent by each rank")
  return "\n".join(lines)


def tuning_text(t: dict) -> str:
  return (f"{t['ranks']} ranks tune a step of {size_text(t['bytes'])}: "
          f"{tables.time_text(t['start_s'])} with {t['start']} becomes "
          f"{tables.time_text(t['best_s'])} with {t['best']} after {t['steps']} steps; "
          f"the fastest of all settings takes {tables.time_text(t['fastest_s'])} ({t['fastest']})")


def main(words: list[str]) -> int:
  args = arguments(words)
  began = time.monotonic()
  report: dict = {"date": datetime.datetime.now().isoformat(timespec="seconds"),
                  "command": "python -m bench.comm simulate " + shlex.join(words),
                  "kind": args.kind, "link": args.link, "link_model": ask(args, 1, what="link"),
                  "ranks_per_host": args.ranks_per_host, "hosts_per_rack": args.hosts_per_rack,
                  "operations": [], "negotiation": [], "tuning": []}
  print(f"{args.kind}, {args.ranks_per_host} ranks per host, {args.link}; * the algorithm that is "
        f"chosen\n{HEADER}")
  for ranks in args.ranks:
    for result in operations(args, ranks):
      report["operations"].append(result)
      print(row(result), flush=True)
  print()
  for ranks in args.ranks if args.names else ():
    found = ask(args, ranks, what="negotiation", names=args.names, steps=2)
    report["negotiation"].append({"ranks": ranks, "names": args.names, **found})
    print(negotiation_text(report["negotiation"][-1]), flush=True)
  if args.step and "all_reduce" in args.kinds:
    print()
    for ranks in args.ranks:
      # A bad start: the smallest unit, and the algorithm that fits everything.
      found = ask(args, ranks, what="tuning", bytes=args.step, unit_bytes=128 << 10,
                  most_steps=args.most_steps // 4)
      report["tuning"].append({"ranks": ranks, "bytes": args.step, **found})
      print(tuning_text(report["tuning"][-1]), flush=True)
  report["took_s"] = round(time.monotonic() - began, 1)
  print(f"\n{report['took_s']} s")
  if args.json:
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(report, indent=1) + "\n")
  if args.html:
    args.html.parent.mkdir(parents=True, exist_ok=True)
    args.html.write_text(simulate_page.page(report))
  return 0


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
