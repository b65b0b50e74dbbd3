"""Models that ran before fork() work in the children: data loaders and preloading servers fork."""

import multiprocessing
import os
import signal
import threading
import time

import numpy as np
import pytest

import stretto

LIMIT_S = 60


@pytest.fixture
def model(cnn_path, image):
  made = stretto.optimize(cnn_path, tuning="off", threads=2)
  made(image)
  return made


def in_a_child(body):
  """Whether body() returns true in a forked child; a child that hangs is killed and fails."""
  child = os.fork()
  if child == 0:
    code = 2
    try:
      code = 0 if body() else 1
    finally:
      os._exit(code)
  stop = time.monotonic() + LIMIT_S
  while True:
    done, status = os.waitpid(child, os.WNOHANG)
    if done:
      return os.waitstatus_to_exitcode(status) == 0
    if time.monotonic() > stop:
      os.kill(child, signal.SIGKILL)
      os.waitpid(child, 0)
      pytest.fail("the child hangs")
    time.sleep(0.01)


def test_a_model_that_ran_before_runs_in_the_child(model, image):
  expected = model(image)
  assert in_a_child(lambda: np.array_equal(model(image), expected))
  assert in_a_child(lambda: in_a_child(lambda: np.array_equal(model(image), expected)))
  assert np.array_equal(model(image), expected)


def test_a_child_optimises_and_loads(model, cnn_path, image, tmp_path):
  model.save(tmp_path / "m.stretto")
  expected = model(image)

  def body():
    made = stretto.optimize(cnn_path, tuning="off", threads=2)
    loaded = stretto.load(tmp_path / "m.stretto", threads=2)
    return np.array_equal(made(image), expected) and np.array_equal(loaded(image), expected)

  assert in_a_child(body)


def test_a_child_forked_while_another_thread_runs_the_model(model, image):
  expected = model(image)
  enough = threading.Event()

  def run():
    while not enough.is_set():
      model(image)

  other = threading.Thread(target=run)
  other.start()
  try:
    for _ in range(3):
      assert in_a_child(lambda: np.array_equal(model(image), expected))
  finally:
    enough.set()
    other.join()


def test_a_pool_of_forked_processes(model, image):
  expected = model(image)
  with multiprocessing.get_context("fork").Pool(2) as pool:
    for result in pool.map_async(model_on, [image] * 4).get(LIMIT_S):
      assert np.array_equal(result, expected)


@pytest.fixture(autouse=True)
def shared(model):
  global SHARED  # as a server keeps its model
  SHARED = model


def model_on(x):
  return SHARED(x)
