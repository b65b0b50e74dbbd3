"""One rank of the soak: python -m bench.comm.soak_rank collectives|fault FOLDER RANK SIZE SEED ...

Says what happens in lines of JSON on standard output.
"""

from __future__ import annotations

import json
import random
import sys
import time
import zlib
from collections.abc import Callable

import numpy as np

from bench.comm.resources import held
from stretto import comm

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = (*FLOATS, *INTEGERS, "bool")
COUNTS = (0, 1, 2, 3, 5, 8, 17, 64, 100, 255, 1000, 1025, 4096)
GUARD = 8  # elements behind every output that nobody may touch
WINDOW = 6  # operations under way at once
WARM = 0.2  # of the operations; after these the allocator has most of what it takes
# Contributions are pieces of it, because a generator for each would take most of the time.
POOL = np.random.default_rng(1).integers(-4, 5, 1 << 21)
SAMPLES = 100  # of the memory
REPORT_S = 10.0  # between two words about the progress


def say(**what) -> None:
  print(json.dumps({"at": time.monotonic(), **what}), flush=True)


def stored(values: np.ndarray, dtype: str) -> np.ndarray:
  """Small integers as the engine's type; bfloat16 as its bits, exact for them."""
  if dtype == "bfloat16":
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
  return values.astype(np.bool_ if dtype == "bool" else dtype)


def combined(inputs: list[np.ndarray], reduction: str, dtype: str) -> np.ndarray:
  """The plain reference, in 64-bit integers: every result here is exact in every type."""
  if dtype == "bool":
    reduction = {"sum": "or", "max": "or", "product": "and", "min": "and"}.get(reduction, reduction)
  functions: dict[str, Callable] = {"sum": np.add, "average": np.add, "product": np.multiply,
                                    "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
                                    "or": np.bitwise_or, "xor": np.bitwise_xor}
  total = inputs[0]
  for values in inputs[1:]:
    total = functions[reduction](total, values)
  return total // len(inputs) if reduction == "average" else total


class Draw:
  """Operation number `index`, the same on every rank."""

  def __init__(self, seed: int, index: int, groups: list[tuple[int, ...]]):
    r = random.Random(f"{seed}/{index}")
    self.index, self.seed = index, seed
    self.group = r.randrange(len(groups))
    self.ranks = groups[self.group]
    self.kind = r.choice(range(11))
    if self.kind in (comm.SEND, comm.RECV) and len(self.ranks) < 2:
      self.kind = comm.BARRIER
    self.dtype = r.choice(DTYPES)
    unfit = {"and", "or", "xor"} if self.dtype in FLOATS else set()
    unfit |= {"average"} if self.dtype == "bool" else set()
    self.reduction = r.choice([name for name in comm.REDUCTIONS if name not in unfit])
    self.count = r.choice(COUNTS) if r.random() < 0.9 else r.randrange(100_000)
    self.root = r.randrange(len(self.ranks))
    self.other = (self.root + 1 + r.randrange(max(len(self.ranks) - 1, 1))) % len(self.ranks)
    self.in_place = r.random() < 0.5
    self.uneven = [r.choice(COUNTS[:9]) for _ in self.ranks] if r.random() < 0.3 else []
    self.anyone = r.random() < 0.5

  def values(self, place: int, count: int) -> np.ndarray:
    """What the rank at `place` contributes."""
    first = zlib.crc32(f"{self.seed}/{self.index}/{place}".encode()) % (len(POOL) - count)
    values = POOL[first:first + count]
    if self.dtype[0] in "ub" and self.dtype != "bfloat16":
      values = np.abs(values)
    if self.dtype == "bool":
      return values & 1
    if self.reduction == "product":
      return np.where(values > 1, 2, 1) * np.where(values < 0, -1, 1)
    return values * len(self.ranks) if self.reduction == "average" else values


class Started:
  """An operation under way and what must come out."""

  def __init__(self, handle: int, output: np.ndarray, before: np.ndarray, expected: np.ndarray,
               keep: list, what: str):
    self.handle, self.output, self.before, self.keep = handle, output, before, keep
    self.expected, self.what = expected, what

  def finish(self, engine: comm.Engine) -> None:
    engine.wait(self.handle)
    n = len(self.expected)
    if self.output[:n].tobytes() != self.expected.tobytes():
      raise AssertionError(f"{self.what}: a wrong result")
    if self.output[n:].tobytes() != self.before[n:].tobytes():
      raise AssertionError(f"{self.what}: wrote behind its output")


