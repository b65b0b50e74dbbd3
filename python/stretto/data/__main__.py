"""Looks at a dataset: python -m stretto.data show PATH -o page.html, or bench PATH."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from pathlib import Path

from stretto._errors import Error, InvalidArgumentError
from stretto._log import VARIABLE
from stretto.data import ImageLoader, _measure, _peers, _show, open


def parser() -> argparse.ArgumentParser:
  root = argparse.ArgumentParser(prog="stretto data", description="Looks at a dataset of pictures")
  verbs = root.add_subparsers(dest="verb", required=True, metavar="show|bench")
  show = verbs.add_parser("show", help="write a page of what a model will see")
  show.add_argument("-o", "--out", type=Path, required=True, help="the HTML file")
  show.add_argument("--count", type=int, default=24, help="of pictures")
  show.add_argument("--epoch", type=int, default=0)
  show.add_argument("--fit", default="crop", choices=("crop", "letterbox"))
  show.add_argument("--transforms", default="", help="operators, such as rand_augment(2, 9)")
  bench = verbs.add_parser("bench", help="time loading, and say what it waits for")
  bench.add_argument("--seconds", type=float, default=3.0)
  bench.add_argument("--batch", type=int, default=64)
  bench.add_argument("--step-ms", type=float, default=0.0, help="a model's time for a batch")
  bench.add_argument("--peers", default="installed", choices=("installed", "none"),
                     help="other loaders that are timed on the same files")
  bench.add_argument("--cache", default="page", choices=("page", "user", "decoded"))
  for verb in (show, bench):
    verb.add_argument("source", help="a folder of pictures, or another source")
    verb.add_argument("--size", type=int, default=224)
    verb.add_argument("--seed", type=int, default=0)
    verb.add_argument("--threads", type=int)
    verb.add_argument("--json", action="store_true", help="print the result as JSON")
    verb.add_argument("--validation", action="store_true", help="the middle, not a random part")
  return root


def run(options: argparse.Namespace) -> None:
  common = {"train": not options.validation, "seed": options.seed, "threads": options.threads,
            "rank": 0, "world": 1, "last": "pad"}
  if options.verb == "show":
    dataset = open(options.source)
    with ImageLoader(dataset, _show.count_of(options.count, options.transforms), options.size,
                     dtype="uint8", layout="NHWC", targets=_show.targets_of(dataset),
                     fit=options.fit, transforms=options.transforms or None, **common) as loader:
      loader.set_epoch(options.epoch)
      how = "the middle" if options.validation else (
        f"random crops of epoch {options.epoch}, seed {options.seed}")
      page = _show.page(loader, f"{len(loader.dataset):,} pictures, {how}, "
                                f"{options.size}x{options.size}")
    options.out.write_text(page, encoding="utf-8")
    if options.json:
      print(json.dumps({"page": str(options.out), "pictures": page.count("<figure>")}))
    else:
      print(f"wrote {options.out}")
    return
  with ImageLoader(options.source, options.batch, options.size, cache=options.cache,
                   **common) as loader:
    result = _measure.measure(loader, options.seconds, options.step_ms / 1e3)
    names = _measure.jpeg_files(loader.dataset)
  result["peers"] = [] if options.peers == "none" or not names else _peers.compare(
    options.source, names, options.size, min(options.batch, len(names)), options.seconds)
  print(json.dumps(result) if options.json else _measure.text(result))


def show_warnings() -> None:
  """As the command shows those of its other verbs, unless the environment says how."""
  if os.environ.get(VARIABLE):
    return
  shown = logging.StreamHandler()
  shown.setLevel(logging.WARNING)
  shown.setFormatter(logging.Formatter("stretto: warning: %(message)s"))
  logging.getLogger("stretto").addHandler(shown)


def main() -> int:
  show_warnings()
  try:
    run(parser().parse_args())
  except InvalidArgumentError as error:
    print(f"stretto: {error}", file=sys.stderr)
    return 2
  except (Error, OSError) as error:
    print(f"stretto: {error}", file=sys.stderr)
    return 1
  return 0


if __name__ == "__main__":
  sys.exit(main())
