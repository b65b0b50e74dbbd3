"""Memory, threads and processes of stretto.data: what ends when, and what is left behind."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time

import data_pictures
import numpy as np
import pytest

import stretto
from stretto import data

COUNT = 48


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  path = tmp_path_factory.mktemp("pictures")
  data_pictures.write_folder(path, COUNT, seed=2)
  return path


def loader_of(folder, **options):
  return data.ImageLoader(folder, 8, 32, **{"threads": 2, "dtype": "uint8", **options})


def threads_of(pid="self"):
  return len(os.listdir(f"/proc/{pid}/task"))


def resident_bytes():
  with open("/proc/self/statm") as file:
    return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_arrays_outlive_the_loader(folder):
  loader = loader_of(folder)
  kept = [images for images, _ in loader]
  copies = [images.copy() for images in kept]
  part = kept[2][3, 1]
  loader.close()
  del loader
  gc.collect()
  assert all(np.array_equal(a, b) for a, b in zip(kept, copies))
  del kept
  gc.collect()
  assert np.array_equal(part, copies[2][3, 1])


def test_a_batch_that_is_kept_is_never_overwritten(folder):
  with loader_of(folder) as loader:
    kept, copies = [], []
    for _ in range(3):
      for images, labels in loader:
        kept += [images, labels]
        copies += [images.copy(), labels.copy()]
    assert all(np.array_equal(a, b) for a, b in zip(kept, copies))
    addresses = [array.__array_interface__["data"][0] for array in kept[::2]]
    assert len(set(addresses)) == len(addresses)


def test_memory_goes_back_to_the_loader(folder):
  """Batches lie in few places when none is kept."""
  with loader_of(folder) as loader:
    addresses = {images.__array_interface__["data"][0] for _ in range(5) for images, _ in loader}
  assert len(addresses) <= 6


def test_arrays_may_be_written_to(folder):
  with loader_of(folder) as loader:
    for images, labels in loader:
      images[:] = 7
      labels += 1
      assert images.min() == 7


def test_torch_shares_the_memory(folder):
  torch = pytest.importorskip("torch")
  with loader_of(folder, framework="torch", dtype="float32") as loader:
    kept = [(images, images.clone(), labels) for images, labels in loader]
    assert all(isinstance(images, torch.Tensor) and labels.dtype == torch.int64
               for images, _, labels in kept)
    addresses = {images.data_ptr() for images, _, _ in kept}
    assert len(addresses) == len(kept) and all(a % 64 == 0 for a in addresses)
  assert all(torch.equal(images, copy) for images, copy, _ in kept)


def test_jax_arrays(folder):
  pytest.importorskip("jax", reason="jax is not installed")
  with loader_of(folder) as plain, loader_of(folder, framework="jax") as loader:
    for (images, labels), (others, other_labels) in zip(plain, loader):
      assert type(others).__module__.startswith("jax")
      assert np.array_equal(images, np.asarray(others))
      assert np.array_equal(labels, np.asarray(other_labels))


def test_threads_end(folder):
  before = threads_of()
  loader = loader_of(folder, threads=5)
  iter(loader)
  assert threads_of() >= before + 5
  loader.close()
  loader.close()
  assert threads_of() == before
  with pytest.raises(stretto.InvalidArgumentError, match="closed"):
    next(iter(loader))
  for _ in range(20):
    for _batch in loader_of(folder):
      break
  gc.collect()
  assert threads_of() == before


def test_memory_is_flat_over_50_epochs(folder):
  with loader_of(folder) as loader:
    for _ in range(10):
      for _batch in loader:
        pass
    gc.collect()
    before = resident_bytes()
    for _ in range(50):
      for _batch in loader:
        pass
    gc.collect()
    # A batch is 24 KiB: 400 that leaked would be 10 MB.
    assert resident_bytes() - before < 4 << 20


def test_a_child_says_that_it_has_no_threads(folder):
  loader = loader_of(folder)
  next(iter(loader))
  read, write = os.pipe()
  pid = os.fork()
  if pid == 0:
    text = ""
    try:
      next(iter(loader))
    except stretto.InvalidArgumentError as error:
      text = str(error)
    os.write(write, text.encode())
    os._exit(0)
  os.close(write)
  with os.fdopen(read) as file:
    assert "another process" in file.read()
  assert os.waitpid(pid, 0)[1] == 0
  assert len(list(loader)) == COUNT // 8


def test_close_ends_a_wait(folder):
  # A named pipe that nobody writes to would hold a thread in open(): so the wait is for a batch of
  # many pictures instead.
  loader = data.ImageLoader(folder, 4096, 512, threads=1, last="wrap")
  errors = []

  def take():
    try:
      next(iter(loader))
    except stretto.InvalidArgumentError as error:
      errors.append(str(error))

  taker = threading.Thread(target=take)
  taker.start()
  time.sleep(0.3)
  start = time.monotonic()
  loader.close()
  taker.join(30)
  assert not taker.is_alive() and time.monotonic() - start < 30
  assert len(errors) == 1 and "closed" in errors[0]


SLOW = """
import signal
import sys
import stretto.data
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
loader = stretto.data.ImageLoader(sys.argv[1], 4096, 512, threads=1, last="wrap")
batches = iter(loader)
print("waiting", flush=True)
try:
  next(batches)
except KeyboardInterrupt:
  print("interrupted", flush=True)
"""

ENDLESS = """
import sys
import stretto.data
loader = stretto.data.ImageLoader(sys.argv[1], 8, 32, threads=2, cache="user", cache_bytes=1 << 24)
print("running", flush=True)
while True:
  for batch in loader:
    pass
"""


def start(program, folder):
  child = subprocess.Popen([sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE,
                           text=True)
  assert child.stdout.readline().strip() in ("waiting", "running")
  time.sleep(0.3)
  return child


def test_ctrl_c_ends_a_wait(folder):
  child = start(SLOW, folder)
  child.send_signal(signal.SIGINT)
  out, _ = child.communicate(timeout=60)
  assert "interrupted" in out and child.returncode == 0


def test_a_process_that_is_killed_leaves_nothing(folder):
  before = set(os.listdir("/dev/shm"))
  child = start(ENDLESS, folder)
  children = subprocess.run(["ps", "--ppid", str(child.pid), "-o", "pid="], capture_output=True,
                            text=True).stdout.split()
  child.kill()
  child.wait(timeout=60)
  assert children == [] and set(os.listdir("/dev/shm")) <= before


def test_a_script_that_ends_in_an_epoch_ends(folder):
  code = ("import sys, stretto.data\n"
          "loader = stretto.data.ImageLoader(sys.argv[1], 8, 32)\n"
          "next(iter(loader))\n")
  done = subprocess.run([sys.executable, "-X", "dev", "-c", code, str(folder)],
                        capture_output=True, text=True, timeout=120)
  assert done.returncode == 0 and done.stderr == ""
