"""Phases of stretto.data: sizes, batches and crops from an epoch on, learning rate and momentum."""

import data_pictures
import numpy as np
import pytest

import stretto
from stretto import data

COUNT = 40
PHASES = [{"epoch": 0, "size": 16, "batch": 10, "lr": (1.0, 3.0), "momentum": 0.9},
          {"epoch": 2, "size": (32, 24), "batch": 4, "crop": (0.5, 1), "lr": (3.0, 0.0),
           "momentum": (0.9, 0.8)},
          {"epoch": 3, "batch": 20, "lr": (0.1, 0.0), "epochs": 2}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  path = tmp_path_factory.mktemp("pictures")
  data_pictures.write_folder(path, COUNT, seed=1)
  return path


def test_shapes_change_between_epochs(folder):
  with data.ImageLoader(folder, phases=PHASES, dtype="uint8", threads=3) as loader:
    for epoch, (count, shape) in enumerate([(4, (10, 3, 16, 16)), (4, (10, 3, 16, 16)),
                                            (10, (4, 3, 32, 24)), (2, (20, 3, 32, 24)),
                                            (2, (20, 3, 32, 24))]):
      assert len(loader) == count and loader.epoch == epoch
      shapes = [images.shape for images, _ in loader]
      assert shapes == [shape] * count
      assert len(loader.indices(epoch)) == COUNT


def test_a_phase_gives_what_a_loader_of_its_own_would(folder):
  with data.ImageLoader(folder, phases=PHASES, dtype="uint8", seed=3) as loader:
    loader.set_epoch(2)
    images, _ = next(iter(loader))
    samples = loader.samples
  with data.ImageLoader(folder, 4, (32, 24), crop=(0.5, 1), dtype="uint8", seed=3) as alone:
    alone.set_epoch(2)
    assert np.array_equal(next(iter(alone))[0], images)
    assert alone.samples.tolist() == samples.tolist()


def test_a_state_is_good_in_any_phase(folder):
  with data.ImageLoader(folder, phases=PHASES, dtype="uint8") as one, \
       data.ImageLoader(folder, phases=PHASES, dtype="uint8", threads=1) as other:
    one.set_epoch(2)
    batches = iter(one)
    next(batches)
    other.load_state_dict(one.state_dict())
    for (a, _), (b, _) in zip(batches, other, strict=True):
      assert np.array_equal(a, b)


def test_learning_rate_and_momentum_are_straight_lines(folder):
  with data.ImageLoader(folder, phases=PHASES, dtype="uint8") as loader:
    assert loader.schedule() == {"lr": 1.0, "momentum": 0.9}
    steps = [loader.schedule(step) for step in range(22)]
    seen = []
    for _ in range(5):
      for _batch in loader:
        seen.append(loader.schedule())
    assert seen == steps
    lrs = [step["lr"] for step in steps]
    assert np.allclose(lrs[:8], np.linspace(1, 3, 9)[:8])
    assert np.allclose(lrs[8:18], np.linspace(3, 0, 11)[:10])
    assert np.allclose(lrs[18:], np.linspace(0.1, 0, 5)[:4])
    assert np.allclose([step["momentum"] for step in steps[8:18]], np.linspace(0.9, 0.8, 11)[:10])
    assert all("momentum" not in step for step in steps[18:])
    assert loader.schedule(10**4) == {"lr": 0.0}


def test_optimizers_follow(folder):
  torch = pytest.importorskip("torch")
  weights = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
  sgd = torch.optim.SGD([{"params": weights[:1]}, {"params": weights[1:], "lr_scale": 0.5}], lr=9)
  adam = torch.optim.Adam(weights[:1], lr=9)
  with data.ImageLoader(folder, phases=PHASES, dtype="uint8") as loader:
    batches = iter(loader)
    next(batches), next(batches)
    assert data.follow(loader, sgd) == data.follow(loader, adam) == {"lr": 1.25, "momentum": 0.9}
  assert [group["lr"] for group in sgd.param_groups] == [1.25, 0.625]
  assert sgd.param_groups[0]["momentum"] == 0.9 and adam.param_groups[0]["betas"] == (0.9, 0.999)


@pytest.mark.parametrize("phases,text", [
  ([{"epoch": 0, "colour": 1}], "unknown key 'colour'"),
  ([{"epoch": 2}, {"epoch": 2}], "does not come after"),
  ([{}, {"size": 3}], "epoch"),
  ([{"lr": (1, 2)}], "'epochs'"),
  ([{"lr": "fast"}], "lr"),
  ([{"epochs": 3}, {"epoch": 2}], "next begins at 2"),
  ([3], "dictionary")])
def test_phases_that_make_no_sense_are_named(folder, phases, text):
  with pytest.raises(stretto.InvalidArgumentError, match=text):
    data.ImageLoader(folder, phases=phases)


def test_the_first_phase_may_begin_later(folder):
  with data.ImageLoader(folder, 10, 16, phases=[{"epoch": 1, "size": 8}], dtype="uint8") as loader:
    assert [next(iter(loader))[0].shape[-1] for _ in range(3)] == [16, 8, 8]
