"""An argument of a wrong type is an InvalidArgumentError that names the argument and says what was
expected, in every Python face, instead of an AttributeError or TypeError from the inside."""

import re
import types

import numpy as np
import pytest

import stretto
from stretto import comm

ARRAY = np.zeros(2, np.float32)
NO_ARRAYS = ([1, 2], None, 3, "x", b"ab", bytearray(8))


def refused(call, message, *arguments):
  with pytest.raises(stretto.InvalidArgumentError, match=re.escape(message)) as caught:
    call(*arguments)
  assert "incompatible function arguments" not in str(caught.value), "nanobind's words"


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
  made = comm.Engine(f"{tmp_path_factory.mktemp('job')}/meet", 0, 1)
  yield made
  made.close()


@pytest.mark.parametrize("value", NO_ARRAYS, ids=repr)
def test_the_engine_got_no_array(engine, value):
  for call, message in (
      (lambda: engine.all_reduce(value), "all_reduce: array: expected a NumPy array, got "),
      (lambda: engine.start_all_reduce(value), "all_reduce: array: expected a NumPy array, got "),
      (lambda: engine.broadcast(value), "broadcast: array: expected a NumPy array, got "),
      (lambda: engine.all_gather(value, ARRAY), "all_gather: output: expected a NumPy array, got "),
      (lambda: engine.all_gather(ARRAY, value), "all_gather: array: expected a NumPy array, got ")):
    refused(call, message)


GROUP = "group: expected the number of a group, from add_group(), got "


@pytest.mark.parametrize("value", ["x", None, -1, 1.5], ids=repr)
def test_the_engine_got_no_group_and_no_handle(engine, value):
  refused(lambda: engine.all_reduce(ARRAY, group=value), f"all_reduce: {GROUP}{value!r}")
  refused(lambda: engine.broadcast(ARRAY, group=value), f"broadcast: {GROUP}{value!r}")
  refused(lambda: engine.all_gather(ARRAY, ARRAY, group=value), f"all_gather: {GROUP}{value!r}")
  refused(lambda: engine.barrier(group=value), f"barrier: {GROUP}{value!r}")
  refused(lambda: engine.step(group=value), f"step: {GROUP}{value!r}")
  refused(lambda: engine.submit(value, kind=comm.BARRIER, dtype="uint8"), f"submit: {GROUP}")
  refused(lambda: engine.wait(value), f"wait: handle: expected a handle, from submit() or "
                                      f"start_all_reduce(), got {value!r}")
  refused(lambda: engine.deliver(value, print), "deliver: handle: expected a handle")


