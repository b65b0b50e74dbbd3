"""The benchmark models are the published architectures and the same on every machine."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.models import MODELS, build, find  # noqa: E402

# From the papers' reference implementations. The others have no canonical size.
PUBLISHED_MILLIONS = {
    "resnet50": 25.56, "resnext50_32x4d": 25.03, "resnest50": 27.48, "mobilenet_v2": 3.50,
    "efficientnet_b0": 5.29, "vit_b_16": 86.57, "bert_base": 109.48,
}


def test_listing_names_every_model_without_torch():
  code = "import sys; sys.modules['torch'] = None; sys.argv = ['x', '--list']; " \
         "from bench.models.__main__ import main; main()"
  out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
  assert out.returncode == 0, out.stderr
  for model in MODELS:
    assert model.name in out.stdout and model.checksum in out.stdout


def test_unknown_name_lists_the_known_ones():
  with pytest.raises(ValueError, match="no model 'resnet51'.*resnet50"):
    find("resnet51")


@pytest.mark.parametrize("name", [m.name for m in MODELS])
def test_parameter_count(name):
  torch = pytest.importorskip("torch", reason="the definitions need torch")
  import importlib

  from bench.models import weights

  model = find(name)
  with torch.device("meta"):  # shapes only, no memory
    module = getattr(importlib.import_module(f"bench.models.{model.module}"), name)()
  count = weights.parameter_count(module)
  assert count == model.parameters
  if name in PUBLISHED_MILLIONS:
    assert round(count / 1e6, 2) == PUBLISHED_MILLIONS[name]


@pytest.mark.parametrize("name", ["mobilenet_v2", "resnet50"])
def test_weights_and_outputs_are_sane(name):
  torch = pytest.importorskip("torch", reason="the definitions need torch")
  from bench.models import inputs, weights

  model = find(name)
  module = build(model)
  assert weights.checksum(module) == model.checksum
  with torch.no_grad():
    one, other = (module(torch.from_numpy(inputs.make_all(model, seed)["image"]))
                  for seed in (0, 1))
  # Neither vanished nor exploded, and the image matters: a wrong kernel cannot hide.
  assert 0.1 < one.std() < 10
  assert (one - other).abs().max() > 0.05 * one.abs().max()


def test_inputs_are_seeded_and_padded():
  import numpy as np

  from bench.models import inputs

  for model in MODELS:
    first, again = inputs.make_all(model), inputs.make_all(model)
    for spec in model.inputs:
      assert first[spec.name].shape == spec.shape and first[spec.name].dtype == spec.dtype
      np.testing.assert_array_equal(first[spec.name], again[spec.name])
  mask = inputs.make_all(find("bert_base"))["attention_mask"]
  assert 0 < (mask == 0).sum() < mask.size // 2
  image = inputs.make_all(find("resnet50"))["image"]
  # Smooth: neighbours differ far less than the whole image does, unlike white noise (ratio 1.4).
  assert abs(np.diff(image, axis=3)).std() < 0.5 * image.std()
