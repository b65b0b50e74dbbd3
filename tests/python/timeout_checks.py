"""The checks of test_comm_timeouts.py: rank 0 calls something that the others do not, in a group
with a short timeout. The error names what it was, the group, and who is missing. Each check has
jobs of its own (ranks.py says how checks run)."""

import contextlib
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import ranks
import stretto.torch
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.distributed_c10d import _set_pg_timeout
from torch.nn.parallel import DistributedDataParallel

import stretto

FOLDER, RANK, SIZE = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
os.environ["STRETTO_DUMP"] = "none"

SHORT_S = 0.7
# The timeout of all ranks, which is much longer than a busy machine needs for an error. The others
# wait for less, and rank 0 must have its error before: guards against hanging for ever.
LONG_S = 240
STORE_S = 150
PATIENCE_S = 120


@contextlib.contextmanager
def job(name, timeout_s=LONG_S):
  dist.init_process_group("stretto", init_method=f"file://{FOLDER}/{name}", rank=RANK,
                          world_size=SIZE, timeout=timedelta(seconds=timeout_s))
  try:
    yield dist.group.WORLD
  finally:
    if dist.is_initialized():
      dist.destroy_process_group()


def network():
  torch.manual_seed(1)
  return nn.Sequential(nn.Linear(40, 50), nn.ReLU(), nn.Linear(50, 40))


def train(model):
  model(torch.randn(4, 40)).sum().backward()


def shorten(group):
  _set_pg_timeout(timedelta(seconds=SHORT_S), group)


def alone(name, rank, call, group_name, store, words=()):
  """Rank 0 calls it."""
  if rank != 0:
    store.wait([f"{name} came"], timedelta(seconds=STORE_S))  # its own timeout may be 0.7 s
    return
  began = time.monotonic()
  try:
    call()
  except Exception as error:
    text = str(error)
    assert isinstance(error, stretto.CommError), (name, type(error), text)
    # Ranks find the first failure; a late one may be named through the wait for it.
    for word in (f"{SHORT_S} s (the timeout of group '{group_name}", "rank 0 waits for rank",
                 *words):
      assert word in text, (name, word, text)
    assert error.rank > 0, (name, error.rank, text)
  else:
    raise AssertionError(f"{name}: the others did not come")
  took_s = time.monotonic() - began
  assert took_s < PATIENCE_S, (name, took_s)
  store.set(f"{name} came", "1")


def check_plain_operations(rank, size):
  def by_new_group(group):
    return dist.new_group(list(range(size)), timeout=timedelta(seconds=SHORT_S))

  def by_setting(group):
    shorten(group)
    return group

  def by_init(group):
    return group

  def wait(group):
    dist.all_reduce(torch.ones(4), group=group)

  def future(group):
    dist.all_reduce(torch.ones(4), group=group, async_op=True).get_future().wait()

  for make, job_s in ((by_new_group, LONG_S), (by_setting, LONG_S), (by_init, SHORT_S)):
    for call in (wait, future):
      name = f"{make.__name__} {call.__name__}"
      with job(name, job_s) as everyone:
        store = everyone.store
        if job_s == LONG_S:
          dist.barrier()
        group = make(everyone)
        alone(name, rank, lambda: call(group), group.engine_name, store,  # noqa: B023
              ["all_reduce of 4 float32"])


def check_gradients_of_attached_modules(rank, size):
  cases = [({}, 1), ({"segments": True}, 1), ({"step_policy": "accumulate:2"}, 2)]
  cases += [({"codec": codec}, 1) for codec in ("fp16", "int8", "topk", "powersgd", "mixed")]
  for options, steps in cases:
    name = f"attached {options}"
    with job(name) as everyone:
      group = dist.new_group(list(range(size)))
      model = DistributedDataParallel(network(), process_group=group)
      stretto.torch.attach(model, **options)
      for _ in range(2 * steps):
        train(model)
      dist.barrier()
      shorten(group)

      def call():
        for _ in range(steps):  # noqa: B023
          train(model)  # noqa: B023

      alone(name, rank, call, f"{group.engine_name}, module 1", everyone.store, ["gradients"])


def check_parameters_of_step_policies(rank, size):
  for policy, codec in (("local:1", "none"), ("local:1", "int8"), ("local:1:overlap", "none"),
                        ("gossip:9", "none"), ("gossip:9", "fp16")):
    name = f"parameters {policy} {codec}"
    with job(name) as group:
      model = DistributedDataParallel(network())
      attached = stretto.torch.attach(model, codec=codec, step_policy=policy)
      for _ in range(3):
        train(model)
      attached.policy.finish()
      dist.barrier()
      shorten(group)

      def call():
        for _ in range(3):
          train(model)  # noqa: B023

      alone(name, rank, call, f"{group.engine_name}, module 1", group.store)


def check_names_of_horovod(rank, size):
  """Another rank may submit other names meanwhile, and go on."""
  import stretto.horovod as hvd

  def by_setting_before():
    shorten(dist.group.WORLD)

  def by_setting_after():
    hvd.init()
    hvd.allreduce(torch.ones(3), name="first")
    shorten(dist.group.WORLD)

  def allreduce():
    hvd.allreduce(torch.ones(3), name="alone")

  def in_place():
    hvd.allreduce_(torch.ones(3), name="alone")

  def gather():
    hvd.allgather(torch.ones(3), name="alone")

  def optimizer():
    model = network()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1),
        ((f"alone {name}", p) for name, p in model.named_parameters()),
        compression=hvd.Compression.int8)
    train(model)
    optimizer.step()

  def process_set():
    hvd.allreduce(torch.ones(3), name="alone", process_set=pair)

  calls = [allreduce, in_place, gather, optimizer]
  if size > 2:
    calls.append(process_set)
  for make in (by_setting_before, by_setting_after):
    for call in calls:
      name = f"horovod {make.__name__} {call.__name__}"
      with job(name) as everyone:
        make()
        hvd.init()
        if call is process_set:
          pair = hvd.add_process_set([0, 1])
        try:
          dist.monitored_barrier(timeout=timedelta(seconds=LONG_S))
          missing = "rank 1, which has" if size == 2 or call is process_set else \
              "ranks 1, 2, which have"
          alone(name, rank, call, "horovod ", everyone.store,
                ["alone", f"rank 0 waits for {missing} not submitted it"])
        finally:
          hvd.shutdown()


if __name__ == "__main__":
  torch.set_num_threads(1)
  ranks.run_checks(globals(), FOLDER, RANK, SIZE, sys.argv[4:])