CALLS = [
  (lambda e: e.broadcast(ARRAY, root="x"), "broadcast: root: expected a rank, got 'x'"),
  (lambda e: e.all_reduce(ARRAY, ["sum"]), "all_reduce: reduction: expected one of sum, "),
  (lambda e: e.wait(0, "soon"), "wait: timeout_s: expected a number of seconds, got 'soon'"),
  (lambda e: e.submit(dtype="uint8"), "submit: kind is missing"),
  (lambda e: e.submit(kind=comm.BARRIER), "submit: dtype is missing"),
  (lambda e: e.submit(kind="x", dtype="uint8"), "submit: kind: expected a kind of operation"),
  (lambda e: e.submit(kind=comm.BARRIER, dtype="uint8", colour=1),
   "submit: an operation has no field 'colour'; it has group, kind, dtype"),
  (lambda e: e.submit_queued(print, kind=comm.BARRIER, dtype=3),
   "submit_queued: dtype: expected NumPy's name of an element type, got 3"),
  (lambda e: e.submit_queued(5, kind=comm.BARRIER, dtype="uint8"),
   "submit_queued: done: expected a function, got 5"),
  (lambda e: e.deliver(0, 5), "deliver: done: expected a function, got 5"),
  (lambda e: e.add_group(3, [0]), "add_group: name: expected a string, got 3"),
  (lambda e: e.add_group("a", 3), "add_group: ranks: expected a list of ranks, got 3"),
  (lambda e: e.add_group("a", ["x"]), "add_group: ranks: expected a list of ranks, got list"),
  (lambda e: comm.Gradients(5, "a", [0]), "Gradients: engine: expected a stretto.comm.Engine"),
  (lambda e: comm.Gradients(e, 5, [0]), "Gradients: name: expected a string, got 5"),
  (lambda e: comm.Gradients(e, "a", 5), "Gradients: ranks: expected a list of ranks, got 5"),
  (lambda e: comm.Gradients(e, "a", [0], 5), "Gradients: codec: expected a string, got 5"),
  (lambda e: comm.Gradients(e, "a", [0], "zip"), "codec: expected one of none, fp16"),
  (lambda e: comm.Gradients(e, "a", [0], "none", 5), "Gradients: options: expected stretto.comm."),
  (lambda e: comm.Engine(None, 0, 1), "Engine: store: expected a folder"),
  (lambda e: comm.Engine(object(), 0, 1), "Engine: store: expected a folder"),
  (lambda e: comm.Engine("a:1", "x", 1), "Engine: rank: expected an integer, got 'x'"),
  (lambda e: comm.Engine("a:1", 0, None), "Engine: size: expected an integer, got None"),
  (lambda e: comm.Engine("a:1", 0, 1, "x"), "Engine: options: expected stretto.comm.Options or"),
  (lambda e: comm.Engine("a:1", 0, 1, None, -1), "Engine: epoch: expected an integer from 0 on"),
]


@pytest.mark.parametrize("call, message", CALLS, ids=[message for _, message in CALLS])
def test_the_engine_got_something_else(engine, call, message):
  refused(lambda: call(engine), message)


def test_the_engine_took_numbers_of_no_kind_and_no_reduction(engine):
  """They went into C++ as they were, as values of an enumeration that has none like them."""
  refused(lambda: engine.submit(kind=99, dtype="uint8"), "kind: expected one of the numbers 0 to")
  refused(lambda: engine.submit(kind=comm.ALL_REDUCE, dtype="float32", reduction=99),
          "reduction: expected a place in stretto.comm.REDUCTIONS")


def test_a_bucket_of_gradients_got_something_else(engine):
  gradients = comm.Gradients(engine, "wrong types", [0], "fp16")
  good = ([("a", 0, 2, 0, 0)], "float32", ARRAY.ctypes.data, 1)
  for place, value, message in ((0, 5, "slices: expected a list of tuples"),
                                (0, [("a",)], "slices: expected a list of tuples"),
                                (1, 5, "dtype: expected NumPy's name"),
                                (2, "x", "address: expected an address, got 'x'"),
                                (3, "x", "step: expected an integer from 0 on, got 'x'")):
    given = [*good]
    given[place] = value
    refused(gradients.submit, f"submit: {message}", print, *given)
  refused(lambda: gradients.submit(5, *good), "submit: done: expected a function, got 5")
  gradients.close()


def test_options_refuse_what_they_cannot_mean_when_they_are_set():
  options = comm.Options()
  for name, value, message in (
      ("codec", 5, "Options: codec: expected a value of type str, got 5"),
      ("streams", "x", "Options: streams: expected a value of type int, got 'x'"),
      ("secret", None, "Options: secret: expected a value of type str, got None")):
    refused(setattr, message, options, name, value)
  options.streams = 2
  assert options.streams == 2


def test_what_the_report_is_made_of(cnn):
  refused(lambda: stretto.Report.from_json(5), "text: expected a report as JSON")
  refused(stretto.Report({"a": object()}).html, "the report holds what JSON has no form for")
  refused(lambda: stretto.optimize(cnn, shapes={"x": [10**30]}), "shapes['x']: expected integers")


# The adapters, in a job of one rank in this process.


