"""stretto.comm on plain arrays: defaults and errors. Two ranks are two threads of this process."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import stretto
import stretto.comm


@pytest.fixture
def engines(tmp_path):
  made = [None, None]

  def make(rank):
    made[rank] = stretto.comm.Engine(f"{tmp_path}/meet", rank, 2)

  on_both(make)
  yield made
  for engine in made:
    engine.close()


def on_both(work):
  threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join(60)


@pytest.mark.parametrize("words, want", [((), [2, 5]), (("average",), [2, 5]), (("sum",), [4, 10]),
                                         (("max",), [3, 8])])
def test_all_reduce_averages_unless_told_otherwise(words, want, engines):
  arrays = [np.array([1, 2], np.float32), np.array([3, 8], np.float32)]
  on_both(lambda rank: engines[rank].all_reduce(arrays[rank], *words))
  assert [array.tolist() for array in arrays] == [want, want]
  arrays = [np.array([1, 2], np.float32), np.array([3, 8], np.float32)]
  on_both(lambda rank: engines[rank].wait(engines[rank].start_all_reduce(arrays[rank], *words)))
  assert [array.tolist() for array in arrays] == [want, want]


def test_an_unknown_reduction_is_refused_with_those_there_are(engines):
  with pytest.raises(stretto.InvalidArgumentError,
                     match="reduction: expected one of sum, average, .*, got 'mean'"):
    engines[0].all_reduce(np.zeros(2, np.float32), "mean")


def test_the_error_of_a_lost_rank_has_one_class():
  torch = pytest.importorskip("stretto.torch", exc_type=ImportError)
  assert stretto.CommError is stretto.comm.CommError is torch.CommError


def test_closing_wakes_threads_that_wait(engines):
  array = np.zeros(4, np.float32)
  caught = []

  def wait():
    try:
      engines[0].all_reduce(array)  # rank 1 does not come
    except stretto.Error as error:
      caught.append(error)

  threads = [threading.Thread(target=wait) for _ in range(4)]
  for thread in threads:
    thread.start()
  engines[0].close()
  for thread in threads:
    thread.join(60)
  assert len(caught) == 4
  # Those that came before it got the one, those that came after it the other.
  assert {type(error) for error in caught} <= {stretto.CommError, stretto.InvalidArgumentError}


THEN_STOPS = """
import os, signal, sys
import numpy as np
import stretto.comm

engine = stretto.comm.Engine(sys.argv[1], 1, 2)
engine.all_reduce(np.zeros(4, np.float32))
os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_a_wait_ends_when_a_closed_engine_is_done_with_its_memory(tmp_path, monkeypatch):
  monkeypatch.setenv("STRETTO_HOST", "a")
  other = subprocess.Popen([sys.executable, "-c", THEN_STOPS, f"{tmp_path}/meet"],
                           env={**os.environ, "STRETTO_HOST": "b"})
  try:
    engine = stretto.comm.Engine(f"{tmp_path}/meet", 0, 2)
    engine.all_reduce(np.zeros(4, np.float32))
    os.waitpid(other.pid, os.WUNTRACED)
    array = np.zeros(8 << 20, np.float32)  # more than the other takes from its socket
    handle = engine.start_all_reduce(array)
    ended, waits = [], threading.Event()

    def wait():
      waits.set()
      try:
        engine.wait(handle)
      except stretto.CommError:
        ended.append(time.monotonic())

    waiter = threading.Thread(target=wait)
    waiter.start()
    waits.wait(60)
    time.sleep(1)
    begun = time.monotonic()
    engine.close()  # goes on to send for about a second
    closed = time.monotonic()
    waiter.join(60)
    assert closed - begun > 0.5
    assert ended and ended[0] - begun > 0.5
  finally:
    os.kill(other.pid, signal.SIGKILL)
    other.wait()


MANY_RECORDS = """
import sys, threading, time
import stretto.comm

engine = stretto.comm.Engine(sys.argv[1], 0, 1)
end = time.monotonic() + 5

def ask():
  while time.monotonic() < end:
    assert engine.native.flight_json("asked").startswith("{")

def use():
  while time.monotonic() < end:
    engine.native.take_non_finite()

threads = [threading.Thread(target=work) for work in (ask, ask, ask, ask, use, use)]
for thread in threads:
  thread.start()
for thread in threads:
  thread.join()
engine.close()
print("good")
"""


# In a process of its own: what kept count of the threads inside broke, which may end the process.
def test_many_threads_may_ask_for_the_flight_record(tmp_path):
  done = subprocess.run([sys.executable, "-c", MANY_RECORDS, f"{tmp_path}/meet"],
                        capture_output=True, text=True, timeout=300)
  assert (done.returncode, done.stdout) == (0, "good\n"), done.stderr


def test_a_trace_that_cannot_be_written_is_warned_about(tmp_path, monkeypatch, caplog):
  monkeypatch.setenv("STRETTO_TRACE", str(tmp_path / "typo" / "t.json"))
  stretto.comm.Engine(f"{tmp_path}/meet", 0, 1).close()
  assert "STRETTO_TRACE: " in caplog.text and "there is no folder" in caplog.text
  assert not (tmp_path / "typo").exists()
