"""The checks of place() in test_comm_torch.py: the last rank holds a part for the others."""

import sys
import time
from pathlib import Path

import comm_job
import pytest
import stretto.torch
import torch
import torch.distributed as dist
from stretto.torch import place
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import stretto

STEPS = 4


class Net(nn.Module):
  def __init__(self):
    super().__init__()
    self.body = nn.Sequential(nn.Linear(6, 8), nn.Tanh())
    self.head = nn.Sequential(nn.Linear(8, 7), nn.Tanh(), nn.Linear(7, 5))

  def forward(self, x):
    return self.head(self.body(x))


class Lossy(nn.Module):
  """Its head is given labels too and returns the loss, so that logits stay where they are."""

  def __init__(self):
    super().__init__()
    self.body, self.head = nn.Linear(6, 8), LossHead()

  def forward(self, x, labels):
    return self.head(self.body(x), labels=labels)["loss"][0]


class LossHead(nn.Module):
  def __init__(self):
    super().__init__()
    self.linear = nn.Linear(8, 5)

  def forward(self, features, labels):
    logits = self.linear(features)
    return {"loss": (nn.functional.cross_entropy(logits, labels), logits.argmax(1))}


def seeded(make):
  torch.manual_seed(3)
  return make()


def batches(rank):
  generator = torch.Generator().manual_seed(50 + rank)
  return [(torch.randn(8, 6, generator=generator), torch.randint(5, (8,), generator=generator))
          for _ in range(STEPS)]


def loss_of(model, x, y, micro):
  """As a mean of `micro` parts of the batch, whose results are asked for after all were begun. 0:
  the model computes the loss."""
  if micro == 0:
    return model(x, y)
  results = [model(part) for part in x.chunk(micro)]
  losses = [nn.functional.cross_entropy(r, part) for r, part in zip(results, y.chunk(micro))]
  return torch.stack(losses).mean()


def train(model, call, rank, micro):
  optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
  losses = []
  for x, y in batches(rank):
    optimizer.zero_grad()
    loss = loss_of(call, x, y, micro)
    loss.backward()
    optimizer.step()
    losses.append(float(loss.detach()))
  return losses


def split(make, rank, size, name="head", micro=1, **options):
  """Losses and the state of a model whose `name` lies on the last rank; None on that rank."""
  model = place(seeded(make), {name: f"cpu:{size - 1}"}, **options)
  if model.holds:
    assert model.holds == [name] and rank == size - 1
    names = {id(p) for p in model.parameters()}
    assert len(names) == len(list(model.module[0].parameters())) > 0
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    assert model.serve(optimizer) == STEPS
    return None
  assert not any(key.startswith(f"module.{name}.") for key, _ in model.named_parameters())
  call = model
  if size > 2:
    call = DistributedDataParallel(model, process_group=model.group)
  with model:
    losses = train(model, call, rank, micro)
    state = model.full_state_dict() if rank == 0 else {}
  return losses, state, model.group


def whole(make, rank, size, group, micro=1):
  model = seeded(make)
  call = DistributedDataParallel(model, process_group=group) if size > 2 else model
  losses = train(model, call, rank, micro)
  return losses, model


def compare(make, rank, size, exact=True, **options):
  found = split(make, rank, size, **options)
  if found is None:
    return
  losses, state, group = found
  want, model = whole(make, rank, size, group, options.get("micro", 1))
  how = {"rtol": 0, "atol": 0} if exact else {"rtol": 1e-5, "atol": 1e-7}
  torch.testing.assert_close(losses, want, **how)
  if rank == 0:
    assert set(state) == set(model.state_dict())
    for name, value in model.state_dict().items():
      torch.testing.assert_close(state[name], value, **how)
    seeded(make).load_state_dict(state)


def check_a_head_on_another_rank_trains_to_the_same_bits(rank, size):
  # With two other ranks the mean of gradients is a sum of halves, in which nothing is rounded.
  compare(Net, rank, size)


def check_a_layer_in_the_middle_may_lie_there(rank, size):
  compare(Net, rank, size, name="body.0")


