"""stretto.data.ImageLoader: order, ranks, epochs and going on where a run ended."""

import json
import os
import pickle
import subprocess
import sys

import data_pictures
import numpy as np
import pytest

import stretto
from stretto import data
from stretto.data import _job

COUNT = 61


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  path = tmp_path_factory.mktemp("pictures")
  data_pictures.write_folder(path, COUNT)
  return path


def loader_of(folder, batch=8, size=32, **options):
  options.setdefault("threads", 2)
  options.setdefault("dtype", "uint8")
  return data.ImageLoader(folder, batch, size, **options)


def epoch_of(loader):
  """Samples and copies of the images of the rest of an epoch."""
  samples, images = [], []
  for batch in loader:
    samples.append(loader.samples.copy())
    images.append(np.array(batch[0]))
  return samples, images


def test_shapes_types_and_labels(folder):
  with data.ImageLoader(folder, 8, (24, 40), threads=1) as loader:
    labels_of_all = loader.dataset.labels
    assert len(loader) == COUNT // 8 and len(loader.dataset) == COUNT
    assert loader.dataset.classes == ["class0", "class1", "class2"]
    for images, labels in loader:
      assert images.shape == (8, 3, 24, 40) and images.dtype == np.float32
      assert labels.dtype == np.int64
      assert labels.tolist() == labels_of_all[loader.samples].tolist()
  with loader_of(folder, layout="NHWC") as loader:
    assert next(iter(loader))[0].shape == (8, 32, 32, 3)


def test_the_order_is_the_one_that_was_told(folder):
  with loader_of(folder, seed=5) as loader:
    for epoch in range(3):
      told = loader.indices(epoch)
      samples, _ = epoch_of(loader)
      assert np.concatenate(samples).tolist() == told.tolist()
      assert len(set(told.tolist())) == COUNT // 8 * 8
    assert loader.indices(0).tolist() != loader.indices(1).tolist()
    assert loader.epoch == 3
  with loader_of(folder, seed=6) as other:
    assert other.indices(0).tolist() != loader_of(folder, seed=5).indices(0).tolist()


def test_threads_change_nothing(folder):
  with loader_of(folder, threads=1, seed=2) as one, loader_of(folder, threads=5, seed=2) as five:
    for _ in range(2):
      a, b = epoch_of(one), epoch_of(five)
      assert all(np.array_equal(x, y) for x, y in zip(a[0] + a[1], b[0] + b[1]))


@pytest.mark.parametrize("last", ["drop", "pad", "wrap"])
def test_ranks_share_an_epoch(folder, last):
  whole = loader_of(folder, 16, last=last, seed=4)
  ranks = [loader_of(folder, 4, rank=r, world=4, last=last, seed=4) for r in range(4)]
  assert {len(loader) for loader in ranks} == {len(whole)}
  one, four = epoch_of(whole), [epoch_of(loader) for loader in ranks]
  for i in range(len(whole)):
    assert np.concatenate([rank[0][i] for rank in four]).tolist() == one[0][i].tolist()
    together = np.concatenate([rank[1][i] for rank in four])
    real = one[0][i] >= 0
    assert np.array_equal(together[real], one[1][i][real])
  if last != "drop":
    assert set(np.concatenate(one[0]).tolist()) - {-1} == set(range(COUNT))