def start(engine: comm.Engine, group: int, draw: Draw) -> Started | None:
  me, n, count = draw.ranks.index(engine.rank), len(draw.ranks), draw.count
  kind, dtype = draw.kind, draw.dtype
  sizes = draw.uneven or [count] * n
  if kind in (comm.SEND, comm.RECV):  # one of them at each end
    if me not in (draw.root, draw.other):
      return None
    kind = comm.SEND if me == draw.root else comm.RECV
  inputs, expected, extra = np.zeros(0, np.int64), np.zeros(0, np.int64), {}
  if kind in (comm.ALL_REDUCE, comm.REDUCE):
    inputs = draw.values(me, count)
    if kind == comm.ALL_REDUCE or me == draw.root:
      expected = combined([draw.values(i, count) for i in range(n)], draw.reduction, dtype)
  elif kind in (comm.BROADCAST, comm.SEND, comm.RECV):
    inputs = draw.values(draw.root, count) if me == draw.root else inputs
    expected = draw.values(draw.root, count) if kind != comm.SEND else expected
  elif kind in (comm.ALL_GATHER, comm.GATHER):
    sizes = sizes if kind == comm.ALL_GATHER else [count] * n
    inputs = draw.values(me, sizes[me])
    if kind == comm.ALL_GATHER or me == draw.root:
      expected = np.concatenate([draw.values(i, sizes[i]) for i in range(n)])
    if draw.uneven and kind == comm.ALL_GATHER:
      extra["output_counts"] = sizes
  elif kind in (comm.REDUCE_SCATTER, comm.SCATTER):
    sizes = sizes if kind == comm.REDUCE_SCATTER else [count] * n
    ends = np.cumsum([0, *sizes])
    if kind == comm.REDUCE_SCATTER:
      inputs = draw.values(me, ends[-1])
      whole = combined([draw.values(i, ends[-1]) for i in range(n)], draw.reduction, dtype)
    else:
      inputs = draw.values(draw.root, ends[-1]) if me == draw.root else inputs
      whole = draw.values(draw.root, ends[-1])
    expected = whole[ends[me]:ends[me + 1]]
    if draw.uneven and kind == comm.REDUCE_SCATTER:
      extra["input_counts"] = sizes
  elif kind == comm.ALL_TO_ALL:
    # Rank i sends part (i, j) of |i - j| + count elements to rank j.
    def parts(i: int) -> list[np.ndarray]:
      lengths = [count + (abs(i - j) if draw.uneven else 0) for j in range(n)]
      return np.split(draw.values(i, sum(lengths)), np.cumsum(lengths)[:-1])
    inputs = np.concatenate(parts(me))
    expected = np.concatenate([parts(i)[me] for i in range(n)])
    if draw.uneven:
      lengths = [count + abs(me - j) for j in range(n)]
      extra = {"input_counts": lengths, "output_counts": lengths}

  given = stored(inputs, dtype)
  room = max(len(expected), count if kind == comm.REDUCE else 0)
  output = stored(np.ones(room + GUARD, np.int64), dtype)
  in_place = draw.in_place and kind in (comm.ALL_REDUCE, comm.REDUCE, comm.BROADCAST)
  if in_place:
    output[:len(given)] = given
  before = output.copy()
  own = output if in_place else given
  if kind == comm.BROADCAST and me != draw.root:
    own = output
  amount = {comm.ALL_GATHER: sizes[me], comm.REDUCE_SCATTER: sizes[me]}.get(kind, count)
  peer = draw.other if kind == comm.SEND else draw.root
  if kind == comm.RECV and draw.anyone:
    peer = comm.ANY_PEER
  point = kind in (comm.SEND, comm.RECV)
  handle = engine.submit(group, kind=kind, dtype="uint8" if kind == comm.BARRIER else dtype,
                         reduction=comm.REDUCTIONS.index(draw.reduction), count=amount,
                         input=own.ctypes.data, output=output.ctypes.data,
                         root=0 if point else draw.root, peer=peer if point else 0,
                         tag=draw.index if point else 0, **extra)
  what = (f"rank {engine.rank}, operation {draw.index}: kind {kind} of {count} {dtype} "
          f"({draw.reduction}), root {draw.root}, ranks {draw.ranks}, uneven {draw.uneven}")
  return Started(handle, output, before, stored(expected, dtype), [given], what)