def check_a_head_that_takes_labels_and_returns_the_loss(rank, size):
  compare(Lossy, rank, size, micro=0)


def check_micro_batches_in_flight(rank, size):
  # Autograd may add the gradients of micro-batches in another order.
  compare(Net, rank, size, exact=False, micro=4, in_flight=True)


def wait_for(file):
  end = time.monotonic() + 100
  while not file.exists():
    assert time.monotonic() < end, f"{file} did not come"
    time.sleep(0.005)


def check_ranks_compute_at_the_same_time(rank, size):
  """The head's first call ends only when a caller works on its second one."""
  folder = Path(sys.argv[1])

  class Waits(nn.Linear):
    calls = 0

    def forward(self, x):
      self.calls += 1
      if self.calls == 1:
        wait_for(folder / "begun-1")
      return super().forward(x)

  class Begins(nn.Linear):
    calls = 0

    def forward(self, x):
      (folder / f"begun-{self.calls}").touch()
      self.calls += 1
      return super().forward(x)

  model = place(nn.Sequential(Begins(6, 8), Waits(8, 5)), {"1": f"cpu:{size - 1}"}, in_flight=True)
  if model.holds:
    model.serve()
    return
  with model:
    model._single.add("1")  # as after a first call, which waits
    results = [model(torch.ones(2, 6)) for _ in range(4)]
    torch.stack([result.sum() for result in results]).sum().backward()


def check_results_in_flight_are_tensors_to_whatever_uses_them(rank, size):
  model = place(seeded(Net), {"head": f"cpu:{size - 1}"}, in_flight=True)
  if model.holds:
    model.serve()
    return
  x = batches(rank)[0][0]
  with model, torch.no_grad():
    want = seeded(Net)(x)
    for use in (lambda y: y + 0, lambda y: 0 + y, lambda y: torch.cat([y, y])[:8], lambda y: y[:],
                lambda y: y.clone(), lambda y: torch.stack(list(y)), lambda y: y.view(8, 5)):
      model(x)  # and one that nobody looks at
      assert torch.equal(use(model(x)), want)
    result = model(x)
    assert result.shape == (8, 5) and result.tolist() == want.tolist() and float(result[0, 0])


def check_a_model_on_the_meta_device_is_nowhere_whole(rank, size):
  with torch.device("meta"):
    net = Net()
  model = place(net, {"head": f"cpu:{size - 1}"})
  assert not any(p.is_meta for p in model.parameters())
  if model.holds:
    assert sum(p.numel() for p in model.parameters()) == 8 * 7 + 7 + 7 * 5 + 5
    model.serve(torch.optim.SGD(model.parameters(), lr=0.1))
    return
  assert sum(p.numel() for p in model.parameters()) == 6 * 8 + 8
  x = batches(rank)[0][0]
  with model:
    assert model(x).isfinite().all()
    reference = seeded(Net)
    model.load_full_state_dict(reference.state_dict())
    assert torch.equal(model(x).detach(), reference(x).detach())
    with pytest.raises(stretto.InvalidArgumentError, match="nothing of head"):
      model.load_full_state_dict({"body.0.weight": x})


def check_errors_of_a_part_are_raised_where_it_was_called(rank, size):
  model = place(seeded(Net), {"head": f"cpu:{size - 1}"})
  if model.holds:
    with pytest.raises(stretto.InvalidArgumentError, match="which call it; call serve"):
      model(torch.zeros(1, 6))
    model.serve()
    return
  with model:
    model.module.body = nn.Identity()
    with pytest.raises(stretto.CommError,
                       match=f"rank {size - 1}, which holds head: RuntimeError.*shapes"):
      model(torch.zeros(3, 6))
    with pytest.raises(stretto.InvalidArgumentError, match="a Net cannot be sent"):
      model.module.head(Net())
    y = model(torch.zeros(3, 8)).sum()
    y.backward(retain_graph=True)
    with pytest.raises(stretto.CommError, match="differentiated already"):
      y.backward()
    with pytest.raises(stretto.InvalidArgumentError, match="holds no part"):
      model.serve()
  with pytest.raises(stretto.InvalidArgumentError, match="after close"):
    model(torch.zeros(3, 8))


