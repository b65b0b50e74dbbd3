"""stretto.data.ImageLoader(share="host") where something is used up, stands still or differs."""

import contextlib
import os
import resource
import signal
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from data_pictures import wait_until
from test_data_share import WAIT_S, alone, folder, start  # noqa: F401

import stretto
from stretto import data
from stretto.data import _host, _host_server, _sources


def pid_of(rank):
  stats = rank.ask("stats")
  assert isinstance(stats, dict), stats  # else an error
  return stats["shared"]["pid"]


def descriptors(pid):
  return len(os.listdir(f"/proc/{pid}/fd"))


def name_of(request):
  job = f"{request.node.name}-{os.getpid()}"
  return _host.name_of(2, {**os.environ, "TORCHELASTIC_RUN_ID": job})


@contextlib.contextmanager
def limited(pid, what, most):
  before = resource.prlimit(pid, what)
  resource.prlimit(pid, what, (most, before[1]))
  try:
    yield
  finally:
    resource.prlimit(pid, what, before)


def test_batches_that_a_rank_keeps_take_no_descriptors(folder, start):  # noqa: F811
  keeps, other = start(0), start(1)
  pid = pid_of(keeps)
  with limited(pid, resource.RLIMIT_NOFILE, descriptors(pid) + 20):
    assert keeps.ask("keep", 20) == 60
    assert other.ask("epochs", 2) == alone(folder, 1, 2, 2)
    assert pid_of(other) == pid


def test_the_process_may_have_as_many_descriptors_as_the_system_lets_it(start):  # noqa: F811
  pid = pid_of(start(0))
  soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
  assert soft == hard


def test_connections_without_a_descriptor_end_nobody(start, request):  # noqa: F811
  rank = start(0)
  pid = pid_of(rank)
  most = descriptors(pid) + 8
  with limited(pid, resource.RLIMIT_NOFILE, most), contextlib.ExitStack() as stack:
    for _ in range(20):
      connection = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
      connection.connect(f"\0{name_of(request)}")
    wait_until(lambda: descriptors(pid) >= most)
    time.sleep(0.2)  # it tries
  assert pid_of(rank) == pid


def test_connections_without_a_thread_are_refused(start, request):  # noqa: F811
  rank = start(0)
  pid = pid_of(rank)
  words = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
  size = int(words["VmSize"].split()[0]) << 10
  answer = None
  with contextlib.ExitStack() as stack:
    with limited(pid, resource.RLIMIT_AS, size + (2 << 20)):  # a thread's stack is larger
      for _ in range(30):
        connection = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        connection.connect(f"\0{name_of(request)}")
        connection.settimeout(1)
        with contextlib.suppress(TimeoutError):  # a stack was left of a thread that has ended
          answer = _host.receive(connection)
          break
    assert answer["error"] == "UnsupportedError"
    assert f"the loader's process {pid} can serve no more" in answer["text"]
  assert pid_of(rank) == pid


def test_threads_end_with_the_rank_that_brought_them(start):  # noqa: F811
  stays = start(0)
  for _ in range(3):
    leaves = start(1, threads=4)
    assert len(leaves.ask("epochs", 1)) == 3
    leaves.kill()
    wait_until(lambda: stays.ask("stats")["threads"] == 1)
    assert [row["rank"] for row in stays.ask("stats")["shared"]["ranks"]] == [0]


def test_credentials_may_differ_and_are_not_shown(folder, start):  # noqa: F811
  first = start(0, storage_options={"secret": "of-rank-0"})
  second = start(1, storage_options={"secret": "of-rank-1"})
  assert first.said == second.said == "made"
  kind, text = start(1, storage_options={"secret": "of-rank-1"}, size=48).said
  assert kind == "InvalidArgumentError" and "share: size is " in text


def test_credentials_of_sources_are_not_shown():
  def hello(source, secret):
    return {"rank": 1, "fingerprint": 7, "arguments": {"size": 32, "source": {"dataset": {
      "joined": [{"source": source, "remote": {"storage_options": {"key": secret}}}]}}}}

  group = _host_server.Group()
  group.arguments = hello("https://user:hidden0@host/a.tar?X-Signature=hidden1", "hidden2")[
    "arguments"]
  _host_server.check_same(hello(
    "https://user:hidden0@host/a.tar?X-Signature=hidden1", "hidden3"), group)
  with pytest.raises(stretto.InvalidArgumentError) as error:
    _host_server.check_same(hello("https://u:hidden4@host/b.tar?X-Signature=hidden5", "hidden6"),
                            group)
  text = str(error.value)
  assert "source is " in text and "host/a.tar" in text and "host/b.tar" in text
  assert "hidden" not in text


