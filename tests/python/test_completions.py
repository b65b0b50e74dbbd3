"""The thread that calls Python when operations end, and the others that an engine starts."""

import logging
import queue
import socket
import threading

import pytest

import stretto
from stretto import _completions as completions
from stretto import _heartbeat as heartbeat
from stretto import _metrics as metrics

# A guard against hanging for ever, not a statement about speed.
LONG_S = 60


class Native:
  """Operations that end when the test says so."""

  def __init__(self):
    self.ended = queue.Queue()

  def next_completions(self, timeout_s):
    try:
      return self.ended.get(timeout=timeout_s)
    except queue.Empty:
      return []

  def interrupt(self):
    self.ended.put([])


class Owner(completions.Completions):

  def close(self):
    if self._stop():
      self._drop(stretto.CommError("closed"))


@pytest.fixture
def owner():
  owner = Owner(Native())
  yield owner
  owner.close()


@pytest.fixture
def no_thread(monkeypatch):
  """Threads do not start until it is called."""

  def start(thread):
    raise RuntimeError("can't start new thread")

  with monkeypatch.context() as patch:
    patch.setattr(threading.Thread, "start", start)
    yield patch.undo


def test_an_operation_is_not_started_without_the_thread_that_reports_it(owner, no_thread):
  submitted = []

  def submit():
    submitted.append(len(submitted))
    return submitted[-1]

  with pytest.raises(stretto.UnsupportedError, match="stretto-completions: the system starts no"):
    owner._queue(submit, print)
  assert not submitted
  no_thread()
  done = queue.Queue()
  owner._queue(submit, done.put)
  owner.native.ended.put([(0, None)])
  assert done.get(timeout=LONG_S) is None


def test_what_never_started_can_be_closed(owner, no_thread):
  with pytest.raises(stretto.UnsupportedError):
    owner._queue(lambda: 0, print)
  owner.close()
  completions.join_all()


@pytest.mark.parametrize("failure", (ValueError("a callback's"), SystemExit(1)))
def test_a_callback_that_fails_does_not_end_the_thread(owner, failure, caplog):
  done = queue.Queue()

  def fail(error):
    raise failure

  for handle, callback in enumerate((fail, done.put, done.put)):
    owner._queue(lambda handle=handle: handle, callback)
  owner.native.ended.put([(0, None), (1, None)])
  assert done.get(timeout=LONG_S) is None
  owner.native.ended.put([(2, None)])
  assert done.get(timeout=LONG_S) is None
  assert "the callback of an operation failed" in caplog.text


def test_a_callback_may_close_what_calls_it(owner):
  done = queue.Queue()
  for handle, callback in enumerate((lambda error: owner.close(), done.put)):
    owner._queue(lambda handle=handle: handle, callback)
  thread = owner._thread
  owner.native.ended.put([(0, None), (1, None)])
  assert isinstance(done.get(timeout=LONG_S), stretto.CommError)
  thread.join(LONG_S)
  assert not thread.is_alive() and done.empty()


class Engine:
  rank = 0


def free_port():
  with socket.create_server(("127.0.0.1", 0)) as server:
    return server.getsockname()[1]


def test_metrics_without_a_thread_leave_the_port(no_thread, monkeypatch, caplog):
  port = free_port()
  monkeypatch.setenv(metrics.VARIABLE, f"127.0.0.1:{port}")
  monkeypatch.setenv("LOCAL_RANK", "0")
  engine = Engine()
  metrics.add(engine)
  metrics.remove(engine)
  assert "rank 0: no metrics: stretto-metrics: the system starts no more threads" in caplog.text
  assert metrics.STATE["server"] is None
  socket.create_server(("127.0.0.1", port)).close()


def test_a_heartbeat_without_a_thread_is_warned_about(no_thread, monkeypatch, caplog, tmp_path):
  caplog.set_level(logging.WARNING, "stretto")
  monkeypatch.setenv(heartbeat.VARIABLE, str(tmp_path))
  monkeypatch.setattr(heartbeat, "ENGINES", {})
  monkeypatch.setitem(heartbeat.STATE, "thread", None)
  heartbeat.add(Engine())
  assert "rank 0: nothing says how far it is: stretto-heartbeat" in caplog.text
  assert heartbeat.STATE["thread"] is None
