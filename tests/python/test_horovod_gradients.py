"""Gradients of a rank that has joined."""

import json
import threading

import pytest

torch = pytest.importorskip("torch", reason="the Horovod-shaped API needs torch")


class SlowGradients:
  """Like stretto.comm.Gradients on a rank that is slower than the others."""

  DELAY_S = 0.05
  codec = "topk"

  def __init__(self, *args):
    self.under_way = set()
    self.submitted = []

  def submit(self, done, slices, *rest):
    name = slices[0][0]
    assert name not in self.under_way, f"{name} is being averaged already"
    self.under_way.add(name)
    self.submitted.append(name)

    def end():
      self.under_way.remove(name)
      done(None)

    threading.Timer(self.DELAY_S, end).start()


class Group:
  engine, group_name, members, timeout_s = None, "all", [0, 1], 60.0


# The other ranks begin the next step when they are through with a gradient. A rank that contributes
# zeros to it hears of that step although it is not through.
def test_a_slow_rank_that_has_joined_stands_in_for_one_step_after_the_other(monkeypatch):
  from stretto.horovod import _gradients

  from stretto import comm
  monkeypatch.setattr(comm, "Gradients", SlowGradients)
  mine = _gradients.GradientSet(Group, 0, "topk")
  slow = mine._gradients
  described = [json.loads(json.dumps({"dtype": "float32", "shape": [3],
                                      "slice": (name, 0, 3, 0, 0)})) for name in ("w", "b")]
  for _ in range(3):
    for what in described:
      mine.stand_in(what)
  assert slow.submitted == 3 * ["w", "b"]
  assert slow.under_way  # join() waits for these
  mine.finish_stand_ins()
  assert not slow.under_way
