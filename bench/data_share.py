"""What a batch costs when another process makes it: `ImageLoader(share="host")` beside a loader of
the same process, in turns, with batches that are ready when they are asked for.

    python -m bench.data_share FOLDER
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

from stretto import data


def waits(loader: data.ImageLoader, batches: int, pause_s: float) -> list[float]:
  """Seconds of next() for batches that are ready, without those of an epoch's end."""
  taken: list[float] = []
  while len(taken) < batches:
    iterator = iter(loader)
    while len(taken) < batches:
      time.sleep(pause_s)
      begin = time.perf_counter()
      batch = next(iterator, None)
      end = time.perf_counter()
      if batch is None:
        break
      taken.append(end - begin)
  return taken


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("folder")
  parser.add_argument("--batch", type=int, default=32)
  parser.add_argument("--size", type=int, default=224)
  parser.add_argument("--batches", type=int, default=20, help="of each loader in each turn")
  parser.add_argument("--turns", type=int, default=5)
  parser.add_argument("--pause-ms", type=float, default=60)
  options = parser.parse_args()
  both = {share or "own": data.ImageLoader(options.folder, options.batch, options.size, rank=0,
                                           world=1, threads=1, cache="decoded", share=share)
          for share in (None, "host")}
  first = {name: np.array(next(iter(loader))[0]) for name, loader in both.items()}
  assert np.array_equal(first["own"], first["host"])
  for loader in both.values():  # memory is mapped once, and the cache is filled
    waits(loader, options.batches, options.pause_ms / 1e3)
  seconds: dict[str, list[float]] = {name: [] for name in both}
  for _ in range(options.turns):
    for name, loader in both.items():
      seconds[name] += waits(loader, options.batches, options.pause_ms / 1e3)
  megabytes = first["own"].nbytes / 1e6
  for name, taken in seconds.items():
    loader = both[name]
    stats = loader.stats()
    print(f"{name}: next() of {megabytes:.1f} MB that are ready takes "
          f"{1e6 * statistics.median(taken):.0f} us in the median, {1e6 * min(taken):.0f} at best, "
          f"{1e6 * sorted(taken)[len(taken) * 9 // 10]:.0f} for one in ten "
          f"({stats['ready']} of {stats['batches']} were ready)")
    loader.close()


if __name__ == "__main__":
  main()
