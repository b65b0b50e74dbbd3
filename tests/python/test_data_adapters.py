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
