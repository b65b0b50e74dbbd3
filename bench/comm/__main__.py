"""Compares gradient communication with other engines, on hosts it makes itself.

  python -m bench.comm --list
  python -m bench.comm small,large --json build/comm.json
  python -m bench.comm all --peers gloo,openmpi
  python -m bench.comm simulate --help     # many ranks, in virtual time
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shlex
import signal
import sys
from pathlib import Path

from bench import machine
from bench.comm import cases, network, peers, rounds, tables


def arguments() -> argparse.Namespace:
  parser = argparse.ArgumentParser(prog="python -m bench.comm", description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("cases", nargs="?", default="all",
                      help="groups or parts of names, comma-separated (all)")
  parser.add_argument("--peers", help="only these, comma-separated")
  parser.add_argument("--rounds", type=int, help="instead of each case's own number")
  parser.add_argument("--loopback", action="store_true", help="no hosts: everything on `lo`")
  parser.add_argument("--json", type=Path, help="write the results here, after every case")
  parser.add_argument("--list", action="store_true", help="show cases and peers, run nothing")
  return parser.parse_args()


def show_list() -> None:
  for group in cases.GROUPS:
    print(group.name)
    for case in group.cases:
      print(f"  {case.name:<50}{', '.join(case.peers)}")
  print("peers")
  for peer in peers.PEERS:
    asked = ", on request" if peer.on_request or peer.like else ""
    print(f"  {peer.name:<20}{peer.about}{asked}")


def write(path: Path, results: list[list[dict]], loopback: bool) -> None:
  content = {"date": datetime.datetime.now().isoformat(timespec="seconds"),
             "machine": machine.describe(), "loopback": loopback,
             "command": "python -m bench.comm " + shlex.join(sys.argv[1:]),
             "congestion_control": network.Network(2).congestion_control,
             "results": [r for case in results for r in case]}
  path.parent.mkdir(parents=True, exist_ok=True)
  partial = path.with_name(path.name + ".partial")
  partial.write_text(json.dumps(content, indent=1) + "\n")
  os.replace(partial, path)


def say(text: str) -> None:
  if sys.stderr.isatty():
    print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def main() -> int:
  if sys.argv[1:2] == ["simulate"]:
    from bench.comm import simulate  # needs the extension module, not the network
    return simulate.main(sys.argv[2:])
  if sys.argv[1:2] == ["gains"]:
    from bench.comm import gains
    return gains.main(sys.argv[2:])
  args = arguments()
  signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # hosts and ranks go away on any exit
  if args.list:
    show_list()
    return 0
  try:
    chosen = cases.select(args.cases)
    only = [peers.find(name).name for name in args.peers.split(",")] if args.peers else None
  except ValueError as error:
    print(f"bench.comm: {error}", file=sys.stderr)
    return 2
  reason = network.unavailable()
  loopback = args.loopback or bool(reason)
  if loopback:
    print(f"All ranks on the loopback device: {reason or 'as asked'}. "
          "Ratios between peers say little about a network.\n")
  results: list[list[dict]] = []
  for outcome in rounds.run(chosen, only, args.rounds, loopback, say):
    say("")
    if outcome:
      results.append(outcome)
      print(tables.comparison(outcome), flush=True)
      if args.json:
        write(args.json, results, loopback)
  return 0


if __name__ == "__main__":
  sys.exit(main())
