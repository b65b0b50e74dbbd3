"""Counters for Prometheus: STRETTO_METRICS_PORT=9400 serves http://host:9400/metrics for the first
rank of a host, 9401 for the second, and so on. Off by default."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import weakref
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from stretto._checks import shown
from stretto._completions import start_thread
from stretto._errors import Error, InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
  from stretto.comm import Engine

VARIABLE = "STRETTO_METRICS_PORT"
LARGEST_PORT = 65535
LOG = logging.getLogger("stretto")

# Engines must not be closed while they are asked.
LOCK = threading.Lock()
ENGINES: weakref.WeakKeyDictionary[Engine, int] = weakref.WeakKeyDictionary()  # their numbers
STATE: dict[str, Any] = {"server": None, "next": 0}


class Handler(BaseHTTPRequestHandler):

  def do_GET(self) -> None:
    if self.path.split("?")[0] != "/metrics":
      self.send_error(404)
      return
    body = page().encode()
    self.send_response(200)
    self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
    self.send_header("Content-Length", str(len(body)))
    self.end_headers()
    self.wfile.write(body)

  def log_message(self, format: str, *args: Any) -> None:
    pass


def add(engine: Engine) -> None:
  """Serves the engine's counters, if asked. InvalidArgumentError if the variable is wrong."""
  text = os.environ.get(VARIABLE)
  if not text:
    return
  host, port = address_of(text)
  with LOCK:
    ENGINES[engine] = STATE["next"]
    STATE["next"] += 1
    if STATE["server"] is not None:
      return
    place = (host, port + local_rank(engine))
    try:
      server = ThreadingHTTPServer(place, Handler)
    except (OSError, OverflowError) as error:
      LOG.warning("rank %d: no metrics on port %d: %s", engine.rank, place[1], error)
      return
    server.daemon_threads = True
    try:
      start_thread("stretto-metrics", server.serve_forever)
    except UnsupportedError as error:
      server.server_close()
      LOG.warning("rank %d: no metrics: %s", engine.rank, error)
      return
    STATE["server"] = server


def remove(engine: Engine) -> None:
  with LOCK:
    ENGINES.pop(engine, None)


def in_child() -> None:
  """A forked data loader must not hold the port."""
  global LOCK
  LOCK = threading.Lock()
  ENGINES.clear()
  if STATE["server"] is not None:
    STATE["server"].socket.close()
    STATE["server"] = None


os.register_at_fork(after_in_child=in_child)


def address_of(text: str) -> tuple[str, int]:
  """ "9400", on every interface, or "127.0.0.1:9400"."""
  host, _, port = text.rpartition(":")
  if not re.fullmatch("[0-9]{1,5}", port) or not 0 < int(port) <= LARGEST_PORT:
    raise InvalidArgumentError(f"{VARIABLE}: expected PORT or HOST:PORT, got {shown(text)}")
  return host.strip("[]"), int(port)


def local_rank(engine: Engine) -> int:
  if os.environ.get("LOCAL_RANK", "").isdigit():
    return int(os.environ["LOCAL_RANK"])
  return next(ranks.index(engine.rank) for ranks in engine.native.hosts if engine.rank in ranks)


def page() -> str:
  """Prometheus' text format: every metric once, then a line per engine."""
  lines: dict[str, list[str]] = {}
  with LOCK:
    for engine, number in list(ENGINES.items()):
      try:
        for name, labels, value in samples(engine):
          own = {"rank": str(engine.rank), "engine": str(number)} | labels
          shown = ",".join(f'{k}="{escaped(v)}"' for k, v in own.items())
          lines.setdefault(name, []).append(f"stretto_{name}{{{shown}}} {value:.17g}")
      except Error:  # it has just been closed
        continue
  parts = []
  for name, (kind, text) in METRICS.items():
    if name in lines:
      parts += [f"# HELP stretto_{name} {text}", f"# TYPE stretto_{name} {kind}", *lines[name]]
  return "".join(f"{line}\n" for line in parts)


METRICS = {
  "operations_total": ("counter", "Operations that are over."),
  "operations_failed_total": ("counter", "Operations that ended with an error."),
  "operations_pending": ("gauge", "Operations that are not over."),
  "pending_age_seconds": ("gauge", "Age of the oldest operation that is not over; 0: none."),
  "payload_bytes_total": ("counter", "Payload sent, after encoding."),
  "sent_bytes_total": ("counter", "Bytes sent over all streams, with headers."),
  "received_bytes_total": ("counter", "Bytes received over all streams, with headers."),
  "resent_chunks_total": ("counter", "Chunks that were sent again because a stream broke."),
  "dropped_messages_total": ("counter", "Messages of groups that this rank had removed."),
  "revived_streams_total": ("counter", "Broken streams that were connected again."),
  "broken_streams": ("gauge", "Streams that are broken now."),
  "sum_seconds_total": ("counter", "Time spent on adding and encoding."),
  "steps_total": ("counter", "Training steps of a group that the engine recognised."),
  "steps_seconds_total": ("counter", "Time of these steps."),
  "step_seconds": ("gauge", "Time of a step with an operation open, as last agreed on."),
  "exposed_seconds_total": ("counter", "Communication that computing did not hide."),
}


def samples(engine: Engine) -> Iterator[tuple[str, dict[str, str], float]]:
  done = engine.statistics()
  streams = [stream for link in done["links"] for stream in link["streams"]]
  flight = json.loads(engine.native.flight_json("metrics") or "{}")
  ages = [o["age_s"] for o in flight.get("operations", []) if "age_s" in o]
  yield "operations_total", {}, done["operations"]
  yield "operations_failed_total", {}, flight.get("failed", 0)
  yield "operations_pending", {}, len(ages)
  yield "pending_age_seconds", {}, max(ages, default=0.0)
  yield "payload_bytes_total", {}, done["payload_bytes"]
  yield "sent_bytes_total", {}, sum(s["sent_bytes"] for s in streams)
  yield "received_bytes_total", {}, sum(s["received_bytes"] for s in streams)
  yield "resent_chunks_total", {}, done["resent_chunks"]
  yield "dropped_messages_total", {}, done["dropped_messages"]
  yield "revived_streams_total", {}, done["revived_streams"]
  yield "broken_streams", {}, sum(not s["alive"] for s in streams)
  yield "sum_seconds_total", {}, done["sum_s"]
  for group in done["tuning"]:
    of = {"group": group["group"]}
    yield "steps_total", of, group["steps"]
    yield "steps_seconds_total", of, group["seconds"]
    yield "step_seconds", of, group["step_s"]
    yield "exposed_seconds_total", of, group["exposed_s"]


def escaped(text: str) -> str:
  return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
