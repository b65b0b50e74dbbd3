"""ImageLoader(pin_memory=True) and to_device, with stand-ins for CUDA's driver and torch.cuda."""

import contextlib
import shutil
import subprocess
import sys

import data_pictures
import numpy as np
import pytest

import stretto
from stretto import data

torch = pytest.importorskip("torch")

# What of libcuda.so.1 is used, for one device whose context is there from start() on.
DRIVER = """
#include <stddef.h>
static int active, contexts, registered;
static size_t bytes;
void start(void) { active = 1; }
int registered_count(void) { return registered; }
size_t registered_bytes(void) { return bytes; }
int cuDeviceGetCount(int* count) { *count = 1; return 0; }
int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* is) {
  *is = active;
  return device != 0;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = &contexts;
  return !active || device != 0;
}
int cuDevicePrimaryCtxRelease_v2(int device) { return 0; }
int cuCtxPushCurrent_v2(void* context) { ++contexts; return context != &contexts; }
int cuCtxPopCurrent_v2(void** context) { --contexts; return 0; }
int cuMemHostRegister_v2(void* memory, size_t size, unsigned flags) {
  if (contexts <= 0 || flags != 1 || (size_t)memory % 4096 != 0) return 1;
  ++registered;
  bytes += size;
  return 0;
}
int cuMemHostUnregister(void* memory) { --registered; return 0; }
int cuThreadExchangeStreamCaptureMode(int* mode) { return 0; }
int cuGetErrorName(int error, const char** name) { *name = "CUDA_ERROR"; return 0; }
"""

SCRIPT = """
import ctypes, json, sys
from stretto import data
folder, library, share = sys.argv[1:]
driver = ctypes.CDLL(library)
options = dict(batch=8, size=32, threads=1, pin_memory=True, rank=0, world=1, share=share or None)
with data.ImageLoader(folder, **options) as loader:
  before = [images.sum().item() for images, labels in loader]
  assert loader.stats()["pinned_bytes"] == driver.registered_count() == 0
  driver.start()
  for images, labels in loader: pass
  for images, labels in loader: pass
  stats = loader.stats()
  assert 0 < driver.registered_count() <= 5, driver.registered_count()
  assert 0 < stats["pinned_bytes"] <= driver.registered_bytes(), stats
  loader.set_epoch(0)
  assert [images.sum().item() for images, labels in loader] == before
  assert len(before) == 3
del images, labels, loader
import gc; gc.collect()
assert driver.registered_count() == 0, driver.registered_count()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  path = tmp_path_factory.mktemp("pictures")
  data_pictures.write_folder(path, 24)
  return path


@pytest.mark.parametrize("share", ["", "host"])
def test_a_driver_that_is_loaded_pins_batches(folder, tmp_path, share):
  compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
  assert compiler, "this test needs a C compiler: ./dev setup installs gcc"
  (tmp_path / "driver.c").write_text(DRIVER)
  library = tmp_path / "fake.so"
  subprocess.run([compiler, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", library,
                  tmp_path / "driver.c"], check=True)
  subprocess.run([sys.executable, "-c", SCRIPT, folder, library, share], check=True, timeout=120)


def test_without_cuda_nothing_is_pinned(folder):
  with data.ImageLoader(folder, 8, 32, pin_memory=True) as loader:
    list(loader)
    assert loader.stats()["pinned_bytes"] == 0
  with pytest.raises(stretto.InvalidArgumentError, match="pin_memory: expected True or False"):
    data.ImageLoader(folder, 8, 32, pin_memory="cuda")


class Copied(torch.Tensor):
  """A tensor whose copies are noted."""

  def to(self, device, non_blocking=False):
    Cuda.calls.append(("copy", device.type, non_blocking, Cuda.inside))
    return self.clone().as_subclass(Copied)

  def record_stream(self, stream):
    Cuda.calls.append(("record", stream))


class Cuda:
  """What of torch.cuda is used. Copies end when somebody waits for them."""

  calls: list = []
  inside = None
  held: set = set()  # numbers of the batches that are alive
  early: list = []  # of those that were not when their copy was waited for

  class Event:
    def __init__(self):
      self.done = False
      self.number = sum(call[0] == "event" for call in Cuda.calls)

    def record(self, stream):
      Cuda.calls.append(("event", stream))

    def query(self):
      return self.done

    def synchronize(self):
      self.done = True
      if self.number not in Cuda.held:
        Cuda.early.append(self.number)
      Cuda.calls.append(("wait", "host"))

  class Current:
    def wait_event(self, event):
      Cuda.calls.append(("wait", "stream"))

  @staticmethod
  @contextlib.contextmanager
  def stream(stream):
    Cuda.inside = stream
    yield
    Cuda.inside = None


def test_batches_are_held_until_they_are_copied(monkeypatch):
  Cuda.calls = []
  current = Cuda.Current()
  monkeypatch.setattr(torch.cuda, "Stream", lambda device: "side")
  monkeypatch.setattr(torch.cuda, "Event", Cuda.Event)
  monkeypatch.setattr(torch.cuda, "stream", Cuda.stream)
  monkeypatch.setattr(torch.cuda, "current_stream", lambda device: current)
  alive = Cuda.held = set()
  Cuda.early = []

  class Batch(tuple):
    def __del__(self):
      alive.discard(getattr(self, "number", None))  # copies have none

  def batches():
    for i in range(6):
      batch = Batch((torch.full((2,), i).as_subclass(Copied), [{"image_id": i}]))
      batch.number = i
      alive.add(i)
      yield batch
      del batch

  most = 0
  for i, (images, targets) in enumerate(data.to_device(batches(), "cuda:0")):
    assert images.tolist() == [i, i] and targets == [{"image_id": i}]
    most = max(most, len(alive))
  assert i == 5 and not alive
  assert Cuda.early == []
  # One beside those whose copies are under way.
  assert most == 3
  assert Cuda.calls[:4] == [("copy", "cuda", True, "side"), ("event", "side"), ("wait", "stream"),
                            ("record", current)]
  assert Cuda.calls.count(("wait", "host")) == 6


def test_other_devices_are_simply_copied_to(folder):
  with data.ImageLoader(folder, 8, 32, framework="torch") as loader:
    plain = [(images.clone(), labels.clone()) for images, labels in loader]
    loader.set_epoch(0)
    for (images, labels), (others, same) in zip(data.to_device(loader, "cpu"), plain, strict=True):
      assert torch.equal(images, others) and np.array_equal(labels, same)
