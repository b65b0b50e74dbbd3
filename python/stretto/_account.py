"""What a rank tells about itself when its engine closes, for `stretto run --report` and `--trace`:
a file in STRETTO_RUN_FOLDER, where it sees that folder.

Ranks on other hosts than rank 0's also send it to rank 0, which writes it into its own folder. They
send eagerly and do not wait for rank 0 to ask, so that they can leave before it. Rank 0 asks for
messages of any rank, never for those of one that may have left, which would fail the job; nobody
sends to a rank 0 that has left; and no rank waits for longer than PATIENCE_S. So a rank that still
works is disturbed only if rank 0 gives up in the very moment in which another rank sends.
"""

from __future__ import annotations

import json
import logging
import os
import time
import zlib
from typing import TYPE_CHECKING, Any

from stretto import _process_end, _stretto
from stretto._errors import Error

if TYPE_CHECKING:
  from stretto.comm import Engine

PATIENCE_S = 5.0
POLL_S, LOOK_S = 0.005, 0.1
# Kinds of operations, as in stretto.comm; tags of the two messages that a rank sends.
SEND, RECV, ANY_PEER = 8, 9, -1
LENGTH, ACCOUNT = 1, 2
GROUP = "/accounts"
LARGEST = 16 << 20  # compressed
LARGEST_TEXT = 1 << 30
LOG = logging.getLogger("stretto")


def leave(engine: Engine) -> None:
  folder = os.environ.get("STRETTO_RUN_FOLDER")
  if not folder:
    return
  account = account_of(engine)
  if os.path.isdir(folder):
    write(folder, account, str(os.getpid()))
  try:
    bring_together(engine, account, folder)
  except (Error, OSError) as error:  # the page names the ranks that it lacks
    LOG.info("rank %d: the report may be incomplete: %s", engine.rank, error)


def account_of(engine: Engine) -> dict[str, Any]:
  trace = engine.native.trace_json()
  events = json.loads(trace) if trace else []
  return {"rank": engine.rank, "size": engine.size, "ended_s": time.time(),
          "statistics": engine.statistics(), "non_finite": engine.non_finite(),
          "segments": engine.segments, "shares": engine.shares,
          "trace": events["traceEvents"] if isinstance(events, dict) else events}


def write(folder: str, account: dict[str, Any], suffix: str) -> None:
  path = os.path.join(folder, f"rank-{account['rank']:05d}-{suffix}.json")
  with open(path + ".partial", "w") as file:
    json.dump(account, file)
  os.replace(path + ".partial", path)


def bring_together(engine: Engine, account: dict[str, Any], folder: str) -> None:
  near = next(ranks for ranks in engine.native.hosts if 0 in ranks)
  far = set(range(engine.size)) - set(near)
  if engine.rank in far:
    send(engine, account)
  elif engine.rank == 0 and far and os.path.isdir(folder):
    # After an exception nobody should wait for us: the others learn from our leaving.
    wait_s = 0.0 if _process_end.failed() else PATIENCE_S
    for sent in receive(engine, far, time.monotonic() + wait_s):
      write(folder, sent, "sent")


def group_of(engine: Engine) -> int:
  return engine.native.add_group(GROUP, list(range(engine.size)))


def packed(account: dict[str, Any], most: int) -> bytearray:
  """Compressed; without the trace where that is too large to be sent unasked."""
  data = zlib.compress(json.dumps(account).encode(), 1)
  if len(data) > most:
    data = zlib.compress(json.dumps(account | {"trace": []}).encode(), 1)
    LOG.warning("rank %d: its trace is too large to be sent to rank 0", account["rank"])
  return bytearray(data)


def send(engine: Engine, account: dict[str, Any]) -> None:
  if 0 not in reachable(engine):
    return
  share = engine.options.eager_limit_bytes // max(engine.size - 1, 1)
  data = packed(account, min(share // 2, LARGEST))
  length = bytearray(len(data).to_bytes(8, "little"))
  engine.kept = (data, length)  # until the engine is closed, should they not arrive in time
  group = group_of(engine)
  handles = [submit(engine, group, SEND, data, 0, ACCOUNT),
             submit(engine, group, SEND, length, 0, LENGTH)]
  stop = time.monotonic() + PATIENCE_S
  for handle in handles:
    engine.native.wait(handle, max(stop - time.monotonic(), 0.0))


def receive(engine: Engine, expected: set[int], stop: float) -> list[dict[str, Any]]:
  """What these ranks have sent, or send until `stop`."""
  group, found, kept = group_of(engine), [], []
  engine.kept = kept
  while expected:
    length = bytearray(8)
    kept.append(length)
    source = await_any(engine, submit(engine, group, RECV, length, ANY_PEER, LENGTH), expected,
                       stop)
    count = int.from_bytes(length, "little")
    if source is None or count > LARGEST:
      break
    data = bytearray(count)
    kept.append(data)
    # All of it has arrived: its length was sent after it.
    handle = submit(engine, group, RECV, data, source, ACCOUNT)
    if not engine.native.wait(handle, max(stop - time.monotonic(), PATIENCE_S)):
      break
    expected = expected - {source}
    account = unpacked(bytes(data))
    if account is not None and account.get("rank") == source:
      found.append(account)
  return found


def await_any(engine: Engine, handle: int, expected: set[int], stop: float) -> int | None:
  """The rank whose message has come; None when the time is up, or nobody is left to send one."""
  look = 0.0
  while not engine.native.poll(handle):
    now = time.monotonic()
    if now > stop:
      return None
    if now > look:
      look = now + LOOK_S
      # What they sent before they left has arrived.
      if not expected & reachable(engine) and not engine.native.poll(handle):
        return None
    time.sleep(POLL_S)
  source = engine.native.source(handle)
  engine.native.wait(handle, 0.0)
  return source


def reachable(engine: Engine) -> set[int]:
  return {link["rank"] for link in engine.statistics()["links"]
          if any(stream["alive"] for stream in link["streams"])}


def submit(engine: Engine, group: int, kind: int, data: bytearray, peer: int, tag: int) -> int:
  address = _stretto.buffer_address(data)
  return engine.native.submit(group, kind=kind, dtype="uint8", count=len(data), input=address,
                              output=address, peer=peer, tag=tag)


def unpacked(data: bytes) -> dict[str, Any] | None:
  try:
    account = json.loads(zlib.decompressobj().decompress(data, LARGEST_TEXT))
  except (zlib.error, ValueError):
    return None
  return account if isinstance(account, dict) else None
