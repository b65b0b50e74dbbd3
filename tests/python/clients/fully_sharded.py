"""FSDP2 as scripts for large models have it: layers made without values, sharded one by one in
mixed precision, filled from rank 0, trained with clipped gradients, and saved as a whole."""

import copy

import stretto.torch
import torch
import torch.distributed as dist
from data import line, report, same_bits
from torch import nn
from torch.distributed.checkpoint.state_dict import (
  StateDictOptions,
  get_model_state_dict,
  get_optimizer_state_dict,
  set_model_state_dict,
  set_optimizer_state_dict,
)
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)
FROM_RANK_0 = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)


def network():
  return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))


def sharded(mesh, state):
  with torch.device("meta"):
    model = network()
  policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32,
                                output_dtype=torch.float32)
  layers = [layer for layer in model if isinstance(layer, nn.Linear)]
  for layer in layers:
    fully_shard(layer, mesh=mesh, mp_policy=policy)
  fully_shard(model, mesh=mesh, mp_policy=policy)
  for layer, following in zip(layers, layers[1:]):
    layer.set_modules_to_forward_prefetch([following])
  model.to_empty(device="cpu")
  set_model_state_dict(model, state, options=FROM_RANK_0)
  return model, torch.optim.Adam(model.parameters(), lr=0.02)


def train(model, optimizer, steps):
  rank, size = dist.get_rank(), dist.get_world_size()
  x, y = (t.chunk(size)[rank] for t in line())
  losses = []
  for _ in range(steps):
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 10.0)
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
  return losses


def resumed(mesh):
  """Losses of a run that goes on in the middle from what rank 0 saved."""
  torch.manual_seed(0)
  first = sharded(mesh, network().state_dict() if dist.get_rank() == 0 else {})
  losses = train(*first, 20)
  # A copy, as a file would be: what torch gives shares memory with the optimizer.
  state, moments = copy.deepcopy((get_model_state_dict(first[0], options=WHOLE),
                                  get_optimizer_state_dict(*first, options=WHOLE)))
  second = sharded(mesh, state)
  set_optimizer_state_dict(*second, moments, options=FROM_RANK_0)
  onward = train(*second, 20)
  assert onward == train(*first, 20), "saved and loaded, it does not go on as it was"
  return losses + onward


mesh = init_device_mesh("cpu", (2,))
losses = resumed(mesh)
same_bits(losses, resumed(DeviceMesh.from_group(dist.new_group(backend="gloo"), "cpu")))
report(dist.get_rank(), dist.get_backend(mesh.get_group()), losses,
       stretto.torch.statistics()["operations"])
dist.destroy_process_group()
