"""How much memory large weights take while a model is made, saved and converted."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("torch")

# In a process of its own, whose largest size so far is known at any time.
SCRIPT = """
import json, resource, sys
import torch
from torch import nn
import stretto

def most():
  return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

def module():
  return nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(8)]).eval()

def optimized(module, rows, shapes=None):
  return stretto.optimize(module, torch.randn(rows, 2048), dynamic_shapes=shapes, tuning="off",
                          tuning_cache="none", verify=False, threads=1)

how, folder = sys.argv[1:]
shapes = ({0: torch.export.Dim("rows", max=64)},) if how == "open" else None
optimized(nn.Sequential(nn.Linear(2048, 8)).eval(), 4, shapes)
large = module()
weights = sum(p.numel() for p in large.parameters()) * 4
steps = [most()]
model = optimized(large, 4, shapes)
steps.append(most())
model.save(folder + "/m.stretto")
steps.append(most())
stretto.convert(large, folder + "/m.onnx", torch.randn(4, 2048), dynamic_shapes=shapes)
steps.append(most())
print(json.dumps([(after - before) / weights for before, after in zip(steps, steps[1:])]))
"""


# Beside the module itself, in its weights. Optimising keeps them twice, transposed and packed. With
# open dimensions the graph for all sizes is read again, from the weights that are there.
@pytest.mark.parametrize("how", ["fixed", "open"])
def test_weights_are_not_copied_again(tmp_path, how):
  done = subprocess.run([sys.executable, "-c", SCRIPT, how, str(tmp_path)], capture_output=True,
                        text=True, timeout=240)
  assert done.returncode == 0, done.stderr
  grown = json.loads(done.stdout)
  assert all(g < most for g, most in zip(grown, (2.6, 0.3, 0.3), strict=True)), grown
