"""What torch asks of every process group, besides collectives: its names, ranks and abilities.

A group of torch's own has a backend per type of device, which it keeps. A group of Stretto is its
own backend. What it lacks is what torch's Gloo backend lacks as well.
"""

from __future__ import annotations

from datetime import timedelta

import torch
import torch.distributed as dist

DEVICES = ("cpu", "cuda")

BackendOptions = getattr(dist.ProcessGroup, "Options", None) \
    or torch._C._distributed_c10d.Backend.Options

# Newer versions of torch have a base class for backends in Python.
BASE = getattr(dist, "BackendBase", dist.ProcessGroup)


class Described(BASE):
  """Base of ProcessGroup, which sets what is declared here."""

  timeout_s: float
  _rank: int
  _size: int
  _name: str
  _description: str
  _sequence: int

  def rank(self) -> int:
    return self._rank

  def size(self) -> int:
    return self._size

  def name(self) -> str:
    return "stretto"

  getRank, getSize, getBackendName = rank, size, name

  def _get_backend_name(self) -> str:
    return "stretto"

  supports_splitting = supports_coalescing = supports_time_estimate = supports_shrinking = False

  def _get_backend(self, device) -> Described:
    if torch.device(device).type not in DEVICES:
      raise RuntimeError(f"No backend type associated with device type {device}")
    return self

  @property
  def _device_types(self) -> list[torch.device]:
    return [torch.device(device) for device in DEVICES
            if device == "cpu" or torch.cuda.is_available()]

  @property
  def options(self):
    return BackendOptions("stretto", timedelta(seconds=self.timeout_s))

  @property
  def bound_device_id(self) -> torch.device | None:
    return self._bound_device

  @bound_device_id.setter
  def bound_device_id(self, device: torch.device | None) -> None:
    self._bound_device = device

  _bound_device: torch.device | None = None

  def supports_tensor_alloc(self, device) -> bool:
    del device
    return False

  def _has_hooks(self) -> bool:
    return False

  def _wait_for_pending_works(self) -> None:
    pass

  @property
  def group_name(self) -> str:
    return self._name

  @property
  def group_desc(self) -> str:
    return self._description

  def _set_group_name(self, name: str) -> None:
    self._name = name

  def _set_group_desc(self, description: str) -> None:
    self._description = description

  def getGroupName(self) -> str:
    return self._name

  def getGroupDesc(self) -> str:
    return self._description

  setGroupName, setGroupDesc = _set_group_name, _set_group_desc

  def _set_sequence_number_for_group(self) -> None:
    self._sequence = 0

  def _get_sequence_number_for_group(self) -> int:
    return self._sequence
