"""Ranks that torchrun starts again find each other in a store that is full of the dead's keys."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

dist = pytest.importorskip("torch.distributed",
                           reason="the backend is for torch, which is not installed")

from stretto.torch import _attempt as attempt  # noqa: E402

import stretto  # noqa: E402

TIMEOUT_S = 60  # a guard against hanging for ever


def start(store, ranks, size, timeout_s=TIMEOUT_S):
  with ThreadPoolExecutor(len(ranks)) as pool:
    return list(pool.map(lambda rank: attempt.agree(store, rank, size, timeout_s), ranks))


@pytest.mark.parametrize("seed", range(5))
def test_every_attempt_has_keys_of_its_own_whoever_comes_first(seed):
  print("seed", seed)
  store, order, seen = dist.HashStore(), random.Random(seed), set()
  for _ in range(4):
    ranks = list(range(3))
    order.shuffle(ranks)
    found = set(start(store, ranks, 3))
    assert len(found) == 1 and not found & seen
    seen |= found


def test_a_rank_that_comes_first_does_not_take_what_the_dead_have_left():
  store = dist.HashStore()
  [before] = set(start(store, [0, 1], 2))
  found = []
  early = threading.Thread(target=lambda: found.append(attempt.agree(store, 1, 2, TIMEOUT_S)))
  early.start()
  early.join(0.2)  # if it is slow the test passes without testing anything, and does not fail
  assert early.is_alive() and not found
  found.append(attempt.agree(store, 0, 2, TIMEOUT_S))
  early.join(TIMEOUT_S)
  assert found[0] == found[1] != before


def test_an_attempt_that_broke_off_half_way_does_no_harm():
  store = dist.HashStore()
  with pytest.raises(stretto.CommError, match="rank 2 did not start within 0.05 s"):
    start(store, [0, 1], 3, 0.05)
  assert len(set(start(store, [2, 1, 0], 3))) == 1


def test_ranks_that_do_not_come_are_named():
  with pytest.raises(stretto.CommError, match="^rank 0 did not start within 0 s") as raised:
    attempt.agree(dist.HashStore(), 1, 3, 0)
  assert raised.value.rank == 0
  with pytest.raises(stretto.CommError, match="^ranks 1, 2 did not start within 0 s"):
    attempt.agree(dist.HashStore(), 0, 3, 0)