def check_a_rank_that_fails_ends_those_that_hold_parts(rank, size):
  model = place(seeded(Net), {"head": f"cpu:{size - 1}"})
  if model.holds:
    with pytest.raises(stretto.CommError, match="rank . ended with an error: ValueError: no data"):
      model.serve()
  else:
    with pytest.raises(ValueError), model:
      raise ValueError("no data")
  dist.barrier()


def check_places_that_cannot_be_are_named(rank, size):
  for parts, text in (
      ({"haed": "cpu:1"}, "no rank can hold 'haed'.*head"), ({}, "expected a dictionary"),
      ({"head": f"cpu:{size}"}, f"head: rank {size} does not exist.*0 to {size - 1}"),
      ({"head": "tpu:1"}, "head: expected cpu or cuda and a rank"), ({"head": "cpu"}, "and a rank"),
      ({"head": "cpu:1", "head.0": "cpu:0"}, "head.0 is in head"),
      ({f"head.{i}": f"cpu:{i}" for i in range(size)}, "no rank is left")):
    with pytest.raises(stretto.InvalidArgumentError, match=text):
      place(Net(), parts)
  tied = Net()
  tied.head[2].weight = nn.Parameter(torch.zeros(8, 6))
  tied.body[0].weight = tied.head[2].weight
  with pytest.raises(stretto.InvalidArgumentError, match="body.0.weight and head.2.weight are one"):
    place(tied, {"head": "cpu:1"})


