"""Datasets behind URLs: the same bits as from files, whatever the line and the store do."""

import errno
import gc
import io
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

import data_pictures
import fsspec
import numpy as np
import pytest
from http_store import HttpStore
from s3_store import S3Store

import stretto
from stretto import data
from stretto.data import _remote, _store

COUNT, SHARDS = 48, 4


@pytest.fixture(scope="module")
def site(tmp_path_factory):
  """The same pictures as a folder, a list, tar shards and a pack."""
  root = tmp_path_factory.mktemp("site")
  files = data_pictures.write_folder(root / "folder", COUNT, seed=9)
  rows = [f"folder/{file.parent.name}/{file.name},{i % 5}" for i, file in enumerate(files)]
  (root / "list.csv").write_text("path,label\n" + "\n".join(rows) + "\n")
  (root / "tars").mkdir()
  for shard in range(SHARDS):
    with tarfile.open(root / f"tars/s-{shard:03}.tar", "w") as tar:
      for i, file in enumerate(files[shard::SHARDS]):
        add(tar, f"{i:03}.jpg", file.read_bytes())
        add(tar, f"{i:03}.cls", str(i % 7).encode())
  data.pack(root / "folder", root / "pack", shard_bytes=100_000, progress=False)
  return root


def add(tar, name, content):
  info = tarfile.TarInfo(name)
  info.size = len(content)
  tar.addfile(info, io.BytesIO(content))


SOURCES = ("folder", "list.csv", "tars", "tars/s-{000..003}.tar", "tars/s-001.tar", "pack")


@pytest.fixture
def store(site):
  with HttpStore(site) as server:
    yield server


@pytest.fixture
def s3(site):
  with S3Store(site) as server:
    yield server


@pytest.fixture
def own_store(site, tmp_path):
  """One whose files the test may change."""
  shutil.copytree(site, tmp_path / "site")
  with HttpStore(tmp_path / "site") as server:
    yield server


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
  """So that failures take no minutes, and shards come in several pieces."""
  monkeypatch.setattr(_store, "FIRST_PAUSE_S", 0.01)
  monkeypatch.setattr(_store, "TIMEOUT_S", 20.0)
  monkeypatch.setattr(_store, "PIECE_BYTES", 20_000)


def loader_of(source, **options):
  return data.ImageLoader(source, 6, 32, **{"threads": 2, "dtype": "uint8", "seed": 4,
                                            "rank": 0, "world": 1, **options})


def epoch_of(loader):
  return [(loader.samples.copy(), np.array(images), np.array(labels)) for images, labels in loader]


def assert_same(some, others):
  assert len(some) == len(others) > 0
  for a, b in zip(some, others):
    assert all(np.array_equal(x, y) for x, y in zip(a, b))


def memory_url(site):
  """What fsspec keeps in memory, with the same files."""
  memory = fsspec.filesystem("memory")
  if not memory.exists("/site"):
    memory.put(str(site), "/site", recursive=True)
  return "memory://site"


@pytest.mark.parametrize("where", ["http", "s3", "memory", "file"])
@pytest.mark.parametrize("source", SOURCES)
def test_same_names_labels_and_bits_as_from_files(site, store, s3, tmp_path, source, where):
  urls = {"http": store.url, "s3": s3.bucket_url, "memory": memory_url(site),
          "file": f"file://{site}"}
  options = s3.storage_options if where == "s3" else None
  url = f"{urls[where]}/{source}"
  with loader_of(url, cache_dir=tmp_path, storage_options=options) as remote, \
      loader_of(site / source) as local:
    a, b = remote.dataset, local.dataset
    assert (a.kind, a.classes, a.fingerprint) == (b.kind, b.classes, b.fingerprint)
    assert [a.name(i) for i in range(len(a))] == [b.name(i) for i in range(len(b))]
    assert np.array_equal(a.labels, b.labels)
    for _ in range(2):
      assert_same(epoch_of(remote), epoch_of(local))
    stats = remote.stats()["remote"]
    assert stats["fetched_bytes"] > 0 and stats["failures"] == stats["retries"] == 0
    assert local.stats()["remote"] is None


