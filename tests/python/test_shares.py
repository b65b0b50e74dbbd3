"""Shares of unlike chips in one process: arithmetic, decisions, the probe, and the sampler."""

import json
import math
import random
import time
from fractions import Fraction

import pytest
import stretto.torch as st
import torch
from stretto.torch import Shares, ShareSampler, probe, split_batch
from stretto.torch._balance import Balance
from stretto.torch._own_time import OwnTime
from stretto.torch._split import offsets, split_by_tables

import stretto


def test_shares_sum_to_the_batch_and_stay_near_their_quotas():
  rng = random.Random(4)
  for _ in range(500):
    ranks, total = rng.randint(1, 9), rng.randint(0, 3000)
    least = rng.choice([0, 1, 2]) if total >= 2 * ranks else 0
    speeds = [rng.choice([rng.uniform(1e-3, 1e3), float(rng.randint(1, 4))]) for _ in range(ranks)]
    shares = split_batch(total, speeds, least)
    what = (total, speeds, least)
    assert sum(shares) == total and min(shares) >= least, what
    for a in range(ranks):
      for b in range(ranks):
        if speeds[a] > speeds[b] or (speeds[a] == speeds[b] and a < b):
          assert shares[a] >= shares[b], what
      if least == 0:  # what the largest remainder promises
        quota = Fraction(total) * Fraction(speeds[a]) / sum(map(Fraction, speeds))
        assert math.floor(quota) <= shares[a] <= math.ceil(quota), what


@pytest.mark.parametrize("total, speeds, least, shares", [
  (256, [4.39, 0.62], 0, [224, 32]),
  (10, [1, 1, 1], 0, [4, 3, 3]),  # the sample that is left goes to the lowest rank
  (11, [1, 1, 1], 0, [4, 4, 3]),
  (8, [1, 1, 100], 2, [2, 2, 4]),
  (8, [1, 100], 0, [0, 8]),
  (8, [1, 100], 1, [1, 7]),
  (0, [1, 2], 0, [0, 0])])
def test_shares_of_known_batches(total, speeds, least, shares):
  assert split_batch(total, speeds, least) == shares


@pytest.mark.parametrize("arguments, text", [
  ((8, [1, 0]), "rank 1 has 0"), ((8, [math.nan]), "rank 0 has nan"), ((8, []), "got none"),
  ((8, [math.inf, 1]), "rank 0 has inf"), ((8, ["fast"]), "rank 0 has 'fast'"),
  ((-1, [1]), "total: expected an integer from 0 on, got -1"),
  ((3, [1, 1], 2), "3 samples are too few for 2 ranks with at least 2 each")])
def test_wrong_speeds_are_named(arguments, text):
  with pytest.raises(stretto.InvalidArgumentError, match=text):
    split_batch(*arguments)


def test_short_batches_are_divided_like_full_ones():
  assert offsets([224, 32], 256, 256) == [0, 224, 256]
  assert offsets([224, 32], 16, 256) == [0, 14, 16]
  assert offsets([224, 32], 1, 256) == [0, 1, 1]
  assert offsets([256, 0], 3, 256) == [0, 3, 3]


def test_shares_by_tables_use_the_speed_at_the_share():
  """Rank 1 is as fast as rank 0 on small batches only: 16 samples in 0.16 s, 64 in 1.6 s."""
  tables = [{64: 100.0}, {16: 100.0, 64: 40.0}]
  shares = split_by_tables(96, tables, 1)
  seconds = [shares[0] / 100, 0.16 + (shares[1] - 16) * (1.6 - 0.16) / 48]
  assert sum(shares) == 96 and abs(seconds[0] - seconds[1]) < 2 * 1.44 / 48  # to a sample
  assert split_by_tables(96, [{64: 100.0}, {64: 40.0}], 1)[0] == 69


def run(balance, shares, windows, time_of):
  """The shares after each window; `time_of(rank, samples, window)` in seconds."""
  trace = []
  for window in range(windows):
    seconds = [time_of(rank, share, window) for rank, share in enumerate(shares)]
    shares = balance.observe(shares, shares, seconds) or shares
    trace.append(list(shares))
  return trace


