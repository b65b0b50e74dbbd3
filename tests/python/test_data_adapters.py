"""Other libraries take batches of stretto.data in their own shapes."""

import data_pictures
import numpy as np
import pytest

import stretto
from stretto import data


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  path = tmp_path_factory.mktemp("pictures")
  data_pictures.write_folder(path, 30, seed=4)
  return path


def loader_of(folder, **options):
  return data.ImageLoader(folder, 8, 32, **{"threads": 2, "dtype": "uint8", **options})


def test_a_torch_data_loader_passes_batches_on(folder):
  torch = pytest.importorskip("torch")
  with loader_of(folder, framework="torch") as loader, loader_of(folder) as plain:
    dataset = data.torch_dataset(loader)
    batches = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=0)
    assert len(dataset) == len(batches) == 3
    for _ in range(2):
      for (a, labels), (b, _) in zip(batches, plain, strict=True):
        assert np.array_equal(a.numpy(), b) and labels.dtype == torch.int64
    assert dataset.state_dict() == loader.state_dict()
    # Accelerate calls it with a number that it counts from 0.
    assert not hasattr(dataset, "set_epoch")


@pytest.mark.parametrize("size", [{}, {"batch_size": 4}], ids=["default", "4"])
def test_batches_of_batches_are_refused(folder, size):
  torch = pytest.importorskip("torch")
  for options in ({"framework": "torch"}, {}):
    with loader_of(folder, **options) as loader:
      batches = torch.utils.data.DataLoader(data.torch_dataset(loader), **size)
      with pytest.raises(stretto.UnsupportedError, match="pass batch_size=None"):
        next(iter(batches))


def test_lightning_trains_on_every_batch(folder):
  lightning = pytest.importorskip("lightning", reason="lightning is not installed")
  import torch

  class Model(lightning.LightningModule):
    def __init__(self):
      super().__init__()
      self.layer = torch.nn.Linear(3, 4)
      self.seen = []

    def training_step(self, batch, _index):
      images, labels = batch
      self.seen.append(labels.clone())
      outputs = self.layer(images.mean((2, 3)))
      return torch.nn.functional.cross_entropy(outputs, labels % 4)

    def configure_optimizers(self):
      return torch.optim.SGD(self.parameters(), 0.1)

  with loader_of(folder, framework="torch", dtype="float32") as loader, \
      loader_of(folder, framework="torch") as plain:
    batches = torch.utils.data.DataLoader(data.torch_dataset(loader), batch_size=None)
    model = Model()
    trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", devices=1, logger=False,
                                enable_checkpointing=False, enable_progress_bar=False,
                                enable_model_summary=False)
    trainer.fit(model, batches)
    want = [labels for _ in range(2) for _, labels in plain]
    assert len(model.seen) == len(want) == 6
    assert all(torch.equal(a, b) for a, b in zip(model.seen, want))
    # Lightning stops behind the last batch without asking for another one.
    assert torch.equal(next(iter(loader))[1], next(iter(plain))[1]) and loader.epoch == 2


def test_transforms_of_torchvision_run_behind_the_loader(folder):
  pytest.importorskip("torchvision", reason="torchvision is not installed")
  import torch
  from torchvision.transforms import v2

  change = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.25] * 3)])
  options = {"framework": "torch", "train": False}
  with loader_of(folder, **options, transforms=lambda images, *rest: (change(images), *rest)) as \
      loader, loader_of(folder, **options) as plain:
    for (a, *others), (b, *wanted) in zip(loader, plain, strict=True):
      assert torch.allclose(a, (b.float() / 255 - 0.5) / 0.25, atol=1e-5)
      assert all(torch.equal(x, y) for x, y in zip(others, wanted, strict=True))
    assert loader.stats()["python_seconds"] > 0 == plain.stats()["python_seconds"]


def test_worker_processes_are_refused(folder):
  torch = pytest.importorskip("torch")
  with loader_of(folder, framework="torch") as loader:
    batches = torch.utils.data.DataLoader(data.torch_dataset(loader), batch_size=None,
                                          num_workers=1)
    with pytest.raises(stretto.Error, match="num_workers=0"):
      list(batches)


def test_dictionaries_as_dali_gives_them(folder):
  with loader_of(folder) as loader, loader_of(folder) as plain:
    batches = data.DictIterator(loader)
    assert len(batches) == 3
    for _ in range(2):
      for (row,), (images, labels) in zip(batches, plain, strict=True):
        assert np.array_equal(row["data"], images) and np.array_equal(row["label"], labels)
      batches.reset()
    assert loader.epoch == 2
    batches.reset()  # no batch was taken
    next(batches)
    assert loader.epoch == 2
    batches.reset()
    assert next(batches) and loader.epoch == 3


def test_bfloat16_for_numpy_needs_ml_dtypes(folder, monkeypatch):
  import sys

  monkeypatch.setitem(sys.modules, "ml_dtypes", None)
  with pytest.raises(stretto.UnsupportedError, match="ml_dtypes"):
    loader_of(folder, dtype="bfloat16")


def test_bfloat16_arrays_of_ml_dtypes(folder):
  import ml_dtypes

  with loader_of(folder, dtype="bfloat16") as narrow, loader_of(folder, dtype="float32") as exact:
    images, want = next(iter(narrow))[0], next(iter(exact))[0]
  assert images.dtype == ml_dtypes.bfloat16 and np.array_equal(images, want.astype(images.dtype))
