"""How processes agree on the members of the next epoch of an elastic job. Threads stand for the
processes, and a clock of the test's own for time."""

import threading
import time

import pytest

dist = pytest.importorskip("torch.distributed",
                           reason="elastic jobs are for torch, which is not installed")

from stretto.horovod import _epochs as epochs  # noqa: E402
from stretto.horovod._epochs import Epochs, Log, Member, Settings, chosen  # noqa: E402

import stretto  # noqa: E402

JOIN_S = 60  # a guard against hanging for ever


def settings(least=1, most=4, start=1, worker="", **options):
  return Settings("", least, most, start, worker, **options)


def members(*workers, epoch=0):
  return [Member(worker, epoch, rank if epoch else -1) for rank, worker in enumerate(workers)]


def test_the_first_epoch_waits_for_all_that_start():
  all_three = members("a", "b", "c")
  assert chosen(all_three[:2], [], set(), settings(start=3), False) is None
  assert chosen(all_three, [], set(), settings(start=3), False) == all_three
  assert chosen(all_three[:2], [], set(), settings(start=3), True) == all_three[:2]


def test_the_set_closes_when_everybody_known_to_live_is_there():
  before = members("a", "b", "c", epoch=1)
  assert chosen(before[1:], before, set(), settings(), False) is None  # a may be busy
  assert chosen(before[1:], before, {"a"}, settings(), False) == before[1:]
  assert chosen(before[1:], before, set(), settings(), True) == before[1:]


def test_who_died_after_announcing_is_no_member():
  before = members("a", "b", "c", epoch=1)
  assert chosen(before, before, {"b"}, settings(), False) == [before[0], before[2]]


def test_fewer_than_the_least_do_not_begin_even_after_the_grace_time():
  before = members("a", "b", "c", epoch=1)
  assert chosen(before[:1], before, {"b", "c"}, settings(least=2), True) is None


def test_survivors_come_in_order_and_before_newcomers():
  """Rank 0, from which the others get the state, is the lowest rank with the newest state."""
  before = members("a", "b", "c", epoch=2)
  late = Member("z", 1, 0)  # was rank 0 an epoch ago, and missed one
  new = Member("0")
  got = chosen([new, late, before[2], before[1]], before, {"a"}, settings(), False)
  assert got == [before[1], before[2], late, new]


def test_more_than_the_most_wait():
  before = members("a", "b", epoch=1)
  new = members("c", "d")
  assert chosen(before + new, before, set(), settings(most=3), False) == before + new[:1]


def test_an_entry_that_was_never_written_does_not_block_a_log():
  """Its writer died between taking a number and writing."""
  store = dist.HashStore()
  store.add("log", 1)
  Log(store, "log").append("second")
  assert Log(store, "log").entries() == ["second"]


def until(condition):
  stop = time.monotonic() + JOIN_S
  while not condition():
    assert time.monotonic() < stop, "it did not come about"
    time.sleep(0.001)


class Process:
  """A thread that joins. `failure` is what it raised."""

  def __init__(self, store, worker, clock=None, **options):
    clock = {"clock": clock} if clock else {}
    self.epochs = Epochs(store, settings(worker=worker, **options), **clock)
    self.failure, self.thread = None, None

  def joins(self):
    def body():
      try:
        self.epochs.join()
      except BaseException as error:
        self.failure = error

    self.thread = threading.Thread(target=body, daemon=True)
    self.thread.start()
    return self

  def ended(self):
    self.thread.join(JOIN_S)
    assert not self.thread.is_alive(), "it still waits"
    return self

  @property
  def place(self):
    self.ended()
    assert self.failure is None, self.failure
    return self.epochs.number, self.epochs.rank, len(self.epochs.members)


def together(processes):
  for process in processes:
    process.joins()
  return [process.place for process in processes]


def test_ranks_are_lost_and_taken_in():
  store = dist.HashStore()
  a, b, c = (Process(store, worker, start=3) for worker in "abc")
  assert together([a, b, c]) == [(1, 0, 3), (1, 1, 3), (1, 2, 3)]
  for process in (a, b, c):
    process.epochs.has_state()

  Log(store, "gone").append("a")
  assert b.epochs.lost() == "the process of rank 0 has ended"
  assert together([b, c]) == [(2, 0, 2), (2, 1, 2)]
  assert not b.epochs.newcomers()
  for process in (b, c):
    process.epochs.has_state()

  d = Process(store, "0").joins()  # its name comes before theirs
  until(lambda: b.epochs.newcomers())
  assert d.thread.is_alive(), "it waits for the next commit"
  assert together([b, c]) == [(3, 0, 3), (3, 1, 3)]
  assert d.place == (3, 2, 3)


