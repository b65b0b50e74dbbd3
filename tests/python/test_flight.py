"""Flight records: what ranks write when a job fails or hangs, and what `--dump` says of it."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from conftest import free_port

from stretto import _flight as flight
from stretto import _launch as launch

# Guards against hanging for ever, not statements about speed.
TIMEOUT_S = 180


def operation(kind="all_reduce", sequence=0, state="done", group=0, count=4096, **more):
  base = {"kind": kind, "dtype": "float32", "bytes": count, "name": "", "group": group,
          "sequence": sequence, "submitted": 1.0, "started": 1.0, "state": state}
  return base | ({"done": 2.0} if state in ("done", "failed") else
                 {"age_s": 30.0, "awaited": []}) | more


def record(rank, operations, size=3, next_sequence=2, when=100.0, groups=None):
  return {"format": flight.FORMAT, "rank": rank, "size": size, "epoch": 0, "host": f"h{rank}",
          "pid": 10 + rank, "time": when, "reason": "SIGUSR2", "submitted": 2, "finished": 1,
          "failed": 0, "peers": [], "operations": operations,
          "groups": groups or [{"name": "world", "ranks": list(range(size)),
                                "next_sequence": next_sequence}]}


def written(folder, *records):
  for r in records:
    (folder / f"rank-{r['rank']:05d}.json").write_text(json.dumps(r))
  return str(folder)


def merged(tmp_path, *records):
  return flight.merge(flight.read([written(tmp_path, *records)]))


def test_the_rank_that_lacks_an_operation_is_named(tmp_path):
  waits = operation(sequence=1, state="under way", name="w", awaited=[1])
  result = merged(tmp_path, record(0, [operation(), waits]), record(2, [operation(), waits]),
                  record(1, [operation()], next_sequence=1))
  [row] = result["open"]
  assert (row["group"], row["sequence"], row["inside"]) == ("world", 1, [0, 2])
  assert (row["missing"], row["unknown"], row["over"], row["awaited"]) == ([1], [], [], [1])
  text = flight.text(result)
  line = next(line for line in text.splitlines() if "all_reduce of 4.1 kB float32 'w'" in line)
  assert line.split()[0] == "30.0" and "0, 2" in line


def test_a_rank_without_a_record_is_not_said_to_lack_anything(tmp_path):
  waits = operation(sequence=1, state="under way")
  result = merged(tmp_path, record(0, [waits]), record(2, [operation(sequence=1)]))
  assert result["without_record"] == [1]
  assert (result["open"][0]["missing"], result["open"][0]["unknown"]) == ([], [1])
  assert result["open"][0]["over"] == [2]
  assert "No record of rank 1" in flight.text(result)


def test_what_a_record_has_forgotten_is_not_missing(tmp_path):
  result = merged(tmp_path, record(0, [operation(sequence=1, state="under way")], size=2),
                  record(1, [operation(sequence=5000)], size=2, next_sequence=5001))
  assert result["open"][0]["over"] == [1] and result["open"][0]["missing"] == []


def test_ranks_that_submitted_different_operations_are_shown(tmp_path):
  result = merged(tmp_path, record(0, [operation(sequence=1, state="under way")], size=2),
                  record(1, [operation("broadcast", 1, "under way")], size=2))
  assert result["open"][0]["differs"] == {"1": "broadcast of 4.1 kB float32"}
  assert "number 1 of world differs on rank 1: broadcast" in flight.text(result)


def test_messages_are_matched_by_their_ends(tmp_path):
  """A group's ranks are not those of the job."""
  groups = [{"name": "pair", "ranks": [2, 0], "next_sequence": 0}]
  receives = operation("recv", 0, "under way", peer=0, tag=7)  # rank 0, from rank 2
  result = merged(tmp_path, record(0, [receives], groups=groups), record(1, []),
                  record(2, [operation("send", 0, "under way", peer=1, tag=8)], groups=groups))
  rows = {tuple(row["inside"]): row for row in result["open"]}
  assert rows[(0,)]["missing"] == [2] and rows[(2,)]["missing"] == [0]
  result = merged(tmp_path, record(0, [receives], groups=groups), record(1, []),
                  record(2, [operation("send", 0, "done", peer=1, tag=7)], groups=groups))
  [row] = result["open"]
  assert row["over"] == [2] and row["missing"] == []


def test_operations_without_a_number_are_shown_alone(tmp_path):
  result = merged(tmp_path, record(0, [operation(sequence=None, state="waiting", started=None)]),
                  record(1, [operation("recv", 0, "waiting", peer=-1, tag=1)]))
  assert [row["inside"] for row in result["open"]] == [[0], [1]]


def test_records_of_an_earlier_job_are_left_out(tmp_path):
  result = merged(tmp_path, record(0, [], size=2, when=5000.0), record(1, [], size=2, when=5001.0),
                  record(7, [], size=8, when=100.0))
  assert result["size"] == 2 and [r["rank"] for r in result["ranks"]] == [0, 1]


@pytest.mark.parametrize("content, complaint", [
  ("{", "expected a flight record"), ('{"format": "other"}', "expected a flight record"),
  (None, "No such file"), ("", "expected a flight record")])
def test_other_files_are_refused(tmp_path, capsys, content, complaint):
  path = tmp_path / "rank-00000.json"
  if content is not None:
    path.write_text(content)
  assert launch.main(["--dump", str(path)]) == 2
  assert complaint in capsys.readouterr().err


def test_an_empty_folder_is_refused(tmp_path, capsys):
  assert launch.main(["--dump", str(tmp_path)]) == 2
  assert "there is no flight record" in capsys.readouterr().err