def test_every_file_is_fetched_once(site, store, tmp_path):
  for _ in range(2):
    with loader_of(f"{store.url}/tars/s-{{000..003}}.tar", cache_dir=tmp_path) as loader:
      for _ in range(3):
        epoch_of(loader)
  for shard in range(SHARDS):
    path = f"/tars/s-{shard:03}.tar"
    assert store.sent[path] == (site / path[1:]).stat().st_size


def test_a_run_goes_on_with_an_empty_cache(site, store, tmp_path):
  for sampler in ("shuffle", "blocks"):
    options = {"sampler": sampler, "transforms": ["rand_augment(2, 9)"]}
    with loader_of(f"{store.url}/tars", cache_dir=tmp_path / "a", **options) as loader:
      batches = iter(loader)
      for _ in range(3):
        next(batches)
      state = loader.state_dict()
      rest = [np.array(images) for images, _ in batches]
    with loader_of(f"{store.url}/tars", cache_dir=tmp_path / sampler, **options) as loader:
      loader.load_state_dict(state)
      again = [np.array(images) for images, _ in loader]
    with loader_of(site / "tars", **options) as loader:
      loader.load_state_dict(state)
      local = [np.array(images) for images, _ in loader]
    assert len(rest) == COUNT // 6 - 3
    assert all(np.array_equal(x, y) and np.array_equal(x, z)
               for x, y, z in zip(rest, again, local))