def test_padding_is_told(folder):
  with loader_of(folder, train=False) as loader:
    samples, reals = [], []
    for _images, labels, real in loader:
      assert real.dtype == np.bool_ and real.tolist() == (loader.samples >= 0).tolist()
      assert np.all(labels[~real] == -1)
      samples.append(loader.samples)
      reals.append(real.sum())
  assert sum(reals) == COUNT and len(reals) == -(-COUNT // 8)
  assert np.concatenate(samples)[:COUNT].tolist() == list(range(COUNT))


@pytest.mark.parametrize("taken", [0, 1, 6, 7])
def test_a_loader_goes_on_where_another_was(folder, taken):
  with loader_of(folder, seed=9) as whole, loader_of(folder, seed=9) as first:
    epoch_of(whole)
    first.set_epoch(1)
    batches = iter(first)
    for _ in range(taken):
      next(batches)
    state = json.loads(json.dumps(first.state_dict()))
    with loader_of(folder, seed=9, threads=3) as second:
      second.load_state_dict(state)
      rest = epoch_of(second)
      following = epoch_of(second)
    expected = epoch_of(whole)
    assert len(rest[0]) == 7 - taken
    for got, want in ((rest, [part[taken:] for part in expected]), (following, epoch_of(whole))):
      assert all(np.array_equal(x, y) for x, y in zip(got[0] + got[1], want[0] + want[1]))
      assert len(got[0]) == len(want[0])


RESUME = """
import json, sys
import numpy as np
import stretto.data
state = json.load(open(sys.argv[2]))
loader = stretto.data.ImageLoader(sys.argv[1], 4, 32, dtype="uint8", seed=9, threads=3)
loader.load_state_dict(state)
images, labels = next(iter(loader))
np.savez(sys.argv[3], images=images, labels=labels, samples=loader.samples)
"""


def test_another_process_with_other_ranks_and_threads_gives_the_same_next_batch(folder, tmp_path):
  with loader_of(folder, 16, seed=9) as whole:
    batches = iter(whole)
    next(batches)
    (tmp_path / "state.json").write_text(json.dumps(whole.state_dict()))
    images, labels = (np.array(array) for array in next(batches))
    samples = whole.samples
  parts = []
  for rank in range(4):
    out = tmp_path / f"{rank}.npz"
    environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "4"}
    subprocess.run([sys.executable, "-c", RESUME, str(folder), str(tmp_path / "state.json"),
                    str(out)], check=True, env=environment, timeout=120)
    with np.load(out) as archive:
      parts.append(dict(archive))
  for name, want in (("images", images), ("labels", labels), ("samples", samples)):
    assert np.array_equal(np.concatenate([part[name] for part in parts]), want), name


def test_a_loop_that_was_left_goes_on_with_the_next_epoch(folder):
  with loader_of(folder, seed=1) as loader:
    for _ in loader:
      break
    assert loader.epoch == 0
    first_of_1 = next(iter(loader)) and loader.samples
    assert first_of_1.tolist() == loader.indices(1)[:8].tolist()
    stale = iter(loader)
    fresh = iter(loader)
    assert list(stale) == []
    next(fresh)
    assert loader.epoch == 3
    loader.set_epoch(0)
    assert list(fresh) == []
    next(iter(loader))
    assert loader.samples.tolist() == loader.indices(0)[:8].tolist()


def test_states_of_others_are_refused(folder, tmp_path):
  data_pictures.write_folder(tmp_path, 20)
  with loader_of(folder, seed=1) as loader, loader_of(tmp_path, seed=1) as other:
    state = loader.state_dict()
    assert all(isinstance(value, int) for value in state.values())
    with pytest.raises(stretto.InvalidArgumentError, match="another dataset"):
      other.load_state_dict(state)
    with pytest.raises(stretto.InvalidArgumentError, match="seed"):
      loader.load_state_dict({**state, "seed": 2})
    with pytest.raises(stretto.InvalidArgumentError, match="place"):
      loader.load_state_dict({key: value for key, value in state.items() if key != "place"})
    with pytest.raises(stretto.InvalidArgumentError, match="place"):
      loader.load_state_dict({**state, "place": 10**9})
    with pytest.raises(stretto.InvalidArgumentError, match="newer"):
      loader.load_state_dict({**state, "version": 2})
    for sampler in ("blocks", "balanced"):
      with (loader_of(folder, seed=1, sampler=sampler) as ordered,
            pytest.raises(stretto.InvalidArgumentError, match="another order")):
        ordered.load_state_dict(state)
    loader.load_state_dict(state)
    assert len(epoch_of(loader)[0]) == len(loader)