def test_dump_runs_nothing_and_takes_json_before_or_after(tmp_path, capsys):
  folder = written(tmp_path, record(0, [operation(sequence=1, state="under way")], size=1))
  for words in (["--json", "--dump", folder], ["--dump", folder, "--json"]):
    assert launch.main(words) == 0
    assert json.loads(capsys.readouterr().out)["open"][0]["sequence"] == 1
  assert launch.main(["--dump", folder]) == 0
  assert "Operations that are not over" in capsys.readouterr().out
  with pytest.raises(SystemExit) as end:
    launch.main(["-n", "2", "--dump", folder, "train.py"])
  assert end.value.code == 2 and "--dump runs nothing" in capsys.readouterr().err


# Rank 1 does not submit the last operation; the others wait for it.
HANGS = """
import os, sys, time
import numpy as np
import stretto.comm
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
options = stretto.comm.Options.from_environment()
options.operation_timeout_s = float(sys.argv[1])
engine = stretto.comm.Engine(os.environ["STRETTO_ADDRESS"], rank, size, options)
x = np.ones(1000, np.float32)
engine.all_reduce(x)
if rank != 1:
  handle = engine.submit(kind=stretto.comm.ALL_REDUCE, dtype="float32", count=1000,
                         input=stretto.comm.address_of(x), output=stretto.comm.address_of(x),
                         name="the last")
open(f"{sys.argv[2]}/there-{rank}", "w").close()
while not os.path.exists(f"{sys.argv[2]}/go") and not float(sys.argv[1]):
  time.sleep(0.01)
if rank == 1 and not float(sys.argv[1]):
  engine.all_reduce(x)
elif rank == 1:
  alone = engine.add_group("alone", [1])
  while True:
    engine.barrier(alone)
else:
  engine.wait(handle)
engine.close()
"""


def launched(tmp_path, timeout_s, words, environment=None, torchrun=False):
  (tmp_path / "hangs.py").write_text(HANGS)
  program = tmp_path / "rank"
  program.write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path / "hangs.py"} {timeout_s} '
                     f'{tmp_path}\n')
  program.chmod(0o755)
  (tmp_path / "tmp").mkdir()
  clean = {k: v for k, v in os.environ.items() if k != "STRETTO_DUMP"}
  script = ([str(tmp_path / "hangs.py"), str(timeout_s), str(tmp_path)] if torchrun else
            ["--no-python", str(program)])
  return subprocess.Popen(
      [sys.executable, "-m", "stretto._launch", *words, *script],
      stderr=subprocess.PIPE, text=True,
      env=clean | {"TMPDIR": str(tmp_path / "tmp")} | (environment or {}))


def folder_named_in(said):
  [line] = [line for line in said.splitlines() if "stretto run --dump" in line and
            line.startswith("stretto run:")]
  return line.split()[-1]


def test_a_job_that_timed_out_said_nothing_about_its_ranks(tmp_path):
  run = launched(tmp_path, 2, ["-n", "3"])
  _, said = run.communicate(timeout=TIMEOUT_S)
  assert run.returncode == 1
  result = flight.merge(flight.read([folder_named_in(said)]))
  last = next(row for row in result["open"] if "the last" in row["operation"])
  # On a busy machine the launcher may end rank 1 before it has written its record.
  assert last["missing"] + last["unknown"] == [1] and set(last["inside"]) <= {0, 2}
  assert "is not done after 2 s" in flight.text(result)


@pytest.mark.parametrize("way", ["here", "torchrun", "ssh"])
def test_a_signal_to_the_launcher_shows_who_waits_and_the_job_goes_on(tmp_path, way):
  if way == "torchrun":
    pytest.importorskip("torch", reason="torchrun comes with torch")
  words, environment = ["-n", "3"], {}
  if way == "ssh":
    folder = tmp_path / "bin"
    folder.mkdir()
    # Another host does not see the launcher's temporary folder.
    (folder / "ssh").write_text(f"""#!/bin/bash
filter() {{ sed -u "s#{tmp_path}/tmp#{tmp_path}/far#g"; }}
mkdir -p {tmp_path}/far
line=$(filter <<< "${{@: -1}}")
exec env -i PATH="$PATH" bash -c "$line" < <(filter)
""")
    (folder / "ssh").chmod(0o755)
    words = ["-H", "127.0.0.2:3", "--port", str(free_port())]
    environment = {"PATH": f"{folder}:{os.environ['PATH']}"}
  run = launched(tmp_path, 0, words, environment, torchrun=way == "torchrun")
  stop = time.monotonic() + TIMEOUT_S
  while not all((tmp_path / f"there-{rank}").exists() for rank in range(3)):
    assert time.monotonic() < stop and run.poll() is None, run.stderr.read()
    time.sleep(0.02)
  run.send_signal(signal.SIGUSR2)
  found = []
  while len(found) < 3:
    assert time.monotonic() < stop, "the ranks wrote nothing"
    found = list(tmp_path.glob("*/stretto-run-*/records/rank-*.json"))
    time.sleep(0.02)
  result = flight.merge(flight.read([str(found[0].parent)]))
  [row] = result["open"]
  assert row["inside"] == [0, 2] and row["missing"] == [1]
  (tmp_path / "go").touch()
  _, said = run.communicate(timeout=TIMEOUT_S)
  assert run.returncode == 0, said
  if way != "ssh":
    assert len(flight.read([folder_named_in(said)])) == 3


def test_a_good_job_leaves_no_records(tmp_path):
  (tmp_path / "go").touch()
  run = launched(tmp_path, 0, ["-n", "2"])
  _, said = run.communicate(timeout=TIMEOUT_S)
  assert run.returncode == 0 and said == ""
  assert list((tmp_path / "tmp").iterdir()) == []
