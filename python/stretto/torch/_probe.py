"""Measures how many samples per second this rank trains, and keeps the results in a file."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from stretto._checks import FUNCTION, NUMBER, TEXT, expected, is_count, require
from stretto._errors import FormatError

VERSION = 1  # of the file
LEAST_STEPS = 3  # timed ones; their median counts


def probe(step: Callable[[int], Any], batches: Sequence[int], model: str | torch.nn.Module,
          file: str | os.PathLike[str] | None = None, *, chip: str = "", seconds: float = 1.0,
          again: bool = False) -> dict[int, float]:
  """Measures the samples per second of one's own training step on this rank's chip.

  Each rank measures its own chip, so `step` must not wait for other ranks: call the model itself
  and not its DistributedDataParallel wrapper. The speed of a chip is never taken from a table; it
  is that of this model, with this batch, in this build.

  Args:
    step: runs one step, forward and backward, of as many samples as it is given.
    batches: batches to measure. Shares between two of them are computed from both.
    model: a name for the model in the file, or the module, from whose layers a name is made.
    file: a JSON file to which results are added (docs/formats/probe.md). What it already has for
      this model, build, chip and batch is not measured again. Ranks may share it. None: no file.
    chip: the name of the chip in the file; empty: the name that the system gives, and the number of
      threads on a CPU.
    seconds: how long each batch is measured, after a step to warm up.
    again: measure in any case.

  Returns:
    Samples per second for each batch: what `Shares` takes as `speed`.

  Raises:
    FormatError: the file is no probe file.
    InvalidArgumentError: a batch is not a positive integer.

  Examples:
    ```python
    def step(samples):
      loss_of(model(x[:samples]), y[:samples]).backward()

    speed = stretto.torch.probe(step, (32, 128), "digits", "probe.json")
    ```
  """
  require("probe", step=(step, FUNCTION), chip=(chip, TEXT), seconds=(seconds, NUMBER))
  if not isinstance(model, (str, torch.nn.Module)) or model == "":
    raise expected("probe: model", "a name or a torch.nn.Module", model)
  batches = list(batches)
  for batch in batches:
    if not is_count(batch) or batch == 0:
      raise expected("probe: batches", "integers from 1 on", batch)
  if not batches:
    raise expected("probe: batches", "at least one batch", "none")
  path = None if file is None else Path(file)
  key = {"model": model if isinstance(model, str) else name_of(model), "build": build(),
         "chip": chip or chip_name()}
  known = {} if path is None or again else speeds(read(path), key)
  measured = {batch: measure(step, batch, seconds) for batch in batches if batch not in known}
  if path is not None and measured:
    record(path, key, measured)
  return {batch: known.get(batch) or measured[batch] for batch in sorted(set(batches))}


def measure(step: Callable[[int], Any], batch: int, seconds: float) -> float:
  """Samples per second."""
  def timed() -> float:
    begin = time.perf_counter()
    step(batch)
    if torch.cuda.is_initialized():
      torch.cuda.synchronize()
    return time.perf_counter() - begin

  timed()
  times: list[float] = []
  while len(times) < LEAST_STEPS or sum(times) < seconds:
    times.append(max(timed(), 1e-9))
  return batch / statistics.median(times)


def name_of(model: torch.nn.Module) -> str:
  """From the classes of its modules and the shapes of its parameters."""
  lines = [f"{name} {type(module).__qualname__}" for name, module in model.named_modules()]
  lines += [f"{name} {tuple(p.shape)} {p.dtype}" for name, p in model.named_parameters()]
  digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]
  return f"{type(model).__qualname__}-{digest}"


def build() -> str:
  """What may make the same chip faster or slower."""
  cuda, hip = torch.version.cuda, getattr(torch.version, "hip", None)
  return f"torch {torch.__version__}" + (f", CUDA {cuda}" if cuda else "") + (
      f", HIP {hip}" if hip else "")


def chip_name() -> str:
  if torch.cuda.is_available():
    return str(torch.cuda.get_device_name())
  name = "CPU"
  with contextlib.suppress(OSError, StopIteration):
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    name = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
  return f"{name}, {torch.get_num_threads()} threads"


# The file.

def read(path: Path) -> list[dict[str, Any]]:
  """The records of a file; none if there is no file."""
  try:
    text = path.read_text()
  except FileNotFoundError:
    return []
  try:
    content = json.loads(text)
    records = content["speeds"]
    if content["probe"] != VERSION:
      raise FormatError(f"{path}: version {content['probe']} of a probe file; this Stretto reads "
                        f"version {VERSION}. Delete the file, or give another name")
    for entry in records:
      if not entry["samples_per_s"] > 0 or not is_count(entry["batch"]):
        raise ValueError(f"a record says {entry}")
      speeds([entry], {"model": "", "build": "", "chip": ""})
  except (ValueError, KeyError, TypeError) as error:
    if isinstance(error, FormatError):
      raise
    raise FormatError(f"{path}: this is no probe file ({type(error).__name__}: {error}). Delete "
                      "it, or give another name") from None
  return list(records)


def speeds(records: list[dict[str, Any]], key: dict[str, str]) -> dict[int, float]:
  return {entry["batch"]: float(entry["samples_per_s"]) for entry in records
          if all(entry[name] == value for name, value in key.items())}


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
  """Ranks of one host add to the same file."""
  with path.with_name(path.name + ".lock").open("w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    yield


def record(path: Path, key: dict[str, str], measured: dict[int, float]) -> None:
  path.parent.mkdir(parents=True, exist_ok=True)
  with locked(path):
    kept = [entry for entry in read(path)
            if entry["batch"] not in measured or any(entry[n] != v for n, v in key.items())]
    kept += [key | {"batch": batch, "samples_per_s": speed} for batch, speed in measured.items()]
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(json.dumps({"probe": VERSION, "speeds": kept}, indent=1) + "\n")
    os.replace(part, path)
