"""What `stretto run --report` and `--trace` show of ranks on other hosts. Hosts are names here: a
rank of another host does not see the launcher's folder."""

import json
import os
import re
import subprocess
import sys

import pytest
from conftest import free_port

from stretto import _account as account
from stretto import _comm_report as comm_report
from stretto import _launch as launch

pytest.importorskip("numpy")

# Guards against hanging for ever, not statements about speed.
TIMEOUT_S = 180

SCRIPT = """
import os, sys, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
os.environ["STRETTO_HOST"] = f"host{rank % 2}"
if rank % 2:
  os.environ["STRETTO_RUN_FOLDER"] = "/no/such/folder"
import numpy as np
import stretto.comm
from stretto import _account as account
engine = stretto.comm.Engine(os.environ["STRETTO_ADDRESS"], rank, size)
engine.all_reduce(np.ones(1000, np.float32))
"""


def run(tmp_path, end, *words, ranks=4, environment=None):
  """The page, the process numbers in the trace, and what the launcher said."""
  (tmp_path / "train.py").write_text(SCRIPT + end)
  program = tmp_path / "rank"
  program.write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path / "train.py"}\n')
  program.chmod(0o755)
  report, trace = tmp_path / "r.html", tmp_path / "t.json"
  done = subprocess.run(
      [sys.executable, "-m", "stretto._launch", *(words or ["-n", str(ranks)]), "--report",
       str(report), "--trace", str(trace), "--no-python", str(program)],
      capture_output=True, text=True, timeout=TIMEOUT_S, env=environment)
  assert done.returncode == 0, done.stderr
  events = json.loads(trace.read_text())["traceEvents"]
  return report.read_text(), {event["pid"] for event in events}, done.stderr


def test_ranks_on_another_host_were_left_out_of_the_report(tmp_path):
  page, traced, said = run(tmp_path, "engine.close()\n")
  assert traced == {0, 1, 2, 3} and said == ""
  assert "incomplete" not in page
  assert all(re.search(f"<tr><td>{rank}</td><td>\\d+</td><td>", page) for rank in range(4))


@pytest.mark.parametrize("end", [
    "time.sleep(rank % 2 == 0)\nengine.close()\n",
    "time.sleep(rank % 2)\nengine.close()\n"], ids=["rank 0 last", "rank 0 first"])
def test_ranks_that_do_not_end_together_are_all_in_the_report(tmp_path, end):
  page, traced, said = run(tmp_path, end)
  assert traced == {0, 1, 2, 3} and said == "" and "incomplete" not in page


def test_a_rank_that_stays_after_rank_0_is_missed_and_goes_on(tmp_path):
  """Rank 0 has given it up: its account is lost, its work is not."""
  page, traced, said = run(tmp_path, f"""
account.PATIENCE_S = 0.1
left = {str(tmp_path / 'left')!r}
if rank == 1:
  alone = engine.add_group("alone", [1])
  while not os.path.exists(left):
    time.sleep(0.01)
  engine.all_reduce(np.ones(10, np.float32), group=alone)
engine.close()
if rank == 0:
  open(left, "w").close()
""", ranks=2)
  assert traced == {0} and "rank 1 in the report" in said
  assert "Rank 1 left no account" in page and "1 of 2" in page


def test_a_report_without_a_rank_looked_complete(tmp_path):
  page, traced, said = run(tmp_path, f"""
done = [f"{tmp_path}/done-{{r}}" for r in range(3)]
if rank == 3:
  while not all(map(os.path.exists, done)):
    time.sleep(0.01)
  os._exit(0)
open(done[rank], "w").close()
engine.close()
""")
  assert {0, 2} <= traced and 3 not in traced
  assert re.search("there is no account of ranks? .*3", said)
  assert "This page is incomplete" in page


def test_the_page_names_ranks_in_runs():
  assert comm_report.listed([0, 2, 3, 4, 9]) == "0, 2-4, 9"
  ranks = [{"rank": 1, "size": 5, "statistics": {}}]
  assert comm_report.missing(ranks) == [0, 2, 3, 4] and comm_report.missing([]) == []
  assert "Every rank left no account" in comm_report.page("train", [])


def test_a_large_trace_is_left_out(caplog):
  content = {"rank": 1, "trace": [{"ts": os.urandom(9).hex()} for _ in range(1000)]}
  assert account.unpacked(bytes(account.packed(content, 1 << 20))) == content
  small = account.unpacked(bytes(account.packed(content, 1000)))
  assert small == {"rank": 1, "trace": []} and "too large" in caplog.text


def test_damaged_accounts_are_dropped():
  good = bytes(account.packed({"rank": 1, "trace": []}, 1 << 20))
  assert account.unpacked(good) and account.unpacked(good[:-9]) is None
  assert account.unpacked(b"no account") is None


def test_of_two_attempts_the_last_counts(tmp_path):
  for name, at, size in (("rank-00000-1", 1, 2), ("rank-00000-2", 2, 3), ("rank-00001-1", 1, 3)):
    (tmp_path / f"{name}.json").write_text(
        json.dumps({"rank": int(name[9]), "size": size, "ended_s": at}))
  assert [(a["rank"], a["size"]) for a in launch.accounts(tmp_path)] == [(0, 3), (1, 3)]


def test_the_report_of_remote_hosts_was_empty(tmp_path):
  """No rank sees the launcher's folder: ssh leads to hosts with another temporary folder."""
  folder = tmp_path / "bin"
  folder.mkdir()
  (folder / "ssh").write_text(f"""#!/bin/bash
host=${{@: -2:1}} line=${{@: -1}}
filter() {{ sed -u "s#{tmp_path}/launcher#{tmp_path}/$host#g"; }}
mkdir -p {tmp_path}/$host
line=$(filter <<< "$line")
exec env -i PATH="$PATH" bash -c "$line" < <(filter)
""")
  (folder / "ssh").chmod(0o755)
  (tmp_path / "launcher").mkdir()
  script = "engine.close()\n"
  environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}",
                 "TMPDIR": str(tmp_path / "launcher")}
  page, traced, said = run(tmp_path, script, "-H", "127.0.0.1:1,127.0.0.2:1", "--port",
                           str(free_port()), environment=environment)
  assert traced == {0, 1} and said == "" and "incomplete" not in page
  assert [list((tmp_path / name).iterdir()) for name in ("127.0.0.1", "127.0.0.2")] == [[], []]