@pytest.fixture(scope="module")
def hvd():
  pytest.importorskip("torch")
  import stretto.horovod as hvd
  hvd.init()
  yield hvd
  hvd.shutdown()


ONE = ("allreduce", "allreduce_", "allreduce_async", "allreduce_async_", "allgather",
       "allgather_async", "alltoall", "alltoall_async", "reducescatter", "reducescatter_async")
SEVERAL = ("grouped_allreduce", "grouped_allreduce_", "grouped_allreduce_async",
           "grouped_allreduce_async_", "grouped_allgather", "grouped_allgather_async",
           "grouped_reducescatter", "grouped_reducescatter_async")
FROM_ROOT = ("broadcast", "broadcast_", "broadcast_async", "broadcast_async_")


def operation_of(function):
  return function.removeprefix("grouped_").rstrip("_").removesuffix("_async")


@pytest.mark.parametrize("function", ONE + SEVERAL + FROM_ROOT)
def test_horovod_got_no_tensor(hvd, function):
  call = getattr(hvd, function)
  name = operation_of(function)
  more = (0,) if function in FROM_ROOT else ()
  for value in ([1, 2], None, 3, "x", ARRAY):
    if function not in SEVERAL:
      refused(call, f"{name}: tensor: expected a torch.Tensor, got ", value, *more)
    else:
      refused(call, f"{name}: tensor: expected a torch.Tensor, got ", [value])
  if function in SEVERAL:
    refused(lambda: call(None), f"{name}: tensors: expected a list of tensors, got None")
    refused(lambda: call([]), f"{name}: tensors: expected at least one tensor, got none")


def test_the_short_way_of_horovod_got_no_tensor(hvd):
  for value in ([1, 2], None, ARRAY):
    refused(hvd.allreduce_async_, "allreduce: tensor: expected a torch.Tensor, got ", value, None,
            "q")


@pytest.mark.parametrize("function", [*ONE[1:], *FROM_ROOT])
def test_horovod_got_a_tensor_that_it_cannot_send(hvd, function):
  import torch
  more = (0,) if function in FROM_ROOT else ()
  refused(lambda: getattr(hvd, function)(torch.ones(2).to_sparse(), *more),
          "tensor: expected a dense tensor, got torch.sparse_coo; use tensor.to_dense()")
  refused(lambda: getattr(hvd, function)(torch.ones(2, device="meta"), *more),
          "tensor: a tensor on the meta device has no values")


@pytest.mark.parametrize("function", ["synchronize", "poll"])
@pytest.mark.parametrize("value", [77, None, "x"], ids=repr)
def test_horovod_got_no_handle(hvd, function, value):
  refused(lambda: getattr(hvd, function)(value),
          f"{function}: handle: expected what an _async function returned, got {value!r}")


def test_an_error_inside_a_compression_is_not_about_the_handle(hvd):
  import torch

  class Broken(hvd.Compression.none):

    @staticmethod
    def decompress(tensor, context):
      return tensor.no_such_method(context)

  handle = hvd.allreduce_async(torch.ones(2), compression=Broken)
  with pytest.raises(AttributeError, match="no_such_method"):
    hvd.synchronize(handle)


