"""One node of a job in a cloud: unpacks the tree, starts the ranks of this node with the variables
that `stretto run` sets, and prints what they print, the rank before each line.

  python3 TAG/stretto/cluster/_cloud_node.py [--unpack]

SkyPilot starts it, with its variables SKYPILOT_NODE_RANK and SKYPILOT_NODE_IPS. Beside it lie the
files of Stretto that it needs; Stretto itself need not be installed. The last line, "[node 0] exit
3", is how `stretto cluster run` knows the exit code: SkyPilot keeps none."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2]
if not __package__:  # started as a file, whose folder is no place for modules
  sys.path[0] = str(FOLDER)

from stretto import _processes  # noqa: E402
from stretto.cluster import _agent  # noqa: E402

LATE = 124
READ_BYTES = 1 << 16
TREE = "tree.tar"
# SkyPilot takes a carriage return, as progress bars print, for the end of a line as well.
END_OF_LINE = re.compile(rb"\r?\n|\r(?![\n\r]|\Z)")


class Late(Exception):
  """The job has reached its time limit."""


class Logs:
  """The ranks write into files; whole lines of these are shown."""

  def __init__(self, folder: Path, ranks: range) -> None:
    self.files = {rank: folder / "logs" / f"rank-{rank:05}.log" for rank in ranks}
    self.offsets = dict.fromkeys(ranks, 0)
    self.rests = dict.fromkeys(ranks, b"")

  def show(self) -> bool:
    """Whether there was anything."""
    found = False
    for rank, path in self.files.items():
      try:
        with open(path, "rb") as file:
          file.seek(self.offsets[rank])
          data = file.read(READ_BYTES)
      except OSError:  # the rank has not begun
        continue
      found = found or bool(data)
      self.offsets[rank] += len(data)
      *lines, rest = END_OF_LINE.split(self.rests[rank] + data)
      if len(rest) > READ_BYTES:
        lines, rest = [*lines, rest], b""
      self.rests[rank] = rest
      for line in lines:
        write(b"[rank %d] %s" % (rank, line))
    sys.stdout.buffer.flush()
    return found

  def finish(self) -> None:
    while self.show():
      pass
    for rank, rest in self.rests.items():
      if rest:
        write(b"[rank %d] %s" % (rank, rest.rstrip(b"\r")))


def write(line: bytes) -> None:
  sys.stdout.buffer.write(line + b"\n")


def unpack() -> None:
  if (FOLDER / _agent.PACKED).exists():
    return
  for name in ("logs", "progress", "records", _agent.WORK):
    (FOLDER / name).mkdir(exist_ok=True)
  with open(FOLDER / TREE, "rb") as stream:
    _agent.unpack(str(FOLDER), stream)
  (FOLDER / TREE).unlink()


def run(spec: dict, node: int, addresses: list[str]) -> int:
  if len(addresses) != spec["nodes"]:
    write(b"[node %d] expected %d nodes, SkyPilot names %d" % (node, spec["nodes"],
                                                               len(addresses)))
    return 1
  local = spec["ranks"] // spec["nodes"]
  ranks = range(node * local, (node + 1) * local)
  common = {"PYTHONUNBUFFERED": os.environ.get("PYTHONUNBUFFERED", "1"),
            "STRETTO_JOB_FOLDER": str(FOLDER), "MASTER_ADDR": addresses[0],
            "MASTER_PORT": str(spec["port"])}
  os.chdir(FOLDER / _agent.WORK / spec["inside"])
  logs = Logs(FOLDER, ranks)
  stop = time.monotonic() + spec["limit_s"] if spec["limit_s"] else None

  def tick() -> None:
    logs.show()
    if stop is not None and time.monotonic() > stop:
      raise Late

  program = str(FOLDER / "stretto/cluster/_task.py")
  try:
    return _processes.run_all([_processes.Command(
      [spec["python"], program],
      {**common, "STRETTO_TASK": f"{rank}/{spec['ranks']}/{rank - ranks[0]}/{local}/{node}"},
      told="") for rank in ranks], tick=tick)
  except Late:
    write(b"[node %d] the time limit is reached" % node)
    return LATE
  except OSError as error:
    write(f"[node {node}] {error.filename or ''}: {error.strerror}".encode())
    return _agent.NOT_FOUND
  finally:
    logs.finish()


def main() -> int:
  unpack()
  if sys.argv[1:] == ["--unpack"]:
    return 0
  spec = json.loads((FOLDER / "spec.json").read_text())
  node = int(os.environ.get("SKYPILOT_NODE_RANK", "0"))
  addresses = os.environ.get("SKYPILOT_NODE_IPS", "127.0.0.1").split()
  code = run(spec, node, addresses)
  write(b"[node %d] exit %d" % (node, code))
  sys.stdout.buffer.flush()
  return code


if __name__ == "__main__":
  sys.exit(main())