def train_by(step, rank, size, make=Net, prepare=lambda model: None):
  """Four steps by `step(call, model, optimizer, x, y, number)`, with a part on the last rank and
  without; both models, the second one None on the rank of the part."""
  start = seeded(make)
  prepare(start)
  model = place(start, {"head": f"cpu:{size - 1}"})
  if model.holds:
    model.serve(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    return
  reference = seeded(make)
  prepare(reference)
  with model:
    for one, data in ((model, batches(rank)), (reference, batches(rank))):
      call = DistributedDataParallel(one, process_group=model.group) if size > 2 else one
      optimizer = torch.optim.SGD(one.parameters(), lr=0.1, momentum=0.9)
      for number, (x, y) in enumerate(data):
        optimizer.zero_grad()
        step(call, one, optimizer, x, y, number)
    if rank == 0:
      for name, value in model.full_state_dict().items():
        # DistributedDataParallel averages in each pass, so sums of several are rounded otherwise.
        how = {"rtol": 0, "atol": 0} if size == 2 else {"rtol": 1e-5, "atol": 1e-6}
        torch.testing.assert_close(value, reference.state_dict()[name], **how)
    dist.barrier(group=model.group)


def loss_to(call, x, y):
  return nn.functional.cross_entropy(call(x), y)


def check_gradients_of_inputs_leave_those_of_the_part(rank, size):
  def step(call, model, optimizer, x, y, number):
    del number
    x.requires_grad_()
    inner = model if model is call else call.module  # DDP refuses torch.autograd.grad
    gradient, = torch.autograd.grad(loss_to(inner, x, y), x)
    loss_to(call, (x + gradient.sign()).detach(), y).backward()
    optimizer.step()

  train_by(step, rank, size)


def check_gradients_of_gradients_are_refused(rank, size):
  model = place(seeded(Net), {"head": f"cpu:{size - 1}"})
  if model.holds:
    model.serve()
    return
  x, y = batches(rank)[0]
  x.requires_grad_()
  with model:
    for form in (lambda out: out.sum(), lambda out: out.pow(2).sum()):
      with pytest.raises(stretto.InvalidArgumentError, match="create_graph=True through head"):
        torch.autograd.grad(form(model(x)), x, create_graph=True)
    with pytest.raises(stretto.InvalidArgumentError, match="asked for by name, through head"):
      torch.autograd.grad(loss_to(model, x, y), list(model.parameters()))
    with pytest.raises(stretto.InvalidArgumentError, match="asked for by name, through head"):
      loss_to(model, x, y).backward(inputs=list(model.parameters()))


def check_gradients_that_are_dropped_are_dropped_by_the_part(rank, size):
  def by_hand(model):
    for parameter in model.parameters():
      parameter.grad = None

  ways = (lambda model, optimizer: optimizer.zero_grad(),
          lambda model, optimizer: model.zero_grad(),
          lambda model, optimizer: optimizer.zero_grad(set_to_none=False),
          lambda model, optimizer: by_hand(model))

  def step(call, model, optimizer, x, y, number):
    (loss_to(call, x, y) * float("nan")).backward()
    if number % 2:  # the result of the next pass may be there already
      loss = loss_to(call, x, y)
    ways[number](model, optimizer)
    if number % 2 == 0:
      loss = loss_to(call, x, y)
    loss.backward()
    optimizer.step()

  train_by(step, rank, size)


class Tailed(Net):
  """The gradients of its tail are formed before those of the part."""

  def __init__(self):
    super().__init__()
    self.tail = nn.Linear(5, 5)

  def forward(self, x):
    return self.tail(super().forward(x))


def check_dropped_gradients_with_a_layer_behind_the_part(rank, size):
  def step(call, model, optimizer, x, y, number):
    del model, number
    (loss_to(call, x, y) * 3).backward()
    loss = loss_to(call, x, y)
    optimizer.zero_grad()
    loss.backward()
    loss_to(call, x + 1, y).backward()
    optimizer.step()

  train_by(step, rank, size, Tailed)


def check_gradients_of_zero_are_not_dropped_ones(rank, size):
  """A part that begins with zeros gives gradients of zero to the rest, and has some itself."""
  def prepare(model):
    nn.init.zeros_(model.head[0].weight)

  def step(call, model, optimizer, x, y, number):
    del model, number
    loss_to(call, x, y).backward()
    loss_to(call, x + 1, y).backward()
    optimizer.step()

  train_by(step, rank, size, prepare=prepare)


def check_the_norm_is_that_over_all_parts(rank, size):
  def step(call, model, optimizer, x, y, number):
    loss_to(call, x, y).backward()
    limit = 0.1 if number % 2 else 100.0
    if isinstance(model, Net):
      nn.utils.clip_grad_norm_(model.parameters(), limit)
    else:
      model.clip_grad_norm_(limit)
    if number == 2:  # a batch that is dropped by its norm
      optimizer.zero_grad()
      loss_to(call, x + 1, y).backward()
    optimizer.step()

  train_by(step, rank, size)


def check_gradients_changed_by_hand_are_refused(rank, size):
  model = place(seeded(Net), {"head": f"cpu:{size - 1}"})
  if model.holds:
    model.serve(torch.optim.SGD(model.parameters(), lr=0.1))
    return
  call = DistributedDataParallel(model, process_group=model.group) if size > 2 else model
  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
  x, y = batches(rank)[0]
  with model:
    for change in (lambda: nn.utils.clip_grad_norm_(model.parameters(), 1.0),
                   lambda: setattr(model.module.body[0].bias, "grad", torch.ones(8))):
      optimizer.zero_grad()
      loss_to(call, x, y).backward()
      change()
      with pytest.raises(stretto.InvalidArgumentError, match="changed between .*clip_grad_norm_"):
        optimizer.step()
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(loss_to(call, x, y)).backward()
    model.module.body[0].bias.grad = torch.ones(8)
    with pytest.raises(stretto.InvalidArgumentError, match="changed between .*clip_grad_norm_"):
      scaler.step(optimizer)
    fused = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    optimizer.zero_grad()
    with pytest.raises(stretto.InvalidArgumentError, match="fused=False"):
      scaler.step(fused)
    optimizer.zero_grad()
    loss_to(call, x, y).backward()
    optimizer.step()


def check_scaled_losses(rank, size):
  """One step is left out because its gradients are not finite, and one is clipped as well."""
  scalers = {}

  def step(call, model, optimizer, x, y, number):
    scaler = scalers.setdefault(id(model), torch.amp.GradScaler(
        "cpu", init_scale=2.0**10, growth_interval=2))
    loss = loss_to(call, x, y) * (1e38 if number == 1 else 1)
    before = [p.detach().clone() for p in model.parameters()]
    scaler.scale(loss).backward()
    if number == 3:
      scaler.unscale_(optimizer)
      if isinstance(model, Net):
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
      else:
        model.clip_grad_norm_(0.1)
    scaler.step(optimizer)
    scaler.update()
    same = all(torch.equal(a, b) for a, b in zip(before, model.parameters()))
    assert same == (number == 1)
    assert scaler.get_scale() == (2.0**10 if number in (0, 3) else 2.0**9)

  train_by(step, rank, size)


class Steep(nn.Module):
  """Its own gradient overflows at the first scale, and nobody else's does."""

  def __init__(self):
    super().__init__()
    self.weight = nn.Parameter(torch.zeros(5))

  def forward(self, x):
    return x + (self.weight * 1e37).clamp(-1e-3, 1e-3)


class SteepNet(Net):
  def __init__(self):
    super().__init__()
    self.head.append(Steep())


def check_a_part_whose_gradients_overflow_leaves_out_the_step_of_all(rank, size):
  scalers = {}

  def step(call, model, optimizer, x, y, number):
    scaler = scalers.setdefault(id(model), torch.amp.GradScaler(
        "cpu", init_scale=2.0**12, backoff_factor=2.0**-11))
    scaler.scale(loss_to(call, x, y)).backward()
    assert all(p.grad.isfinite().all() for name, p in model.named_parameters()
               if "body" in name)
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0
    assert number or not any(state for state in optimizer.state.values())  # no step was taken

  train_by(step, rank, size, SteepNet)


class Wide(nn.Module):
  """Its head is one layer, of a number of rows that two does not divide."""

  def __init__(self):
    super().__init__()
    self.body, self.head = nn.Sequential(nn.Linear(6, 8), nn.Tanh()), nn.Linear(8, 5)

  def forward(self, x):
    return self.head(self.body(x))


def rows_of(size):
  """Two ranks where there are enough."""
  return [f"cpu:{max(size - 2, 1)}", f"cpu:{size - 1}"]


def check_a_head_that_is_divided_by_rows(rank, size):
  for options in ({}, {"in_flight": True}):
    model = place(seeded(Wide), {"head": rows_of(size)}, **options)
    if model.holds:
      assert set(model.holds) <= {"head.0", "head.1"}
      rows = sum(len(p) for p in model.parameters() if p.dim() == 1)
      assert rows == {("head.0",): 3, ("head.1",): 2}.get(tuple(model.holds), 5)
      assert model.serve(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)) == STEPS
      continue
    with model:
      losses = train(model, model, rank, 2 if options else 1)
      state = model.full_state_dict()
      model.load_full_state_dict(state)
      again = model.full_state_dict()
    want, reference = whole(Wide, rank, 2, None, 2 if options else 1)
    # The gradient of the features is a sum over the ranks.
    torch.testing.assert_close(losses, want, rtol=1e-5, atol=1e-7)
    assert set(state) == set(reference.state_dict())
    for name, value in reference.state_dict().items():
      torch.testing.assert_close(state[name], value, rtol=1e-4, atol=1e-6)
      assert torch.equal(state[name], again[name])