def horovod_calls():
  import torch
  x = torch.ones(3)
  module = torch.nn.Linear(2, 2)
  pairs = "expected a state_dict(), or pairs of a name and a tensor"

  def optimizer(**options):
    import stretto.horovod as hvd
    return hvd.DistributedOptimizer(torch.optim.SGD(module.parameters(), lr=0.1), **options)

  return [
    (lambda h: h.allreduce(x, op=["Sum"]), "allreduce: op: expected one of Average, Sum"),
    (lambda h: h.allreduce(x, process_set=[0]), "process_set: expected a ProcessSet, or None"),
    (lambda h: h.barrier(3), "process_set: expected a ProcessSet, or None for all ranks, got 3"),
    (lambda h: h.allreduce(x, compression="fp16"), "compression: expected a member of hvd.Compre"),
    (lambda h: h.reducescatter(x, compression=None), "compression: expected a member of hvd.Com"),
    (lambda h: h.allreduce(x, prescale_factor="x"), "prescale_factor: expected a number, got 'x'"),
    (lambda h: h.reducescatter(x, postscale_factor=None), "postscale_factor: expected a number"),
    (lambda h: h.broadcast(x, "x"), "broadcast: root_rank: expected one of the ranks [0], got 'x'"),
    (lambda h: h.broadcast(x, [0]), "broadcast: root_rank: expected one of the ranks [0], got li"),
    (lambda h: h.alltoall(x, splits="abc"), "alltoall: splits: expected 1 numbers of rows"),
    (lambda h: h.alltoall(x, splits=3), "alltoall: splits: expected 1 numbers of rows, got 3"),
    (lambda h: h.alltoall(torch.tensor(1.0)), "alltoall: tensor: a scalar has no rows to send"),
    (lambda h: h.sparse_allreduce_async([1]), "tensor: expected a sparse COO tensor, got list"),
    (lambda h: h.sparse_allreduce_async(x), "expected a sparse COO tensor, got torch.strided"),
    (lambda h: h.add_process_set(3), "ProcessSet: ranks: expected a list of ranks, got 3"),
    (lambda h: h.add_process_set(["x"]), "ProcessSet: ranks: expected a list of ranks, got list"),
    (lambda h: h.add_process_set([9]), "expected different ranks from 0 to 0, got [9]"),
    (lambda h: h.add_process_set([]), "expected different ranks from 0 to 0, got []"),
    (lambda h: h.add_process_set([0, 0]), "expected different ranks from 0 to 0, got [0, 0]"),
    (lambda h: h.remove_process_set(3), "remove_process_set: process_set: expected a ProcessSet"),
    (lambda h: h.init(process_sets=3), "init: process_sets: expected a list of process sets, go"),
    (lambda h: h.broadcast_parameters(None), f"broadcast_parameters: params: {pairs}"),
    (lambda h: h.broadcast_parameters(module), f"broadcast_parameters: params: {pairs}"),
    (lambda h: h.broadcast_parameters(module.parameters()), f"params: {pairs}"),
    (lambda h: h.broadcast_optimizer_state(module), "optimizer: expected a torch.optim.Optimizer"),
    (lambda h: h.broadcast_object(lambda: 3), "broadcast_object: obj: it cannot be pickled: "),
    (lambda h: h.allgather_object(lambda: 3), "allgather_object: obj: it cannot be pickled: "),
    (lambda h: h.DistributedOptimizer(module), "optimizer: expected a torch.optim.Optimizer, got"),
    (lambda h: optimizer(named_parameters=3), f"named_parameters: {pairs}"),
    (lambda h: optimizer(named_parameters=module.parameters()), f"named_parameters: {pairs}"),
    (lambda h: optimizer(compression="fp16"), "compression: expected a member of hvd.Compression"),
    (lambda h: optimizer(backward_passes_per_step=0), "backward_passes_per_step: expected a numbe"),
    (lambda h: optimizer(gradient_predivide_factor="x"), "gradient_predivide_factor: expected a n"),
    (lambda h: optimizer(scaler=3), "scaler: expected a torch.amp.GradScaler or None, got 3"),
    (lambda h: optimizer(process_set=3), "process_set: expected a ProcessSet, or None for all"),
    (lambda h: h.start_timeline(3), "start_timeline: file_path: expected a path, got int"),
    (lambda h: h.SyncBatchNorm("x"), "SyncBatchNorm: num_features: expected a number of channels"),
    (lambda h: h.SyncBatchNorm(3)(3), "SyncBatchNorm: input: expected a torch.Tensor, got 3"),
    (lambda h: h.elastic.run(3), "run: func: expected a function whose first argument is a State"),
    (lambda h: h.elastic.run(print)(3), "elastic.run: expected a State, got 3"),
    (lambda h: h.elastic.State().register_reset_callbacks(3), "expected a list of functions, got"),
    (lambda h: h.elastic.State().register_reset_callbacks([3]), "expected a list of functions, g"),
    (lambda h: h.elastic.TorchState(model=3), "TorchState: model: expected an object with state_d"),
  ]