def collectives(engine: comm.Engine, seed: int, count: int) -> dict:
  """Returns what the process held after the warm-up and at the end. Memory goes up and down with
  the sizes under way, so it is the least of the first and of the second half in between."""
  r = random.Random(seed)
  groups, numbers = [tuple(range(engine.size))], [comm.WORLD]
  for i in range(6):
    members = r.sample(range(engine.size), r.randint(1, engine.size))
    groups.append(tuple(members))
    numbers.append(engine.add_group(f"g{i}", members) if engine.rank in members else -1)
  own = random.Random(f"{seed}/{engine.rank}")  # ranks wait in orders of their own
  under_way: list[Started] = []
  before, memory, reported = {}, [], time.monotonic()
  for index in range(count):
    if index == int(count * WARM):
      before = held()
    if before and index % max(count // SAMPLES, 1) == 0:
      memory.append(held()["memory_kib"])
    if engine.rank == 0 and time.monotonic() - reported > REPORT_S:
      reported = time.monotonic()
      say(what="progress", operations=index, **held())
    draw = Draw(seed, index, groups)
    if engine.rank in draw.ranks:
      started = start(engine, numbers[draw.group], draw)
      if started:
        under_way.append(started)
    while len(under_way) > own.randrange(WINDOW):
      under_way.pop(own.randrange(len(under_way))).finish(engine)
  for started in under_way:
    started.finish(engine)
  engine.barrier()
  after = held()
  memory.append(after["memory_kib"])
  half = max(len(memory) // 2, 1)
  return {"before": before | {"memory_kib": min(memory[:half])},
          "after": after | {"memory_kib": min(memory[half:] or memory)}}


def large_operations(engine: comm.Engine, elements: int) -> None:
  """For ever; ends with the engine's error."""
  arrays = [np.zeros(elements, np.float32) for _ in range(3)]
  while True:
    for handle in [engine.start_all_reduce(array, "sum") for array in arrays]:
      engine.wait(handle)


def fault(folder: str, rank: int, size: int, victim: int, idle: bool, elements: int) -> None:
  """Works until something breaks, then again without the victim."""
  store = relayed(folder, rank, victim)
  try:
    engine = comm.Engine(store, rank, size)
    say(what="ready")
    if idle:
      sys.stdin.readline()
    large_operations(engine, elements)
  except comm.CommError as error:
    say(what="error", text=str(error), rank=error.rank, link=error.link)
    if "engine" in locals():
      engine.close()
  if rank == victim:
    return
  engine = comm.Engine(folder, rank - (rank > victim), size - 1, epoch=1)
  one = np.ones(1000, np.float32)
  engine.all_reduce(one, "sum")
  say(what="again", right=bool((one == size - 1).all()))
  engine.close()


class RelayedStore:
  """Leads to other ranks by way of the relay's ports."""

  def __init__(self, folder: str, ports: dict[str, int]):
    self._folder, self._ports = folder, ports

  def path(self, key: str) -> str:
    return f"{self._folder}/{key.replace('/', '%')}"

  def set(self, key: str, value: bytes) -> None:
    import os
    with open(self.path(key) + f".{os.getpid()}", "wb") as file:
      file.write(value)
    os.replace(file.name, self.path(key))

  def get(self, key: str, timeout_s: float) -> bytes:
    stop = time.monotonic() + timeout_s
    while time.monotonic() < stop:
      try:
        with open(self.path(key), "rb") as file:
          value = file.read()
      except FileNotFoundError:
        time.sleep(0.005)
        continue
      prefix, _, rank = key.rpartition("/rank/")
      if prefix == "stretto/0" and rank in self._ports:
        value = json.dumps({**json.loads(value), "port": self._ports[rank]}).encode()
      return value
    raise TimeoutError(key)


def relayed(folder: str, rank: int, victim: int) -> str | RelayedStore:
  try:
    with open(f"{folder}/relay.json") as file:
      ports = json.load(file)
  except FileNotFoundError:
    return folder
  keep = ports if rank == victim else {str(victim): ports[str(victim)]}
  return RelayedStore(folder, keep)


def main(words: list[str]) -> None:
  role, folder = words[0], words[1]
  rank, size, seed = map(int, words[2:5])
  if role == "fault":
    fault(folder, rank, size, victim=seed, idle=words[5] == "idle", elements=int(words[6]))
    return
  engine = comm.Engine(folder, rank, size)
  try:
    say(what="done", **collectives(engine, seed, int(words[5])))
  except Exception as error:
    say(what="failed", text=f"{type(error).__name__}: {error}")
  engine.close()


if __name__ == "__main__":
  main(sys.argv[1:])
