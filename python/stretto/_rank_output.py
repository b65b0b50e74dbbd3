"""Where a rank's standard output and standard error go: the terminal, a file, or both (a tee), with
the rank before each line, as torchrun does it."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

STDOUT, STDERR = 1, 2
PATIENCE_S = 1.0  # for what is left in a pipe when its writer has ended


@dataclass
class RankOutput:
  prefix: str = ""
  # By stream: the file it is written to, and whether to the terminal as well.
  files: dict[int, Path] = field(default_factory=dict)
  tee: int = 0  # of STDOUT | STDERR
  unread: bool = False  # whoever reads our own output has left
  threads: list[threading.Thread] = field(default_factory=list)

  def streams(self) -> dict[str, Any]:
    """The arguments for Popen."""
    return {name: subprocess.PIPE for number, name in ((STDOUT, "stdout"), (STDERR, "stderr"))
            if number in self.files}

  def follow(self, child: subprocess.Popen) -> None:
    for number, pipe, terminal in ((STDOUT, child.stdout, sys.stdout),
                                   (STDERR, child.stderr, sys.stderr)):
      if pipe is not None:
        shown = terminal if self.tee & number else None
        self.threads.append(threading.Thread(target=self._copy, daemon=True,
                                             args=(pipe, self.files[number], shown)))
        self.threads[-1].start()

  def finish(self) -> None:
    for thread in self.threads:
      thread.join(PATIENCE_S)

  def _copy(self, pipe, path: Path, terminal) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with pipe, open(path, "wb", buffering=0) as file:
      for line in pipe:
        file.write(line)
        if terminal is None:
          continue
        try:
          terminal.write(self.prefix + line.decode(errors="replace"))
          terminal.flush()
        except OSError:
          self.unread, terminal = True, None


def parse(option: str, text: str | None, local_ranks: int) -> list[int]:
  """Reads an option in torchrun's form, "3" or "0:3,1:1" by local rank, into a number per rank."""
  chosen = [0] * local_ranks
  for word in (text or "0").split(","):
    rank, colon, number = word.rpartition(":")
    if number not in ("0", "1", "2", "3") or (colon and not rank.isdigit()):
      raise ValueError(f"{option}: expected 0 to 3 or RANK:0 to RANK:3, got {word}")
    if not colon:
      chosen = [int(number)] * local_ranks
    elif int(rank) < local_ranks:
      chosen[int(rank)] = int(number)
  return chosen


def outputs(args: argparse.Namespace, local_ranks: int, attempt: int) -> list[RankOutput] | None:
  """Where each rank writes; None if all of them write where this process does."""
  tee = parse("--tee", args.tee, local_ranks)
  redirects = parse("--redirects", args.redirects, local_ranks)
  if not any(tee) and not any(redirects):
    return None
  folder = Path(args.log_dir or tempfile.mkdtemp(prefix="stretto-logs-"))
  if not args.log_dir and not args.quiet:
    print(f"stretto run: the output of the ranks is in {folder}", file=sys.stderr)
  result = []
  for rank in range(local_ranks):
    place = folder / f"attempt_{attempt}" / str(rank)
    files = {number: place / name for number, name in ((STDOUT, "stdout.log"),
                                                       (STDERR, "stderr.log"))
             if (tee[rank] | redirects[rank]) & number}
    result.append(RankOutput(f"[{args.role}{rank}]:", files, tee[rank]))
  return result
