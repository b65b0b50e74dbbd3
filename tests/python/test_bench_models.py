"""The benchmark models are the published architectures and the same on every machine."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.models import (  # noqa: E402
  HELD_OUT,
  MODELS,
  RECURRENT,
  build,
  definition,
  find,
  select,
)

# From the papers' reference implementations, of held-out models from the libraries' own tables. The
# others have no canonical size.
PUBLISHED_MILLIONS = {
    "resnet50": 25.56, "resnext50_32x4d": 25.03, "resnest50": 27.48, "mobilenet_v2": 3.50,
    "efficientnet_b0": 5.29, "vit_b_16": 86.57, "bert_base": 109.48,
    "vgg16": 138.36, "densenet121": 7.98, "squeezenet1_1": 1.24, "shufflenet_v2_x1_0": 2.28,
    "mobilenet_v3_large": 5.48, "mnasnet1_0": 4.38, "regnet_x_1_6gf": 9.19, "regnet_y_1_6gf": 11.20,
    "wide_resnet50_2": 68.88, "efficientnet_v2_s": 21.46, "convnext_tiny": 28.59, "swin_t": 28.29,
    "seresnet50": 28.09, "ghostnet_100": 5.18, "deit_small_patch16_224": 22.05,
}


def test_listing_names_every_model_without_torch():
  code = "import sys; sys.modules['torch'] = None; sys.argv = ['x', '--list']; " \
         "from bench.models.__main__ import main; main()"
  out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
  assert out.returncode == 0, out.stderr
  for model in (*MODELS, *HELD_OUT, *RECURRENT):
    assert model.name in out.stdout and model.checksum in out.stdout


def test_unknown_name_lists_the_known_ones():
  with pytest.raises(ValueError, match="no model 'resnet51'.*resnet50"):
    find("resnet51")


def test_names_of_lists_select_their_rows():
  assert select(["all"]) == MODELS and select(["held-out"]) == HELD_OUT
  assert select(["recurrent"]) == RECURRENT
  assert select(["vgg16", "all"]) == [find("vgg16"), *MODELS]
  names = [m.name for m in (*MODELS, *HELD_OUT, *RECURRENT)]
  assert len(names) == len(set(names)), "a name means one model"
  assert len(HELD_OUT) >= 20


@pytest.mark.parametrize("name", ["vgg16", "ghostnet_100"])
def test_a_missing_library_is_named_with_its_version(name, monkeypatch):
  pytest.importorskip("torch", reason="the definitions need torch")
  model = find(name)
  monkeypatch.setitem(sys.modules, model.module, None)
  with pytest.raises(ImportError, match=rf"{name} is .* pip install {model.module}==\d"):
    definition(model)


def library(model):
  """Skips the test without what defines the model."""
  torch = pytest.importorskip("torch", reason="the definitions need torch")
  if model in HELD_OUT:
    pytest.importorskip(model.module, reason=f"{model.module} is not installed")
  return torch


@pytest.mark.parametrize("name", [m.name for m in (*MODELS, *HELD_OUT, *RECURRENT)])
def test_parameter_count(name):
  model = find(name)
  torch = library(model)
  from bench.models import weights

  # Shapes only, no memory. RegNet's constructor reads its widths from tensors.
  with torch.device("cpu" if name.startswith("regnet") else "meta"):
    module = definition(model)
  count = weights.parameter_count(module)
  assert count == model.parameters
  if name in PUBLISHED_MILLIONS:
    assert round(count / 1e6, 2) == PUBLISHED_MILLIONS[name]


@pytest.mark.parametrize("name", ["mobilenet_v2", "resnet50", "googlenet", "ghostnet_100"])
def test_weights_and_outputs_are_sane(name):
  model = find(name)
  torch = library(model)
  from bench.models import inputs, weights

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