def test_ranks_that_drift_get_other_shares_once():
  slower = lambda rank, n, window: 0.01 + n * (2.0 if rank == 1 and window >= 5 else 1.0) / 100  # noqa: E731
  balance = Balance(64, 1, 0.1)
  trace = run(balance, [32, 32], 30, slower)
  assert trace[4] == [32, 32]
  assert len({tuple(shares) for shares in trace}) <= 3  # one move, and perhaps one to mend it
  assert trace[-1] == trace[12]
  times = [slower(rank, n, 29) for rank, n in enumerate(trace[-1])]
  assert max(times) < 1.1 * sum(times) / 2, trace[-1]
  assert "rank 1 took" in balance.reason


def test_noise_and_ranks_that_all_slow_down_move_no_samples():
  rng = random.Random(1)
  noisy = lambda rank, n, window: n * rng.uniform(0.92, 1.08) * (3 if window > 20 else 1)  # noqa: E731
  trace = run(Balance(64, 1, 0.1), [40, 24], 60, lambda r, n, w: noisy(r, n, w) / [40, 24][r])
  assert all(shares == [40, 24] for shares in trace)


def test_one_slow_window_moves_no_samples():
  hiccup = lambda rank, n, window: n * (9.0 if rank == 0 and window == 7 else 1.0)  # noqa: E731
  trace = run(Balance(64, 1, 0.1), [32, 32], 7, hiccup)
  assert trace[-1] == [32, 32]
  balance = Balance(64, 1, 0.1)
  balance.observe([32, 32], [32, 32], [1.0, 1.0])
  assert balance.observe([32, 32], [32, 32], [1.3, 1.0]) is None


def test_a_batch_too_small_to_divide_better_stays():
  trace = run(Balance(2, 1, 0.1), [1, 1], 20, lambda rank, n, window: n * (1.0 + rank))
  assert all(shares == [1, 1] for shares in trace)


def test_own_time_leaves_out_the_wait_after_the_last_gradient():
  net = torch.nn.Linear(2, 1)
  clock = OwnTime(net)
  optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
  clock.end_batch(4)
  for _ in range(3):
    time.sleep(0.02)  # loads
    net(torch.ones(1, 2)).sum().backward()
    time.sleep(0.2)  # waits for other ranks
    optimizer.step()
    time.sleep(0.01)  # computes behind the step
    clock.end_batch(4)
  samples, seconds = clock.take()
  assert samples == 12 and 0.08 <= seconds < 0.6, seconds  # 0.6 s were waits
  assert clock.take() == (0, 0)
  clock.close()


# The probe.

def timed_step(seconds_per_sample):
  def step(samples):
    steps.append(samples)
    time.sleep(samples * seconds_per_sample)
  steps = step.calls = []
  return step


def test_probe_measures_and_remembers(tmp_path):
  file, step = tmp_path / "new/probe.json", timed_step(1e-3)
  first = probe(step, (4, 16), "net", file, chip="a", seconds=0)
  # A sleep is never shorter than asked for.
  assert list(first) == [4, 16] and all(100 < speed <= 1000 for speed in first.values())
  calls = len(step.calls)
  assert probe(step, (4, 16), "net", file, chip="a", seconds=0) == first
  assert len(step.calls) == calls, "it is in the file"
  slower = timed_step(4e-3)
  assert probe(slower, (4,), "net", file, chip="b", seconds=0)[4] < first[4]
  assert probe(slower, (4,), "other", file, chip="a", seconds=0)[4] < first[4]
  assert probe(step, (4,), "net", file, chip="a", seconds=0) == {4: first[4]}
  again = probe(slower, (4,), "net", file, chip="a", seconds=0, again=True)
  assert again[4] < first[4] and probe(step, (4,), "net", file, chip="a", seconds=0) == again
  records = json.loads(file.read_text())["speeds"]
  assert len(records) == 4 and {r["build"] for r in records} == {f"torch {torch.__version__}"}
  assert not list(tmp_path.rglob("*.part"))


def test_probe_names_models_by_their_layers():
  names = {st._probe.name_of(net) for net in (
      torch.nn.Linear(2, 3), torch.nn.Linear(3, 2), torch.nn.Sequential(torch.nn.Linear(2, 3)),
      torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()))}
  assert len(names) == 4
  assert st._probe.name_of(torch.nn.Linear(2, 3)) == st._probe.name_of(torch.nn.Linear(2, 3))