def test_horovod_got_something_else(hvd):
  for call, message in horovod_calls():
    refused(call, message, hvd)
  assert hvd.process_set_ids() == [0], "a set that was refused is not there"


def test_an_optimizer_that_was_refused_is_as_before(hvd):
  import torch
  optimizer = torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=0.1)
  refused(lambda: hvd.DistributedOptimizer(optimizer, process_set=3), "expected a ProcessSet")
  assert type(optimizer) is torch.optim.SGD


def test_in_place_groups_may_come_from_a_generator(hvd):
  """Their results went into new tensors, and those given stayed as they were."""
  import torch
  tensors = [torch.ones(2), torch.ones(3)]
  results = hvd.grouped_allreduce_(iter(tensors), prescale_factor=2.0)
  assert [t.tolist() for t in tensors] == [[2, 2], [2, 2, 2]]
  assert all(result is tensor for result, tensor in zip(results, tensors))


def test_torch_got_something_else(hvd):
  import stretto.torch as st
  import torch
  import torch.distributed as dist
  from torch.nn.parallel import DistributedDataParallel
  module = torch.nn.Linear(2, 2)
  ddp = DistributedDataParallel(torch.nn.Linear(2, 2))
  st.attach(ddp)
  for call, message in (
      (lambda: st.attach(module), "attach: ddp: expected a DistributedDataParallel module, got "
                                  "Linear; wrap the model first: ddp = torch.nn.parallel."),
      (lambda: st.attach(None), "attach: ddp: expected a DistributedDataParallel module, got"),
      (lambda: st.attach(ddp, codec=5), "attach: codec: expected a string, got 5"),
      (lambda: st.attach(ddp, codec="zip"), "codec: expected one of none, fp16"),
      (lambda: st.attach(ddp, step_policy=5), "attach: step_policy: expected a string, got 5"),
      (lambda: st.attach(ddp, scaler=5), "attach: scaler: expected a torch.amp.GradScaler or No"),
      (lambda: st.attach(ddp), "attach: the module has a communication hook already"),
      (lambda: st.GradientTimes(3), "GradientTimes: model: expected a torch.nn.Module, got 3"),
      (lambda: st.plan_buckets(3), "plan_buckets: times: expected GradientTimes, got 3"),
      (lambda: st.plan_buckets(st.GradientTimes(module), link=3), "plan_buckets: link: expected"),
      (lambda: st.statistics(3), "statistics: group: expected a process group of the backend"),
      (lambda: st.convert_sync_batchnorm(3), "convert_sync_batchnorm: module: expected a torch."),
      (lambda: dist.new_group([0], backend="stretto", pg_options="int8"),
       "pg_options: expected stretto.torch.GroupOptions or None, got 'int8'")):
    refused(call, message)


def test_an_unknown_codec_passed_until_the_first_step(hvd):
  import stretto.torch as st
  refused(lambda: st.GroupOptions(codec="zip"), "codec: expected one of none, fp16, bf16, int8")
  refused(lambda: st.GroupOptions(codec=5), "GroupOptions: codec: expected a string, got 5")
  refused(lambda: st.GroupOptions(epoch="x"), "GroupOptions: epoch: expected an integer from 0 on")
  assert st.GroupOptions(codec="int8", epoch=1) == st.GroupOptions("int8", 1)


def test_statistics_without_a_group(monkeypatch):
  pytest.importorskip("torch")
  import stretto.torch as st
  import torch.distributed as dist
  monkeypatch.setattr(dist, "group", types.SimpleNamespace(WORLD=None))
  refused(st.statistics, "statistics: call torch.distributed.init_process_group() first")
