"""stretto.data.ImageLoader(share="host"): ranks of a host and the process that decodes for them."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import data_pictures
import numpy as np
import pytest

import stretto
from stretto import data
from stretto.data import _host

COUNT = 61
WAIT_S = 120

# A rank: takes what it is told to from standard input, a line each, and says what came of it.
RANK = """
import hashlib, json, os, sys
from stretto import data
options = json.loads(sys.argv[2])
try:
  shape = options.pop("batch", 8), options.pop("size", 32)
  loader = data.ImageLoader(sys.argv[1], *shape, **options)
except Exception as error:
  print(json.dumps([type(error).__name__, str(error)]), flush=True)
  sys.exit(3)
print(json.dumps("made"), flush=True)
batches, kept = None, []
for line in sys.stdin:
  what, *more = json.loads(line)
  try:
    if what == "epochs":
      said = []
      for _ in range(more[0]):
        for batch in loader:
          parts = batch[0], batch[1], loader.samples
          said.append(hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest())
    elif what == "keep":
      for _ in range(more[0]):
        kept += [batch[0] for batch in loader]
      said = len(kept)
    elif what == "next":
      batches = batches or iter(loader)
      said = hashlib.sha256(next(batches)[0].tobytes()).hexdigest()
    elif what == "endless":
      print(json.dumps("running"), flush=True)
      while True:
        for batch in loader:
          pass
    elif what == "stats":
      said = loader.stats()
    elif what == "state":
      said = loader.state_dict()
    elif what == "load":
      said = loader.load_state_dict(more[0])
    elif what == "memory":
      said = [len(os.listdir("/proc/self/fd")),
              int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")]
    elif what == "fork":
      said = os.fork()
      if said == 0:
        import time
        time.sleep(600)
    elif what == "close":
      said = loader.close()
  except Exception as error:
    said = [type(error).__name__, str(error)]
  print(json.dumps(said), flush=True)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  path = tmp_path_factory.mktemp("pictures")
  data_pictures.write_folder(path, COUNT)
  return path


class Rank:
  def __init__(self, folder, job, rank=0, world=2, environment=None, wait=True, before="",
               **options):
    options = {"rank": rank, "world": world, "threads": 1, "dtype": "uint8", "share": "host",
               **options}
    variables = {**os.environ, "TORCHELASTIC_RUN_ID": job, **(environment or {})}
    self.process = subprocess.Popen(
      [sys.executable, "-c", "import sys\n" + before + RANK, str(folder), json.dumps(options)],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE, text=True, env=variables)
    self.said = self.answer() if wait else None

  def answer(self):
    line = self.process.stdout.readline()
    assert line, f"rank ended with {self.process.wait()}"
    return json.loads(line)

  def ask(self, *what):
    self.tell(*what)
    return self.answer()

  def tell(self, *what):
    self.process.stdin.write(json.dumps(what) + "\n")
    self.process.stdin.flush()

  def kill(self):
    self.process.kill()
    self.process.wait()

  def end(self):
    self.process.stdin.close()
    assert self.process.wait(timeout=WAIT_S) == 0
    self.process.stdout.close()


@pytest.fixture
def start(folder, request):
  """Starts ranks of a job of this test's own; all of them end with it, and nothing is left."""
  ranks, before = [], set(os.listdir("/dev/shm"))
  job = f"{request.node.name}-{os.getpid()}"

  def start_one(*arguments, **options):
    ranks.append(Rank(folder, job, *arguments, **options))
    return ranks[-1]

  yield start_one
  for rank in ranks:
    if rank.process.poll() is None:
      rank.kill()
    for stream in (rank.process.stdin, rank.process.stdout):
      stream.close()
  data_pictures.wait_until(lambda: not servers(job))
  assert set(os.listdir("/dev/shm")) <= before


def servers(job):
  """Processes that decode for a job."""
  found = []
  for entry in Path("/proc").iterdir():
    if not entry.name.isdigit():
      continue
    try:
      if (b"_host_server.main" in (entry / "cmdline").read_bytes()
          and f"TORCHELASTIC_RUN_ID={job}".encode() in (entry / "environ").read_bytes()):
        found.append(int(entry.name))
    except OSError:
      pass
  return found


def alone(folder, rank, world, epochs, **options):
  """What a rank is given by a loader of its own."""
  code = RANK.replace('loader.stats()', 'None')
  done = subprocess.run(
    [sys.executable, "-c", code, str(folder),
     json.dumps({"rank": rank, "world": world, "threads": 1, "dtype": "uint8", **options})],
    input=json.dumps(["epochs", epochs]) + "\n", capture_output=True, text=True, timeout=WAIT_S)
  assert done.returncode == 0, done.stderr
  return json.loads(done.stdout.splitlines()[1])


@pytest.mark.parametrize("options", [
  {}, {"train": False}, {"cache": "decoded", "dtype": "float32", "layout": "NHWC"},
  {"transforms": ["rand_augment(2, 9)", "mixup(0.2)"], "cache": "user"},
  {"sampler": "balanced", "last": "pad"},
  {"phases": [{"epoch": 0, "size": [24, 32]}, {"epoch": 1, "size": 40, "batch": 6}]},
], ids=["train", "validation", "decoded", "mixed", "balanced", "phases"])
def test_ranks_get_what_they_get_alone(folder, start, options):
  ranks = [start(rank, **options) for rank in range(2)]
  for rank in ranks:
    rank.tell("epochs", 3)
  for number, rank in enumerate(ranks):
    assert rank.answer() == alone(folder, number, 2, 3, **options)
    assert rank.ask("state")["epoch"] == 3


def test_pictures_are_decoded_once_for_all_ranks(start):
  ranks = [start(rank, cache="decoded", train=False) for rank in range(2)]
  for _ in range(4):
    for rank in ranks:
      rank.ask("epochs", 1)
  stats = [rank.ask("stats") for rank in ranks]
  for number, s in enumerate(stats):
    assert s["cached_samples"] == COUNT
    # A hit counts before its sample does; those count twice at which both ranks, of which one is
    # ahead, were in the same moment.
    assert COUNT - 2 <= s["samples"] - s["cache_hits"] <= COUNT + 4
    assert s["threads"] == 2 and s["shared"]["pid"] == stats[0]["shared"]["pid"]
    assert [row["rank"] for row in s["shared"]["ranks"]] == [0, 1]
    assert s["shared"]["ranks"][number]["batches"] == s["batches"] == 4 * 4
    assert all(row["waited_seconds"] > 0 for row in s["shared"]["ranks"])


def test_a_state_goes_from_one_kind_to_the_other(folder, start):
  want = alone(folder, 0, 1, 2)
  first = start(world=1)
  for _ in range(3):
    first.ask("next")
  state = first.ask("state")
  with data.ImageLoader(folder, 8, 32, rank=0, world=1, threads=1, dtype="uint8") as loader:
    batches = iter(loader)
    for _ in range(3):
      next(batches)
    assert loader.state_dict() == state
  second = start(world=1)
  assert second.ask("load", state) is None
  assert second.ask("epochs", 2) == want[3:]


def test_a_rank_that_takes_nothing_holds_nobody_up(folder, start):
  slow, fast = start(0), start(1)
  assert fast.ask("epochs", 5) == alone(folder, 1, 2, 5)
  assert slow.ask("epochs", 5) == alone(folder, 0, 2, 5)


@pytest.mark.parametrize("name, value", [
  ("size", 48), ("batch", 4), ("dtype", "float32"), ("seed", 7), ("transforms", "erase(0.5)"),
  ("world", 4), ("cache_bytes", 1 << 20), ("mean", [0.1, 0.2, 0.3])])
def test_arguments_that_differ_are_named(start, name, value):
  first = start(0)
  other = start(1, **{name: value})
  kind, text = other.said
  assert kind == "InvalidArgumentError" and f"share: {name} is " in text
  assert "rank 1" in text and "rank 0" in text
  assert len(first.ask("epochs", 1)) > 0


def test_another_source_is_named(folder, start, tmp_path):
  start(0)
  data_pictures.write_folder(tmp_path, 61, seed=4)
  kind, text = Rank(tmp_path, f"test_another_source_is_named-{os.getpid()}", 1).said
  assert kind == "InvalidArgumentError" and "share: source is " in text and str(tmp_path) in text


def test_many_ranks_start_one_process(folder, start, request):
  ranks = [start(rank, world=6, wait=False) for rank in range(6)]
  assert [rank.answer() for rank in ranks] == ["made"] * 6
  assert len({rank.ask("stats")["shared"]["pid"] for rank in ranks}) == 1
  assert len(servers(f"{request.node.name}-{os.getpid()}")) == 1
  for rank in ranks:
    rank.tell("epochs", 1)
  for number, rank in enumerate(ranks):
    assert rank.answer() == alone(folder, number, 6, 1)


def test_jobs_have_processes_of_their_own(folder, start, request):
  mine = start(0)
  other = start(1, environment={"TORCHELASTIC_RUN_ID": f"{request.node.name}-{os.getpid()}x"},
                size=48)
  secret = start(1, environment={"STRETTO_SECRET": "something else"}, size=40)
  pids = {rank.ask("stats")["shared"]["pid"] for rank in (mine, other, secret)}
  assert len(pids) == 3


def test_who_does_not_know_the_secret_is_refused(start, request):
  environment = {"STRETTO_SECRET": "of this job"}
  rank = start(0, environment=environment)
  pid = rank.ask("stats")["shared"]["pid"]
  job = f"{request.node.name}-{os.getpid()}"
  name = _host.name_of(2, {**os.environ, "TORCHELASTIC_RUN_ID": job, **environment})
  assert f"@{name}" in Path("/proc/net/unix").read_text()
  for ask in ("stats", "join"):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
      connection.connect(f"\0{name}")
      _host.send(connection, {"ask": ask, "token": "", "proof": _host.proof(name, {})})
      answer = _host.receive(connection)
    assert answer["error"] == "InvalidArgumentError" and "secret" in answer["text"]
  assert rank.ask("stats")["shared"]["pid"] == pid


def test_a_rank_that_is_killed_takes_nobody_along(folder, start, request):
  """The one that started the process, and the other one."""
  ranks = [start(rank, 3) for rank in range(3)]
  pid = ranks[0].ask("stats")["shared"]["pid"]
  ranks[1].tell("endless")
  assert ranks[1].answer() == "running"
  for left, rank in ((2, ranks[0]), (1, ranks[1])):
    rank.kill()
    data_pictures.wait_until(lambda n=left: len(ranks[2].ask("stats")["shared"]["ranks"]) == n)
  assert ranks[2].ask("epochs", 2) == alone(folder, 2, 3, 2)
  assert ranks[2].ask("stats")["shared"]["pid"] == pid
  ranks[2].kill()
  data_pictures.wait_until(lambda: not servers(f"{request.node.name}-{os.getpid()}"))


def test_the_end_of_the_process_is_an_error_that_names_it(start):
  ranks = [start(rank) for rank in range(2)]
  state = ranks[0].ask("next") and ranks[0].ask("state")
  pid = ranks[0].ask("stats")["shared"]["pid"]
  ranks[1].tell("endless")
  assert ranks[1].answer() == "running"
  os.kill(pid, signal.SIGKILL)
  kind, text = ranks[1].answer()  # in the middle of a wait
  assert kind == "CommError" and f"the loader's process {pid} on this host has ended" in text
  for what in ("stats", "next", "epochs"):
    kind, text = ranks[0].ask(what, 9)
    assert kind == "CommError" and str(pid) in text, what
  now = ranks[0].ask("state")  # where it can go on
  assert now["epoch"] == state["epoch"] and now["place"] >= state["place"]


def test_a_child_of_a_rank_does_not_keep_the_process(start, request):
  rank = start(0)
  child = rank.ask("fork")
  rank.kill()
  try:
    data_pictures.wait_until(lambda: not servers(f"{request.node.name}-{os.getpid()}"))
  finally:
    os.kill(child, signal.SIGKILL)


# A rank that ends while it waits for its loader; a child of it has its connection and lives on.
DYING = """
import os, signal, sys, time
from stretto import data
from stretto.data import _host
def die(*_arguments):
  child = os.fork()
  if child == 0:
    time.sleep(600)
  print(child, flush=True)
  os.kill(os.getpid(), signal.SIGKILL)
_host.receive = die
data.ImageLoader(sys.argv[1], 8, 32, rank=0, world=2, threads=1, share="host")
"""


def test_a_rank_that_ends_as_it_joins_leaves_nothing(folder, request):
  job = f"{request.node.name}-{os.getpid()}"
  rank = subprocess.Popen([sys.executable, "-c", DYING, str(folder)], stdout=subprocess.PIPE,
                          text=True, env={**os.environ, "TORCHELASTIC_RUN_ID": job})
  child = int(rank.stdout.readline())
  try:
    assert rank.wait(timeout=WAIT_S) == -signal.SIGKILL
    data_pictures.wait_until(lambda: not servers(job))
  finally:
    os.kill(child, signal.SIGKILL)
    rank.stdout.close()


def test_signals_for_the_job_end_its_ranks_first(start):
  rank = start(0)
  pid = rank.ask("stats")["shared"]["pid"]
  for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    os.kill(pid, number)
  assert len(rank.ask("epochs", 1)) == 3
  assert rank.ask("stats")["shared"]["pid"] == pid


def test_memory_and_descriptors_are_flat(start):
  ranks = [start(rank, size=64, cache="decoded", batch=10) for rank in range(2)]

  def epochs(count):
    for rank in ranks:
      rank.tell("epochs", count)
    for rank in ranks:
      rank.answer()

  def use():
    pid = ranks[0].ask("stats")["shared"]["pid"]
    rss = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return [len(os.listdir(f"/proc/{pid}/fd")), rss], *(rank.ask("memory") for rank in ranks)

  epochs(10)
  before = use()
  epochs(50)
  # A batch of every epoch would be 12 MB, and a descriptor of every one 50.
  for (files, rss), (files_then, rss_then) in zip(use(), before):
    assert files <= files_then + 2 and rss <= rss_then + (3 << 20)


def test_loaders_of_a_job_are_paired_in_their_order(folder, monkeypatch, request):
  monkeypatch.setenv("TORCHELASTIC_RUN_ID", f"{request.node.name}-{os.getpid()}")

  def made(**options):
    return data.ImageLoader(folder, 8, 32, rank=0, world=2, threads=1, dtype="uint8",
                            share="host", **options)

  with made() as train, made(train=False, last="pad") as validation:
    assert train.stats()["shared"]["pid"] == validation.stats()["shared"]["pid"]
    assert len(list(train)) == 3
    assert sum(int(real.sum()) for _, _, real in validation) == 32
  with pytest.raises(stretto.InvalidArgumentError, match="closed"):
    train.stats()
  data_pictures.wait_until(lambda: not servers(os.environ["TORCHELASTIC_RUN_ID"]))


def test_functions_run_in_their_rank(folder, monkeypatch, request):
  monkeypatch.setenv("TORCHELASTIC_RUN_ID", f"{request.node.name}-{os.getpid()}")
  seen = []

  def invert(images, labels):
    seen.append(os.getpid())
    return 255 - images, labels

  both = []
  for share in (None, "host"):
    with data.ImageLoader(folder, 8, 32, rank=0, world=1, threads=1, dtype="uint8", share=share,
                          transforms=["erase(0.5)", invert]) as loader:
      both.append([np.array(images) for images, _ in loader])
  assert set(seen) == {os.getpid()}
  assert all(np.array_equal(a, b) for a, b in zip(*both))


def test_arrays_outlive_the_process(folder, monkeypatch, request):
  monkeypatch.setenv("TORCHELASTIC_RUN_ID", f"{request.node.name}-{os.getpid()}")
  torch = pytest.importorskip("torch")
  with data.ImageLoader(folder, 8, 32, rank=0, world=1, threads=1, framework="torch",
                        share="host") as loader:
    kept = [images for images, _ in loader]
    copies = [images.clone() for images in kept]
  data_pictures.wait_until(lambda: not servers(os.environ["TORCHELASTIC_RUN_ID"]))
  assert all(torch.equal(a, b) for a, b in zip(kept, copies))
  assert len({images.data_ptr() for images in kept}) == len(kept)


def test_files_behind_urls(folder, start, tmp_path):
  job, cache = f"test_files_behind_urls-{os.getpid()}", str(tmp_path / "cache")
  ranks = [Rank(f"file://{folder}", job, rank, cache_dir=cache) for rank in range(2)]
  assert [rank.said for rank in ranks] == ["made"] * 2
  for rank in ranks:
    rank.tell("epochs", 2)
  for number, rank in enumerate(ranks):
    assert rank.answer() == alone(folder, number, 2, 2)
  stats = ranks[0].ask("stats")
  assert stats["remote"]["fetched"] + stats["remote"]["hits"] >= COUNT - 5
  for rank in ranks:
    rank.end()


def test_a_process_that_cannot_start_says_why(folder, monkeypatch, request):
  monkeypatch.setenv("TORCHELASTIC_RUN_ID", f"{request.node.name}-{os.getpid()}")
  monkeypatch.setattr(_host.sys, "path", ["/nowhere"])
  with pytest.raises(stretto.CommError, match="No module named 'stretto'"):
    data.ImageLoader(folder, 8, 32, rank=0, world=1, share="host")


def test_wrong_values(folder):
  with pytest.raises(stretto.InvalidArgumentError, match="share: expected 'host' or None"):
    data.ImageLoader(folder, 8, 32, share="node")
  with pytest.raises(stretto.UnsupportedError, match="storage_options holds a object"):
    data.ImageLoader(folder, 8, 32, share="host", storage_options={"session": object()})
  with pytest.raises(stretto.InvalidArgumentError, match="batches of 64 take 64"):
    data.ImageLoader(folder, 64, 32, share="host", rank=0, world=1)