def test_a_rank_that_comes_too_late_waits_for_the_next_epoch():
  now = [0.0]
  store = dist.HashStore()
  a, b = (Process(store, worker, start=2, clock=lambda: now[0]) for worker in "ab")
  together([a, b])
  a.epochs.has_state()
  b.epochs.has_state()
  a.joins()
  until(lambda: store.check(["2/announced/0"]))
  assert a.thread.is_alive(), "the grace time is not over"
  while a.thread.is_alive():  # the clock begins when a has seen that it is there
    now[0] += 31.0
    a.thread.join(0.01)
  assert a.place == (2, 0, 1)
  a.epochs.has_state()
  b.joins()  # it was stopped, or the network was
  until(lambda: a.epochs.newcomers())
  a.joins()
  assert (a.place, b.place) == ((3, 0, 2), (3, 1, 2))


def test_a_full_job_does_not_stop_for_newcomers_that_find_no_place():
  """Otherwise it would be formed again at every commit."""
  store = dist.HashStore()
  a, b = (Process(store, worker, start=2, most=2) for worker in "ab")
  together([a, b])
  Log(store, "2/announced").append('{"worker": "c"}')
  assert not a.epochs.newcomers()


def test_newcomers_that_have_died_do_not_stop_the_job():
  store = dist.HashStore()
  a = Process(store, "a")
  together([a])
  Log(store, "2/announced").append('{"worker": "c"}')
  assert a.epochs.newcomers()
  Log(store, "gone").append("c")
  assert not a.epochs.newcomers()


def test_who_waits_when_the_job_ends_ends_too():
  store = dist.HashStore()
  a = Process(store, "a")
  together([a])
  b = Process(store, "b").joins()
  store.set("over", "1")
  b.ended()
  assert isinstance(b.failure, SystemExit) and b.failure.code == 0


def test_too_few_ranks_raise_an_error_after_the_time_limit():
  now = [0.0]

  def clock():
    now[0] += 10.0
    return now[0]

  a = Process(dist.HashStore(), "a", clock=clock, least=2, start=2, timeout_s=100.0).joins().ended()
  assert isinstance(a.failure, stretto.CommError)
  assert "1 ranks are there, and 2 are needed" in str(a.failure)


def test_all_proposals_but_the_first_are_ignored():
  """Processes that see different sets form one epoch all the same."""
  store = dist.HashStore()
  store.compare_set("1/members", "", '[{"worker": "a"}]')
  a = Process(store, "a").joins()
  assert a.place == (1, 0, 1)
  store.delete_key("current")  # b looks before a has written it, and announces itself for epoch 1
  b = Process(store, "b").joins()
  until(Log(store, "2/announced").entries)
  assert b.thread.is_alive()  # the next epoch belongs to a, which trains
  store.set("over", "1")
  b.ended()


def test_a_lost_store_is_named():
  class Lost:
    def check(self, keys):
      raise RuntimeError("Broken pipe")

  with pytest.raises(stretto.CommError, match="store at h:1 is lost: Broken pipe; .*--elastic"):
    epochs.Guarded(Lost(), "h:1").check(["x"])


@pytest.mark.parametrize("text", ["", "0:2", "3:2", "a:b", "2:", "-1:4"])
def test_wrong_ranges_are_refused(text):
  with pytest.raises(ValueError, match="MIN:MAX"):
    epochs.parse_range(text)


def test_settings_come_from_the_environment(monkeypatch):
  monkeypatch.delenv("STRETTO_ELASTIC_STORE", raising=False)
  assert Settings.from_environment() is None
  for name, text in (("STORE", "h:1"), ("START", "3"), ("WORKER", "w"), ("GRACE", "2.5"),
                     ("TIMEOUT", "7")):
    monkeypatch.setenv(f"STRETTO_ELASTIC_{name}", text)
  monkeypatch.setenv("STRETTO_ELASTIC", "2:4")
  assert Settings.from_environment() == Settings("h:1", 2, 4, 3, "w", 2.5, 7.0)
  monkeypatch.setenv("STRETTO_ELASTIC_GRACE", "soon")
  with pytest.raises(ValueError, match="STRETTO_ELASTIC_GRACE: expected seconds, got 'soon'"):
    Settings.from_environment()