def test_a_broken_connection_is_resumed_where_it_broke(site, store, tmp_path):
  store.faults["s-001.tar"] = "drop", 3
  store.faults["s-002.tar"] = 503, 2
  with loader_of(f"{store.url}/tars", cache_dir=tmp_path) as remote, \
      loader_of(site / "tars") as local:
    assert_same(epoch_of(remote), epoch_of(local))
    stats = remote.stats()["remote"]
  assert stats["retries"] == 5 and stats["failures"] == 0
  size = (site / "tars/s-001.tar").stat().st_size
  ranges = store.gets("s-001.tar")
  assert len(ranges) == -(-size // 20_000) + 3  # each piece once, and the three that broke
  assert ranges.count("bytes=0-19999") <= 4


def test_a_broken_connection_to_s3_is_resumed(site, s3, tmp_path):
  s3.faults["s-001.tar"] = "drop", 3
  s3.faults["s-002.tar"] = 503, 2  # "slow down"
  with loader_of(f"{s3.bucket_url}/tars", cache_dir=tmp_path,
                 storage_options=s3.storage_options) as remote, \
      loader_of(site / "tars") as local:
    assert_same(epoch_of(remote), epoch_of(local))
    assert remote.stats()["remote"]["failures"] == 0
  assert all(left == 0 for _, left in s3.faults.values())
  size = (site / "tars/s-001.tar").stat().st_size
  assert len(s3.gets("s-001.tar")) == -(-size // 20_000) + 3


def test_what_s3_refuses_is_an_error_that_names_the_url(s3, tmp_path):
  with pytest.raises(PermissionError, match=f"{s3.bucket_url}/tars/s-000.tar"):
    data.open(f"{s3.bucket_url}/tars/s-000.tar", cache_dir=tmp_path,
              storage_options={**s3.storage_options, "key": "WRONGKEY"})
  with pytest.raises(FileNotFoundError, match=f"{s3.bucket_url}/nothing"):
    data.open(f"{s3.bucket_url}/nothing", cache_dir=tmp_path, storage_options=s3.storage_options)
  dataset = data.open(f"{s3.bucket_url}/folder", cache_dir=tmp_path,
                      storage_options=s3.storage_options)
  bad = dataset.name(3)
  s3.faults[bad] = 404, 1000
  with loader_of(dataset) as loader, pytest.raises(FileNotFoundError, match=bad):
    epoch_of(loader)


@pytest.mark.parametrize("etags", [True, False])
def test_a_server_without_ranges_serves_too(site, tmp_path, etags):
  with HttpStore(site, ranges=False, etags=etags) as store:
    store.faults["s-001.tar"] = "drop", 1
    with loader_of(f"{store.url}/tars", cache_dir=tmp_path) as remote, \
        loader_of(site / "tars") as local:
      assert_same(epoch_of(remote), epoch_of(local))


@pytest.mark.parametrize("fault, says", [
  (404, "there is no such file"), (403, "403"), (500, "tried 6 times"), ("drop", "tried 6 times"),
  ("short", "expected"), ("hang", "no answer for 1 s")])
def test_what_does_not_come_is_an_error_that_names_the_url(store, tmp_path, monkeypatch, fault,
                                                           says):
  dataset = data.open(f"{store.url}/folder", cache_dir=tmp_path)
  with loader_of(store.root / "folder") as local:
    bad = dataset.name(int(local.indices(1)[8]))
  if fault == "hang":
    monkeypatch.setattr(_store, "TIMEOUT_S", 1.0)
  store.faults[bad] = fault, 1000
  with loader_of(dataset) as loader:
    loader.set_epoch(1)
    start, batches = time.monotonic(), iter(loader)
    next(batches)
    with pytest.raises(stretto.FormatError, match=says) as raised:
      next(batches)
    assert f"{store.url}/folder/{bad}" in str(raised.value)
    assert str(raised.value).count(bad) == 1
    assert time.monotonic() - start < 30
    assert isinstance(raised.value, {404: FileNotFoundError, 403: PermissionError}.get(fault,
                                                                                       OSError))
    assert len(list(batches)) == COUNT // 6 - 2, "the loop can be continued"
    assert loader.stats()["remote"]["failures"] > 0
    store.faults.clear()  # and the store may recover
    loader.set_epoch(1)
    assert len(epoch_of(loader)) == COUNT // 6


def test_a_picture_that_is_gone_can_be_skipped_but_no_failure(own_store, tmp_path):
  dataset = data.open(f"{own_store.url}/folder", cache_dir=tmp_path)
  (own_store.root / "folder" / dataset.name(7)).unlink()
  with loader_of(dataset, errors="skip") as loader:
    assert len(epoch_of(loader)) == COUNT // 6
    assert loader.stats()["skipped_names"] == [dataset.name(7)]
  dataset = data.open(f"{own_store.url}/folder", cache_dir=tmp_path / "other")
  own_store.faults[dataset.name(9)] = 500, 1000
  with loader_of(dataset, errors="skip") as loader, pytest.raises(stretto.FormatError, match="500"):
    epoch_of(loader)


def test_a_listing_that_fails_leaves_nothing_out(store, tmp_path):
  store.faults["/class1/"] = 500, 1000
  with pytest.raises(stretto.FormatError, match="class1.*500"):
    data.open(f"{store.url}/folder", cache_dir=tmp_path)


@pytest.mark.parametrize("source, path", [("tars", "tars/s-002.tar"),
                                          ("pack", "pack/shard-00001.bin")])
def test_a_change_in_mid_epoch_is_an_error_that_names_the_file(own_store, tmp_path, source, path):
  dataset = data.open(f"{own_store.url}/{source}", cache_dir=tmp_path)
  with loader_of(dataset) as loader:
    epoch_of(loader)  # all shards are known now
    file = own_store.root / path
    file.write_bytes(bytes(file.stat().st_size))
    os.utime(file, ns=(1, 1))
    for cached in tmp_path.glob("*/*"):  # as if they had been evicted
      if cached.parent.name not in ("parts", "locks") and len(cached.name) == 32:
        cached.unlink()
    time.sleep(2.5)  # files that nobody reads are closed
    with pytest.raises(stretto.FormatError, match="changed in the store") as raised:
      epoch_of(loader)
    assert f"{own_store.url}/{path}" in str(raised.value)


def test_a_shard_of_a_pack_is_compared_with_its_checksums(own_store, tmp_path):
  file = own_store.root / "pack/shard-00001.bin"
  content = bytearray(file.read_bytes())
  content[len(content) // 2] ^= 1
  file.write_bytes(content)
  with loader_of(f"{own_store.url}/pack", cache_dir=tmp_path) as loader, \
      pytest.raises(stretto.FormatError, match="shard-00001.*checksum"):
    epoch_of(loader)


def cache_bytes(folder):
  """What its files take; those that vanish meanwhile take nothing."""
  total = 0
  for file in folder.rglob("*"):
    try:
      total += file.stat().st_size if file.is_file() else 0
    except FileNotFoundError:
      pass
  return total


def test_the_cache_keeps_its_bound(site, store, tmp_path):
  shards = sorted((site / "tars").iterdir())
  bound = 2 * max(file.stat().st_size for file in shards) + 10_000
  largest, done = 0, threading.Event()

  def watch():
    nonlocal largest
    while not done.is_set():
      # Not the files: while they are looked through, one goes and another comes.
      largest = max(largest, int.from_bytes((tmp_path / "usage").read_bytes(), "little"))

  watcher = threading.Thread(target=watch)
  with loader_of(f"{store.url}/tars", cache_dir=tmp_path, disk_bytes=bound,
                 sampler="blocks") as remote, loader_of(site / "tars", sampler="blocks") as local:
    watcher.start()
    for _ in range(3):
      assert_same(epoch_of(remote), epoch_of(local))
    done.set()
    watcher.join()
    stats = remote.stats()["remote"]
  assert stats["evicted"] > 0 and stats["limit_bytes"] == bound
  assert 0 < largest <= bound
  assert cache_bytes(tmp_path) <= bound + 10_000  # notes of what is in the shards
  with pytest.raises(stretto.FormatError, match=r"s-00.*the cache .* may take 1000.*disk_bytes"):
    loader_of(f"{store.url}/tars", cache_dir=tmp_path / "small", disk_bytes=1000)


def test_shards_are_fetched_in_the_order_of_their_use(site, store, tmp_path):
  url = f"{store.url}/tars"
  data.open(url, cache_dir=tmp_path)  # what is in them is noted
  for cached in tmp_path.glob("*/*"):
    if len(cached.name) == 32:
      cached.unlink()
  store.requests.clear()
  with loader_of(url, cache_dir=tmp_path, train=False, last="drop", threads=1) as loader:
    next(iter(loader))  # of the first shard; the others come by themselves
    deadline = time.monotonic() + 20
    while loader.stats()["remote"]["fetched"] < SHARDS and time.monotonic() < deadline:
      time.sleep(0.01)
    assert loader.stats()["remote"]["fetched"] == SHARDS
  first = list(dict.fromkeys(path for method, path, _ in store.requests
                             if method == "GET" and path.endswith(".tar")))
  assert first[0] == "/tars/s-000.tar" and len(first) == SHARDS


RANK = """
import sys, numpy as np
from stretto import data
from stretto.data import _store
_store.PIECE_BYTES = 20_000
rank, url, cache, out = int(sys.argv[1]), *sys.argv[2:5]
loader = data.ImageLoader(url, 6, 32, threads=2, dtype="uint8", seed=4, rank=rank, world=2,
                          cache_dir=cache)
images = [np.array(images) for _ in range(2) for images, _ in loader]
np.save(out, np.concatenate(images))
"""


def start(code, *arguments):
  return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_two_ranks_of_a_host_fetch_every_shard_once(site, store, tmp_path):
  store.delay_s = 0.01
  cache = tmp_path / "cache"
  ranks = [start(RANK, r, f"{store.url}/tars", cache, tmp_path / f"{r}.npy") for r in range(2)]
  for rank in ranks:
    _, text = rank.communicate(timeout=120)
    assert rank.returncode == 0, text
  for r in range(2):
    with loader_of(site / "tars", rank=r, world=2) as local:
      images = [images for _ in range(2) for _, images, _ in epoch_of(local)]
    assert np.array_equal(np.load(tmp_path / f"{r}.npy"), np.concatenate(images))
  sizes = {f"/tars/{file.name}": file.stat().st_size for file in (site / "tars").iterdir()}
  assert {path: count for path, count in store.sent.items() if path in sizes} == sizes


def test_a_killed_process_leaves_nothing_that_is_believed(site, store, tmp_path):
  store.delay_s = 0.1
  cache = tmp_path / "cache"
  victim = start(RANK, 0, f"{store.url}/tars", cache, tmp_path / "0.npy")
  deadline = time.monotonic() + 60
  while not list(cache.glob("parts/*")) and time.monotonic() < deadline:
    time.sleep(0.01)
  assert list(cache.glob("parts/*"))
  victim.send_signal(signal.SIGKILL)
  victim.communicate(timeout=60)
  assert list(cache.glob("parts/*")), "it was killed in the middle"
  store.delay_s = 0
  with loader_of(f"{store.url}/tars", cache_dir=cache) as remote, \
      loader_of(site / "tars") as local:
    assert_same(epoch_of(remote), epoch_of(local))
    assert not list(cache.glob("parts/*")) and not list(cache.glob("locks/*"))


def test_a_full_disk_is_named(store, tmp_path, monkeypatch):
  def full(*arguments):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

  dataset = data.open(f"{store.url}/folder", cache_dir=tmp_path)
  monkeypatch.setattr(_store, "write_all", full)
  with loader_of(dataset) as loader, \
      pytest.raises(stretto.FormatError, match="disk of the cache is full.*cache_dir") as raised:
    epoch_of(loader)
  assert raised.value.errno == errno.ENOSPC


def test_closing_does_not_wait_for_a_store_that_hangs(store, tmp_path):
  dataset = data.open(f"{store.url}/folder", cache_dir=tmp_path)
  store.faults[".jpg"] = "hang", 1000
  loader = loader_of(dataset)
  while loader.stats()["remote"]["waits"] == 0:
    time.sleep(0.01)
  start_s = time.monotonic()
  loader.close()
  assert time.monotonic() - start_s < 5
  del loader, dataset
  gc.collect()
  while any(thread.name.startswith("fetch ") for thread in threading.enumerate()):
    assert time.monotonic() - start_s < 20
    time.sleep(0.01)


def test_waiting_for_a_store_counts_as_reading(store, tmp_path):
  dataset = data.open(f"{store.url}/folder", cache_dir=tmp_path)
  store.delay_s = 0.1
  with loader_of(dataset) as loader:
    epoch_of(loader)
    stats = loader.stats()
  assert stats["verdict"] == "reading"
  assert stats["remote"]["waits"] > 0
  assert 0 < stats["remote"]["wait_seconds"] <= stats["read_seconds"]


def test_a_dataset_is_pickled_by_its_url(store, tmp_path):
  dataset = data.open(f"{store.url}/tars", cache_dir=tmp_path, disk_bytes=1 << 30)
  again = pickle.loads(pickle.dumps(dataset))
  assert again.fingerprint == dataset.fingerprint and again.kind == "tar"
  assert again._remote == dataset._remote


def test_a_store_is_packed_and_shown(site, store, tmp_path):
  data.pack(data.open(f"{store.url}/folder", cache_dir=tmp_path / "c"), tmp_path / "p",
            shard_bytes=100_000, progress=False)
  for name in ("index", "shard-00000.bin"):
    assert (tmp_path / "p" / name).read_bytes() == (site / "pack" / name).read_bytes()


@pytest.mark.parametrize("form", ["list.csv", "bare.csv", "list.jsonl"])
def test_a_local_list_may_name_urls(site, store, tmp_path, form):
  rows = [row.split(",") for row in (site / "list.csv").read_text().split()[1:]]
  if form == "list.jsonl":
    lines = [json.dumps({"path": f"{store.url}/{path}", "label": int(label)})
             for path, label in rows]
  else:
    lines = ["path,label"] * (form == "list.csv")
    lines += [f"{store.url}/{path},{label}" for path, label in rows]
  (tmp_path / form).write_text("\n".join(lines))
  options = {"cache_dir": tmp_path / "c"}
  with loader_of(tmp_path / form, **options) as remote, loader_of(site / "list.csv") as local:
    assert remote.dataset.kind == "list" and remote.dataset.source == str(tmp_path / form)
    assert np.array_equal(remote.dataset.labels, local.dataset.labels)
    assert_same(epoch_of(remote), epoch_of(local))
    assert remote.stats()["remote"]["fetched"] == COUNT
  again = pickle.loads(pickle.dumps(data.open(tmp_path / form, **options)))
  assert len(again) == COUNT and again.name(0) == f"{store.url}/{rows[0][0]}"


def test_a_list_of_urls_and_files_is_refused(site, store, tmp_path):
  list_of = tmp_path / "list.csv"
  list_of.write_text(f"path\n{store.url}/folder/a.jpg\nb.jpg\n")
  with pytest.raises(stretto.FormatError, match="b.jpg: expected a URL, .* into two lists"):
    data.open(list_of, cache_dir=tmp_path / "c")
  # Other columns may have URLs.
  list_of.write_text(f"path,label,from\n{site}/folder/a.jpg,3,http://somewhere\n")
  assert data.open(list_of).name(0) == f"{site}/folder/a.jpg"


def test_what_cannot_be_opened_is_said(own_store, tmp_path, monkeypatch):
  open_one = lambda name, **options: data.open(f"{own_store.url}/{name}", cache_dir=tmp_path,
                                               **options)
  with pytest.raises(FileNotFoundError, match="nothing"):
    open_one("nothing")
  with pytest.raises(FileNotFoundError, match="s-004.tar"):
    open_one("tars/s-{003..004}.tar")
  with pytest.raises(FileNotFoundError, match="instances_val.json"):
    open_one("instances_val.json")
  with pytest.raises(stretto.InvalidArgumentError, match="expected one of coco, folder"):
    open_one("folder", kind="zip")
  with pytest.raises(stretto.InvalidArgumentError, match="disk_bytes"):
    open_one("folder", disk_bytes=0)
  with pytest.raises(stretto.UnsupportedError, match="nosuchstore"):
    data.open("nosuchstore://bucket/x.tar", cache_dir=tmp_path)
  (own_store.root / "pack/journal").write_bytes(b"STRPJNL\n")
  with pytest.raises(stretto.FormatError, match="not complete"):
    open_one("pack")
  monkeypatch.setitem(sys.modules, "fsspec", None)
  with pytest.raises(stretto.UnsupportedError, match=r"pip install 'stretto\[remote\]'"):
    open_one("folder")


def test_states_of_files():
  state = _store.state_of
  assert state({"size": 3, "ETag": "a"}).version == state({"ETag": "a", "mtime": 4}).version != 0
  assert state({"ETag": "a"}).version != state({"ETag": "b"}).version
  assert state({"size": None}) == (None, 0, None)
  assert state({"md5Hash": "1B2M2Y8AsgTpgAmY7PhCfg=="}).md5.hex() == (
    "d41d8cd98f00b204e9800998ecf8427e")
  assert _remote.is_tfrecord("s3://b/train-00001-of-01024")
  assert not _remote.is_tfrecord("s3://b/train-00001-of-01024.txt")
  assert _remote.is_tar("https://h/a.tar?signature=b")
  assert _remote.is_url("s3://b/x") and not _remote.is_url("/a/b://c")
  assert not _remote.is_url(Path("a"))
