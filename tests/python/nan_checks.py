"""The checks of test_comm_torch.py on the names of parameters in reports of NaN: part of the job
of torch_checks.py."""

import stretto.torch
import torch
import torch.distributed as dist
from torch import nn
from torch_checks import SEED, batch, network, train


def check_nan_names_the_parameter(rank, size):
  model = nn.parallel.DistributedDataParallel(network())
  stretto.torch.attach(model)
  (x, y), _ = batch(0, rank, size)
  for _ in range(2):
    nn.functional.mse_loss(model(x), y).backward()
  if rank == 0:
    model.module[2].weight.register_hook(lambda grad: grad.index_put((torch.tensor(3),
                                                                      torch.tensor(1)),
                                                                     torch.tensor(float("nan"))))
  nn.functional.mse_loss(model(x), y).backward()
  dist.barrier()
  reports = dist.group.WORLD.engine.non_finite()
  if rank == 0:
    assert any("2.weight at step 3" in r["name"] for r in reports), reports
  assert torch.isnan(model.module[2].weight.grad).any()  # a loss scaler has to see it


def poison(parameter, place, steps):
  """Makes an element of the gradient NaN from the step after `steps` more on."""
  left = [steps]

  def hook(grad):
    left[0] -= 1
    if left[0] >= 0:
      return grad
    grad = grad.clone()
    grad[place] = float("nan")
    return grad

  parameter.register_hook(hook)


def names_of_nan(rank, size, model, steps=3, optimizer=None):
  """Trains, and returns the reports of NaN of this rank that are new."""
  engine = dist.group.WORLD.engine
  known = len(engine.non_finite())
  train(model, rank, size, steps, optimizer=optimizer)
  dist.barrier()
  return [(report["name"].partition(" at step ")[0], report["first_offset"])
          for report in engine.non_finite()[known:]]


def check_nan_has_a_name_in_ddp_without_attach(rank, size):
  """Layers of one size, a bucket for each; and all in one bucket."""
  for options in ({"bucket_cap_mb": 0.0005}, {}, {"gradient_as_bucket_view": True},
                  {"find_unused_parameters": True}):
    torch.manual_seed(SEED)
    layers = nn.Sequential(*(nn.Linear(6, 6) for _ in range(6)), nn.Linear(6, 3))
    model = nn.parallel.DistributedDataParallel(layers, **options)
    if rank == size - 1:
      poison(model.module[2].weight, (3, 1), 2)
    found = names_of_nan(rank, size, model)
    assert ("2.weight", 3 * 6 + 1) in found or rank != size - 1, (options, found)
    assert rank == size - 1 or not found, found
  if rank == size - 1:
    name = dist.group.WORLD.engine.non_finite()[-1]["name"]
    assert name.startswith("2.weight at step "), name


def check_nan_has_a_name_in_zero(rank, size):
  from torch.distributed.optim import ZeroRedundancyOptimizer
  model = nn.parallel.DistributedDataParallel(network())
  optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
  if rank == 0:
    poison(model.module[4].bias, 2, 1)
  found = names_of_nan(rank, size, model, 2, optimizer)
  assert ("4.bias", 2) in found or rank != 0, found


def check_nan_has_a_name_in_fsdp(rank, size):
  from torch.distributed.fsdp import FullyShardedDataParallel
  from torch.distributed.fsdp.wrap import ModuleWrapPolicy
  class Layer(nn.Module):

    def __init__(self):
      super().__init__()
      self.linear = nn.Linear(6, 6)

    def forward(self, x):
      y = self.linear(x)
      if self.training and y.requires_grad and getattr(self, "poisoned", False):
        poisoned = torch.zeros_like(y)
        poisoned[0, 5] = float("nan")  # output 5 depends on bias 5 and row 5 of the weights
        y.register_hook(lambda grad: grad + poisoned)
      return y

  for original in (False, True):
    torch.manual_seed(SEED)
    layers = nn.Sequential(*(Layer() for _ in range(4)), nn.Linear(6, 3))
    layers[2].poisoned = rank == 0
    model = FullyShardedDataParallel(layers, device_id=torch.get_default_device(),
                                     use_orig_params=original,
                                     auto_wrap_policy=ModuleWrapPolicy({Layer}))
    found = names_of_nan(rank, size, model, 1)
    # The layers before it get NaN from it.
    names = [name for name, _ in found]
    assert rank or found[0] == ("2.linear.weight", 5 * 6), found
    assert rank or names == [f"{i}.linear.weight" for i in (2, 1, 0)], found


def check_nan_has_a_name_in_fsdp2(rank, size):
  from torch.distributed.device_mesh import init_device_mesh
  try:
    from torch.distributed.fsdp import fully_shard
  except ImportError:
    return
  model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 5), nn.Linear(5, 3))
  mesh = init_device_mesh(torch.get_default_device().type, (size,))
  for layer in model:
    fully_shard(layer, mesh=mesh)
  fully_shard(model, mesh=mesh)
  if rank == size - 1:
    poisoned = torch.zeros(4, 5)
    poisoned[1, 4] = float("nan")
    model[1].register_forward_hook(
        lambda module, args, y: y.register_hook(lambda grad: grad + poisoned) and None)
  group = mesh.get_group()
  known = len(group.engine.non_finite())
  train(model, rank, size, 1)
  dist.barrier()
  found = [(report["name"].partition(" at step ")[0], report["first_offset"])
           for report in group.engine.non_finite()[known:]]
  assert rank != size - 1 or found[0] == ("1.weight", 4 * 6), found
  assert rank != size - 1 or found[1][0] == "0.weight", found
  assert rank == size - 1 or not found, found