def test_samplers(folder):
  counts = np.bincount(data.open(folder).labels)
  weights = np.zeros(COUNT)
  weights[[3, 7]] = 1, 3
  with loader_of(folder, sampler=weights) as loader:
    drawn = np.bincount(np.concatenate([loader.indices(e) for e in range(40)]), minlength=COUNT)
    assert set(np.flatnonzero(drawn)) == {3, 7}
    # 2,240 draws with a chance of 3/4: five standard deviations are 0.046.
    assert abs(drawn[7] / drawn.sum() - 0.75) < 0.05
    assert set(np.concatenate(epoch_of(loader)[0]).tolist()) <= {3, 7}
  with loader_of(folder, sampler="balanced") as loader:
    labels = loader.dataset.labels
    drawn = np.bincount(labels[np.concatenate([loader.indices(e) for e in range(40)])])
    assert counts.min() < counts.max() and np.all(abs(drawn / drawn.sum() - 1 / 3) < 0.05)
  with loader_of(folder, sampler="sequential") as loader:
    assert loader.indices(3).tolist() == list(range(COUNT // 8 * 8))
  with loader_of(folder, sampler="blocks", last="pad") as loader:
    assert sorted(i for i in loader.indices(0).tolist() if i >= 0) == list(range(COUNT))
  with pytest.raises(stretto.InvalidArgumentError, match="weight for each of 61"):
    loader_of(folder, sampler=np.ones(3))


def test_rank_and_world_come_from_the_job(folder, monkeypatch):
  monkeypatch.setenv("RANK", "1")
  monkeypatch.setenv("WORLD_SIZE", "3")
  with loader_of(folder) as loader:
    assert (loader.rank, loader.world) == (1, 3)
  with loader_of(folder, rank=0, world=1) as loader:
    assert (loader.rank, loader.world) == (0, 1)
  with pytest.raises(stretto.InvalidArgumentError, match="together"):
    loader_of(folder, rank=0)
  with pytest.raises(stretto.InvalidArgumentError, match="rank"):
    loader_of(folder, rank=3, world=3)


@pytest.mark.parametrize("variables, place, here", [
  ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, (0, 1), 1),  # a batch script, which runs once
  ({"SLURM_PROCID": "9", "SLURM_NTASKS": "20", "SLURM_STEP_NUM_TASKS": "20", "SLURM_NODEID": "2",
    "SLURM_STEP_TASKS_PER_NODE": "8(x2),4"}, (9, 20), 4),
  ({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
   (3, 8), 2),
  ({"RANK": "1", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8"}, (1, 8), 8),
  # Started by mpirun's daemon, which srun started.
  ({"OMPI_COMM_WORLD_RANK": "9", "OMPI_COMM_WORLD_SIZE": "16", "OMPI_COMM_WORLD_LOCAL_SIZE": "8",
    "SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_STEP_NUM_TASKS": "1"}, (9, 16), 8),
])
def test_launchers_say_who_shares_the_machine(variables, place, here):
  assert _job.place_of(None, None, variables) == place
  assert _job.local_ranks(variables) == here
  memory = stretto._stretto.memory_bytes()
  assert _job.default_cache_bytes(variables) == memory // 4 // here


def test_bound_ranks_use_the_cores_that_they_are_bound_to(monkeypatch):
  by_mpirun = {"OMPI_COMM_WORLD_LOCAL_SIZE": "8"}
  monkeypatch.setattr(os, "cpu_count", lambda: 1024)
  assert _job.default_threads(by_mpirun) == 0  # the engine's default, which knows them
  assert _job.default_threads({"LOCAL_WORLD_SIZE": "1024"}) == 1
  monkeypatch.setattr(os, "cpu_count", lambda: 1)
  assert _job.default_threads(by_mpirun) >= 1


def test_set_epoch_behind_a_loaded_state_keeps_its_place(folder):
  with loader_of(folder) as loader:
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    expected = next(batches)
    loader.load_state_dict(state)
    loader.set_epoch(0)
    iter(loader)
    loader.set_epoch(0)
    assert np.array_equal(next(iter(loader))[0], expected[0])
    loader.set_epoch(0)  # not behind a state: from the beginning
    assert not np.array_equal(next(iter(loader))[0], expected[0])


def test_caches_change_nothing_but_the_time(folder):
  with loader_of(folder, seed=2) as loader:
    expected = [epoch_of(loader) for _ in range(3)]
  for cache in ("user", "decoded"):
    with loader_of(folder, seed=2, cache=cache, cache_bytes=64 << 20) as loader:
      for want in expected:
        got = epoch_of(loader)
        assert all(np.array_equal(x, y) for x, y in zip(got[0] + got[1], want[0] + want[1]))
      stats = loader.stats()
      assert stats["cache_hits"] > 0 and stats["cache_bytes"] > 0
      assert stats["cached_samples"] <= COUNT


def test_operators_change_pictures_on_the_threads(folder):
  with (loader_of(folder) as plain, loader_of(folder, transforms="invert(1)") as inverted,
        loader_of(folder, transforms=["rand_augment(2, 9)", "erase(0.5)"], threads=1) as one,
        loader_of(folder, transforms=["rand_augment(count=2), erase"], threads=3) as other):
    for (a, _), (b, _) in zip(plain, inverted, strict=True):
      assert np.array_equal(b, 255 - a)
    for _ in range(2):
      for (a, _), (b, _) in zip(one, other, strict=True):
        assert np.array_equal(a, b)
  names = data.operators()
  assert names["posterize"] == ("keeps the upper bits of each value: "
                                "posterize(bits=4, chance=0.5)")
  assert len(names) > 20


def test_operators_have_functions_that_write_their_text(folder):
  media = stretto.media
  assert media.rand_augment(2, 9) == "rand_augment(2, 9)" and media.invert() == "invert"
  assert media.rotate(np.float32(1.5), bilinear=True) == "rotate(1.5, bilinear=1)"
  assert set(data.operators()) <= set(dir(media))
  written = [media.rand_augment(2, magnitude=9), media.erase(0.25)]
  with loader_of(folder, transforms=written) as a, \
      loader_of(folder, transforms="rand_augment(2, 9), erase(0.25)") as b:
    assert all(np.array_equal(x[0], y[0]) for x, y in zip(a, b, strict=True))
  with pytest.raises(AttributeError, match="sharpen"):
    media.sharpen  # noqa: B018
  with pytest.raises(stretto.InvalidArgumentError, match="rotate: degrees: expected numbers"):
    media.rotate(degrees="many")


def test_operators_and_functions_may_be_mixed(folder):
  with (loader_of(folder, transforms=["invert(1)", lambda x, y: (255 - x, y)]) as twice,
        loader_of(folder) as plain):
    for (a, _), (b, _) in zip(twice, plain, strict=True):
      assert np.array_equal(a, b)


@pytest.mark.parametrize("transforms, text", [
  ("posterise(3)", "no 'posterise'; there are .*posterize"),
  ("rotate(400)", "degrees of rotate: expected a number from 0 to 360"),
  ([lambda x, y: (x, y), "invert"], "behind a function"),
  ([3], "element"), (3, "expected an operator such as"), ({"erase": 1}, "expected an operator"),
])
def test_transforms_that_make_no_sense_are_named(folder, transforms, text):
  with pytest.raises(stretto.InvalidArgumentError, match=text):
    loader_of(folder, transforms=transforms)


def test_transforms_are_called_and_counted(folder):
  def inverted(images, labels):
    return 255 - images, labels + 1

  with loader_of(folder, seed=2) as plain, loader_of(folder, seed=2,
                                                      transforms=[inverted]) as changed:
    for (images, labels), (others, raised) in zip(plain, changed):
      assert np.array_equal(255 - images, others) and np.array_equal(labels + 1, raised)
    assert changed.stats()["python_seconds"] > 0 and plain.stats()["python_seconds"] == 0
  with pytest.raises(stretto.InvalidArgumentError, match="no 'flip'"):
    loader_of(folder, transforms=["flip"])


def test_stats_count(folder):
  with loader_of(folder) as loader:
    list(loader)
    stats = loader.stats()
  assert stats["batches"] == 7 and stats["samples"] >= 56 and stats["threads"] == 2
  assert stats["read_bytes"] > 0 and stats["decode_seconds"] > 0 and stats["skipped"] == 0


def test_options_that_make_no_sense_are_named(folder):
  for options, text in (({"size": 0}, "size"), ({"batch": 0}, "batch"), ({"crop": (0.5,)}, "crop"),
                        ({"crop": (0.9, 0.1)}, "crop"), ({"dtype": "int8"}, "dtype"),
                        ({"layout": "CHW"}, "layout"), ({"mean": 1}, "mean"),
                        ({"std": (0, 1, 1)}, "std"), ({"seed": -1}, "seed"),
                        ({"seed": 2**64}, "seed"),
                        ({"threads": 0}, "threads"), ({"last": "keep"}, "last"),
                        ({"cache": "disk"}, "cache"), ({"cache_bytes": -1}, "cache_bytes"),
                        ({"framework": "mxnet"}, "framework"), ({"errors": "ignore"}, "errors"),
                        ({"sampler": "random"}, "sampler"),
                        ({"sampler": None}, "a name or an array"),
                        ({"flip": 2}, "flip"),
                        ({"phases": {"epoch": 0}}, "phases"), ({"train": "no"}, "train: expected"),
                        ({"dtype": np.float32}, "dtype: expected a name"),
                        ({"layout": None}, "layout: expected"), ({"cache": None}, "cache: exp"),
                        ({"errors": True}, "errors: expected"), ({"last": True}, "last: expected"),
                        ({"cache_bytes": 0}, "cache_bytes: expected a number of bytes above 0"),
                        ({"disk_bytes": -5}, "disk_bytes"), ({"cache_dir": 5}, "cache_dir"),
                        ({"storage_options": 5}, "storage_options: expected a dictionary"),
                        ({"phases": [{"epoch": 0, "lr": (0.1, float("nan")), "epochs": 1}]},
                         "lr: expected a number"),
                        ({"transforms": "erase(0.25, chance=0.5)"}, "chance of erase is given")):
    with pytest.raises(stretto.InvalidArgumentError, match=text):
      loader_of(folder, **options)
  with pytest.raises(stretto.FormatError, match="nowhere"):
    loader_of(folder / "nowhere")
  for no_path in (3, "", "a\0b", b"a"):
    with pytest.raises(stretto.InvalidArgumentError, match="path"):
      loader_of(no_path)


def test_the_home_folder_may_be_written_short(folder, monkeypatch):
  monkeypatch.setenv("HOME", str(folder.parent))
  with loader_of(f"~/{folder.name}") as loader:
    assert loader.dataset.source == str(folder)


def test_a_loader_is_of_its_process(folder):
  with loader_of(folder) as loader, pytest.raises(stretto.UnsupportedError, match="has threads"):
    pickle.dumps(loader)


@pytest.mark.parametrize("name", ["batch", "size", "flip", "seed", "threads", "cache_bytes",
                                  "disk_bytes", "min_visible", "classes", "epoch_size"])
def test_true_is_not_a_number(folder, name):
  with pytest.raises(stretto.InvalidArgumentError, match=f"{name}: expected .*, got True"):
    loader_of(folder, **{name: True})