def check_rows_compute_at_the_same_time(rank, size):
  """Each piece waits for the other in its forward pass; one after the other they would not end."""
  folder = Path(sys.argv[1])
  if size < 3:  # one rank has both
    return
  model = place(seeded(Wide), {"head": rows_of(size)})
  if model.holds:

    def meet(module, args):
      (folder / f"rows-{rank}").touch()
      wait_for(folder / f"rows-{3 - rank}")

    model.module[0].register_forward_pre_hook(meet)
    model.serve()
    return
  with model, torch.no_grad():
    assert model(batches(rank)[0][0]).shape == (8, 5)


def check_what_cannot_be_divided_is_named(rank, size):
  del rank
  places = [f"cpu:{size - 1}"] * 2
  tied = Wide()
  tied.other = nn.Linear(8, 5)
  tied.other.weight = tied.head.weight
  for net, parts, text in (
      (Net(), {"head": places}, "only an nn.Linear is divided by rows, and this is a Seq"),
      (Wide(), {"head": places[:1]}, "two places or more; got 1"),
      (Wide(), {"heads": places}, "no ranks can hold 'heads'"),
      (Wide(), {"head": places * 3}, "5 rows, which are too few for 6 places"),
      (tied, {"head": places}, "head.weight and other.weight are one parameter"),
      (Wide(), {"head": ["cpu:0", "gpu:1"]}, "head.1: expected cpu or cuda and a rank")):
    with pytest.raises(stretto.InvalidArgumentError, match=text):
      place(net, parts)