@contextlib.contextmanager
def stopped(pid):
  """For as long as the body takes, or for ever, as it would be without the watch."""
  os.kill(pid, signal.SIGSTOP)  # which it may not have seen yet
  wait_until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
  watch = threading.Timer(WAIT_S / 2, os.kill, (pid, signal.SIGCONT))
  watch.start()
  try:
    yield watch
  finally:
    watch.cancel()
    os.kill(pid, signal.SIGCONT)


class Interrupted(Exception):
  pass


@pytest.fixture
def loader(folder, monkeypatch, request):  # noqa: F811
  monkeypatch.setenv("TORCHELASTIC_RUN_ID", f"{request.node.name}-{os.getpid()}")
  with data.ImageLoader(folder, 8, 32, rank=0, world=1, threads=1, dtype="uint8",
                        share="host") as made:
    yield made


@pytest.mark.parametrize("what", ["set_epoch", "load_state_dict", "next"])
def test_signals_end_the_wait_for_a_process_that_stands_still(folder, loader, what):  # noqa: F811
  def interrupt(*_):
    raise Interrupted

  batches = iter(loader)
  next(batches)
  state = loader.state_dict()
  calls = {"set_epoch": lambda: loader.set_epoch(3), "next": lambda: next(batches),
           "load_state_dict": lambda: loader.load_state_dict(state)}
  before = signal.signal(signal.SIGALRM, interrupt)
  try:
    with stopped(loader.stats()["shared"]["pid"]) as watch:
      with pytest.raises(Interrupted):
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        calls[what]()
      assert watch.is_alive()
      assert loader.state_dict() == state
  finally:
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
  loader.load_state_dict(state)
  with data.ImageLoader(folder, 8, 32, rank=0, world=1, threads=1, dtype="uint8") as other:
    other.load_state_dict(state)
    for (images, _), (wanted, _) in zip(loader, other, strict=True):
      assert np.array_equal(images, wanted)


@pytest.mark.parametrize("what", ["set_epoch", "next"])
def test_close_ends_the_wait_for_a_process_that_stands_still(loader, what):
  seen = []

  def wait():
    try:
      loader.set_epoch(3) if what == "set_epoch" else next(iter(loader))
    except Exception as error:
      seen.append(error)

  with stopped(loader.stats()["shared"]["pid"]) as watch:
    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.2)
    loader.close()
    waiting.join()
    assert watch.is_alive()
  assert isinstance(seen[0], stretto.InvalidArgumentError) and "closed" in str(seen[0])


REFUSED = """
from stretto import data
try:
  data.ImageLoader(sys.argv[1], 8, 48, rank=1, world=2, threads=1, dtype="uint8", share="host")
except ValueError:
  pass
else:
  sys.exit("it was made")
"""


def test_a_loader_that_could_not_be_made_is_tried_again(start):  # noqa: F811
  first = start(0)
  second = start(1, before=REFUSED)
  assert second.said == "made"
  stats = second.ask("stats")["shared"]
  assert [row["rank"] for row in stats["ranks"]] == [0, 1] and stats["pid"] == pid_of(first)


def test_the_process_uses_the_folder_that_its_rank_means(folder):  # noqa: F811
  rows = _host.said({"sampler": "shuffle", "transforms": None, "cache_dir": "cache"},
                    _sources.read(folder, {}))
  assert rows["cache_dir"] == os.path.abspath("cache")


def test_a_frozen_program_is_refused(folder, monkeypatch, request):  # noqa: F811
  monkeypatch.setenv("TORCHELASTIC_RUN_ID", f"{request.node.name}-{os.getpid()}")
  monkeypatch.setattr(_host.sys, "frozen", True, raising=False)
  with pytest.raises(stretto.UnsupportedError, match="the program itself"):
    data.ImageLoader(folder, 8, 32, rank=0, world=1, share="host")


def test_descriptors_of_the_process_are_not_inherited(loader):
  log = loader._engine._server.log
  assert log >= 0 and not os.get_inheritable(log)