@pytest.mark.parametrize("text, what", [
  ("[]", "no probe file"), ("{", "no probe file"), ('{"probe": 9, "speeds": []}', "version 9"),
  ('{"probe": 1, "speeds": [{"batch": 3}]}', "no probe file"),
  ('{"probe": 1, "speeds": [{"batch": 3, "samples_per_s": -1}]}', "no probe file"),
  ('{"probe": 1, "speeds": [{"batch": 3, "samples_per_s": 1}]}', "no probe file")])
def test_bad_probe_files_are_named_and_kept(tmp_path, text, what):
  file = tmp_path / "p.json"
  file.write_text(text)
  with pytest.raises(stretto.FormatError, match=f"p.json: .*{what}"):
    probe(timed_step(0), (1,), "net", file, seconds=0)
  assert file.read_text() == text


def test_wrong_arguments_are_named():
  for call, text in (
      (lambda: probe(3, (1,), "m"), "probe: step"), (lambda: probe(len, (0,), "m"), "batches"),
      (lambda: probe(len, (), "m"), "batches"), (lambda: probe(len, (1,), ""), "probe: model"),
      (lambda: Shares(0), "Shares: batch"), (lambda: Shares(8, -1.0), "Shares: speed"),
      (lambda: Shares(8, {}), "Shares: speed"), (lambda: Shares(8, drift=2), "Shares: drift"),
      (lambda: Shares(8, module=3), "Shares: module"), (lambda: Shares(8).weight, "no batch yet"),
      (lambda: ShareSampler(None, Shares(8)), "dataset"), (lambda: ShareSampler(9, 8), "shares"),
      (lambda: list(Shares(8).batches([1])), "ShareSampler"),
      (lambda: ShareSampler(9, Shares(8)).load_state_dict({}), "no state")):
    with pytest.raises(stretto.InvalidArgumentError, match=text):
      call()


# The sampler, where one process has all samples.

def taken(sampler, shares, count=None, **options):
  loader = torch.utils.data.DataLoader(torch.arange(50), batch_sampler=sampler, **options)
  found = []
  for batch in shares.batches(loader):
    assert shares.weight == 1 and shares.samples == len(batch) == shares.total
    found.append(batch.tolist())
    if len(found) == count:
      break
  return found


def test_one_process_gets_every_sample_once():
  shares = Shares(16)
  sampler = ShareSampler(50, shares, seed=5)
  first = taken(sampler, shares)
  assert [len(batch) for batch in first] == [16, 16, 16, 2] and len(sampler) == 4
  assert sorted(sum(first, [])) == list(range(50))
  assert taken(sampler, shares) == first
  sampler.set_epoch(1)
  assert taken(sampler, shares) != first
  plain = ShareSampler(50, shares, shuffle=False, drop_last=True)
  assert taken(plain, shares) == torch.arange(48).view(3, 16).tolist() and len(plain) == 3


@pytest.mark.parametrize("workers", [0, 2])
def test_training_goes_on_from_a_state(workers):
  shares = Shares(8)
  sampler = ShareSampler(50, shares)
  sampler.set_epoch(3)
  whole = taken(sampler, shares)
  begin = taken(sampler, shares, 2, num_workers=workers)  # workers draw ahead
  states = json.loads(json.dumps([shares.state_dict(), sampler.state_dict()]))
  assert states[1] == {"epoch": 3, "batch": 2}
  later = Shares(8)
  resumed = ShareSampler(50, later)
  later.load_state_dict(states[0])
  resumed.load_state_dict(states[1])
  resumed.set_epoch(3)
  assert begin + taken(resumed, later) == whole
  assert resumed.state_dict() == {"epoch": 3, "batch": 7}
  with pytest.raises(stretto.InvalidArgumentError, match="divides 8 samples among 1 ranks"):
    Shares(9).load_state_dict(states[0])


def test_two_passes_at_once_are_refused():
  shares = Shares(8)
  sampler = ShareSampler(50, shares)
  first = iter(sampler)
  next(first)
  next(iter(sampler))
  with pytest.raises(stretto.InvalidArgumentError, match="another pass"):
    next(first)