def check_no_pass_waits_for_another_rank(rank, size):
  """One rank has more micro-batches than the other, as shares of unlike chips may give."""
  def step(call, model, optimizer, x, y, number):
    del model
    results = [call(part) for part in x.chunk(2 + 2 * ((rank + number) % 2))]
    (nn.functional.cross_entropy(torch.cat(results), y)).backward()
    optimizer.step()

  train_by(step, rank, size)


def check_a_step_counts_on_a_rank_whose_loss_leaves_the_part_out(rank, size):
  """The others' gradients of that step must not be added to those of the next one."""
  model = place(seeded(Net), {"head": f"cpu:{size - 1}"})
  if model.holds:
    assert model.serve(torch.optim.SGD(model.parameters(), lr=0.1)) == STEPS
    return
  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
  with model:
    for number, (x, y) in enumerate(batches(rank)):
      optimizer.zero_grad()
      skips = rank == 0 and number == 1
      (model.module.body(x).sum() if skips else loss_to(model, x, y)).backward()
      optimizer.step()


def check_mixed_precision(rank, size):
  def step(call, model, optimizer, x, y, number):
    del model, number
    with torch.autocast("cpu", torch.bfloat16):
      result = call(x)
    assert result.dtype == torch.bfloat16
    nn.functional.cross_entropy(result.float(), y).backward()
    optimizer.step()

  train_by(step, rank, size)


class Normed(Net):
  def __init__(self):
    super().__init__()
    self.head = nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 5), nn.BatchNorm1d(5))


def check_statistics_are_those_of_the_first_rank(rank, size):
  def prepare(model):
    model.head[0].eval()  # frozen

  def step(call, model, optimizer, x, y, number):
    if number == 2:
      model.eval()
      if rank == 0:
        with torch.no_grad():
          model(x * 9)
      model.train()
      head = getattr(model, "module", model).head
      if isinstance(head, nn.Sequential):
        assert head[0].training
    loss_to(call, x, y).backward()
    optimizer.step()

  train_by(step, rank, size, Normed, prepare)


class Tied(Net):
  def __init__(self):
    super().__init__()
    self.head = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 5))
    self.head[1].weight = self.head[0].weight


def check_ties_outlast_the_meta_device(rank, size):
  with torch.device("meta"):
    net = Tied()
  model = place(net, {"head": f"cpu:{size - 1}"})
  if model.holds:
    head = model.module[0]
    assert head[1].weight is head[0].weight and len(list(head.parameters())) == 5
    model.serve()
    return
  with model:
    assert model(batches(rank)[0][0]).isfinite().all()


def check_calls_that_nobody_differentiates_are_not_kept(rank, size):
  from stretto.torch import _holder
  kept = []

  class Counts(_holder.Holder):
    def _forward(self, rank, client, content, tensors):
      super()._forward(rank, client, content, tensors)
      kept.append(len(client.calls))

  _holder_of = sys.modules["stretto.torch._placed"]
  _holder_of.Holder = Counts
  model = place(seeded(Net), {"head": f"cpu:{size - 1}"})
  if model.holds:
    model.serve()
    assert len(kept) == 50 * (size - 1) and max(kept) <= 2
    return
  with model:
    for _ in range(50):
      assert model(batches(rank)[0][0]).requires_grad


if __name__ == "__main__":
  comm_job.main(globals())
