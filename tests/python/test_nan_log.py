"""What the log says of NaN in scripts that do nothing for it: nobody here asks the engine."""

import os
import re
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="the backend is for torch, which is not installed")

# Guards against hanging for ever, not statements about speed.
TIMEOUT_S = 240

SCRIPT = """
import logging, time
import torch, torch.distributed as dist
from torch import nn
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
seen = []
handler = logging.Handler()
handler.emit = seen.append
logging.getLogger("stretto").addHandler(handler)

class Layer(nn.Module):

  def __init__(self, poisoned=False):
    super().__init__()
    self.linear, self.poisoned = nn.Linear(6, 6), poisoned

  def forward(self, x):
    y = self.linear(x)
    if self.poisoned:
      poison = torch.zeros_like(y)
      poison[0, 5] = float("nan")
      y.register_hook(lambda grad: grad + poison)
    return y

layers = nn.Sequential(Layer(), Layer(), Layer(poisoned=rank == 1))
{wrap}
for step in range(6):
  model(torch.ones(4, 6)).sum().backward()
  {reduce}
while rank == 1 and not seen:  # before the end
  time.sleep(0.01)
dist.destroy_process_group()
"""

FSDP = """
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
model = FullyShardedDataParallel(layers, device_id=torch.device("cpu"),
                                 auto_wrap_policy=ModuleWrapPolicy({Layer}))
"""
FSDP2 = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
mesh = init_device_mesh("cpu", (size,))
for layer in layers:
  fully_shard(layer, mesh=mesh)
fully_shard(layers, mesh=mesh)
model = layers
"""
LOOP = """
for parameter in model.parameters():
    dist.all_reduce(parameter.grad)
"""
# FSDP reduces the layer first whose output has the NaN; DDP has all layers in a bucket.
CASES = {
  "ddp": ("model = nn.parallel.DistributedDataParallel(layers)", "", r"\d\.linear\.\w+ at step 1"),
  "fsdp": (FSDP, "", r"2\.linear\.\w+ at step 1"),
  "fsdp2": (FSDP2, "", r"2\.linear\.\w+ at step 1"),
  "loop": ("model = layers", LOOP, "an operation")}


def run(tmp_path, case, level):
  wrap, reduce, name = CASES[case]
  if case == "fsdp2":
    import torch.distributed.fsdp
    if not hasattr(torch.distributed.fsdp, "fully_shard"):
      pytest.skip("this version of torch has no fully_shard")
  script = tmp_path / "train.py"
  script.write_text(SCRIPT.replace("{wrap}", wrap).replace("{reduce}", reduce.strip()))
  environment = {k: v for k, v in os.environ.items() if k != "STRETTO_LOG_LEVEL"}
  if level is not None:
    environment["STRETTO_LOG_LEVEL"] = level
  done = subprocess.run([sys.executable, "-m", "stretto._launch", "-n", "2", "--replace-backend",
                         str(script)], capture_output=True, text=True, timeout=TIMEOUT_S,
                        env=environment)
  assert done.returncode == 0, done.stderr[-3000:]
  return done.stderr, name


def check(text, name):
  """Each rank that has any warns once, not in every step."""
  found = re.findall(r"stretto WARNING: rank (\d): \d+ values of (.*) are NaN or infinite", text)
  assert len(dict(found)) == len(found), text[-3000:]
  assert re.fullmatch(name, dict(found).get("1", "")), text[-3000:]


@pytest.mark.parametrize("case", CASES)
def test_nan_was_only_logged_where_operations_end_on_the_completion_thread(tmp_path, case):
  check(*run(tmp_path, case, level="warning"))


def test_nan_went_unseen_where_nobody_had_set_up_logging(tmp_path):
  check(*run(tmp_path, "ddp", level=None))
