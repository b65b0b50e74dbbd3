"""`stretto run`: what it would start, and that nothing it started is left."""

import html.parser
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stretto import _comm_report as comm_report
from stretto import _launch as launch

# Guards against hanging for ever, not statements about speed.
TIMEOUT_S = 120


def planned(capsys, *words):
  assert launch.main(["--dry-run", *words]) == 0
  return capsys.readouterr().out.splitlines()


@pytest.fixture(autouse=True)
def no_job(monkeypatch):
  for name in ("SLURM_JOB_ID", "OMP_NUM_THREADS"):
    monkeypatch.delenv(name, raising=False)
  monkeypatch.setattr(launch, "has_torch", lambda: True)


def test_local_ranks_go_through_torchrun(capsys):
  [line] = planned(capsys, "-n", "4", "--codec", "int8", "--step-policy", "local:8", "train.py",
                   "--epochs", "3")
  assert "torch.distributed.run --standalone --nproc-per-node=4" in line
  assert line.endswith("-m stretto._rank train.py --epochs 3")
  assert "STRETTO_CODEC=int8" in line and "STRETTO_STEP_POLICY=local:8" in line
  assert "OMP_NUM_THREADS=" in line


def test_hosts_go_through_ssh(capsys):
  first, second = planned(capsys, "-H", "localhost:2,far:3", "train.py")
  assert "--nnodes=2 --node-rank=0 --nproc-per-node=2 --master-addr=localhost" in first
  assert "ssh -tt -o BatchMode=yes far" in second and "--nproc-per-node=3" in second


def test_inside_slurm_srun_starts_the_ranks(capsys, monkeypatch, tmp_path):
  for name, text in (("srun", "true"), ("scontrol", "printf 'node7\\nnode8\\n'")):
    (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
    (tmp_path / name).chmod(0o755)
  monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
  monkeypatch.setenv("SLURM_JOB_ID", "1")
  monkeypatch.setenv("SLURM_JOB_NODELIST", "node[7-8]")
  monkeypatch.setenv("SLURM_NTASKS", "6")
  [line] = planned(capsys, "train.py")
  assert "srun --ntasks=6 --kill-on-bad-exit=1" in line and "MASTER_ADDR=node7" in line


def test_a_program_needs_no_torchrun(capsys, tmp_path):
  program = tmp_path / "train"
  program.write_text("#!/bin/sh\n")
  program.chmod(0o755)
  lines = planned(capsys, "-n", "2", str(program), "-x")
  assert [f"RANK={r} WORLD_SIZE=2" in line for r, line in enumerate(lines)] == [True, True]
  assert all(line.endswith(f"-m stretto._rank {program} -x") for line in lines)
  assert all("torch.distributed" not in line and "/meet " in line for line in lines)
  lines = planned(capsys, "-H", "localhost:1,far:2", str(program))
  assert len(lines) == 3 and "RANK=2" in lines[2] and "LOCAL_RANK=1" in lines[2]
  assert all("STRETTO_ADDRESS=localhost:29412" in line for line in lines)


def test_without_torch_scripts_are_started_like_programs(capsys, monkeypatch):
  monkeypatch.setattr(launch, "has_torch", lambda: False)
  lines = planned(capsys, "-n", "2", "train.py")
  assert [f"RANK={r} WORLD_SIZE=2" in line for r, line in enumerate(lines)] == [True, True]
  assert all(line.endswith("-m stretto._rank train.py") for line in lines)


def test_a_program_is_told_its_place(tmp_path):
  program = tmp_path / "train"
  program.write_text(
      f'#!/bin/sh\necho "$STRETTO_SIZE $STRETTO_ADDRESS" > {tmp_path}/$STRETTO_RANK\n')
  program.chmod(0o755)
  done = subprocess.run([sys.executable, "-m", "stretto._launch", "-n", "2", str(program)],
                        timeout=TIMEOUT_S, check=False)
  assert done.returncode == 0
  said = [(tmp_path / str(rank)).read_text() for rank in range(2)]
  assert said[0] == said[1] and said[0].startswith("2 /") and said[0].endswith("/meet\n")


@pytest.mark.parametrize("words, complaint", [
    (["-H", "a:0", "t.py"], "'a:0' is not HOST:RANKS"), (["-n", "0", "t.py"], "-n: 0")])
def test_bad_usage(capsys, words, complaint):
  assert launch.main(words) == 2
  assert complaint in capsys.readouterr().err


# A child that ignores being asked to end, and one of its own in another session.
STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                         start_new_session=True)
with open(sys.argv[1] + ".partial", "w") as file:
  file.write(f"{os.getpid()} {child.pid}")
os.rename(sys.argv[1] + ".partial", sys.argv[1])
time.sleep(600)
"""


def start(tmp_path, *commands):
  script = tmp_path / "run.py"
  script.write_text("import sys\nfrom stretto import _processes as processes\n"
                    f"sys.exit(processes.run_all({[(c, {}) for c in commands]!r}))\n")
  return subprocess.Popen([sys.executable, str(script)])


def stubborn(tmp_path, name):
  return [sys.executable, "-c", STUBBORN, str(tmp_path / name)]


def pids(path: Path):
  stop = time.monotonic() + TIMEOUT_S
  while not path.exists():
    assert time.monotonic() < stop, "the children did not start"
    time.sleep(0.02)
  return [int(word) for word in path.read_text().split()]


def running(pid):
  try:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
  except OSError:
    return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_everything(tmp_path, number):
  run = start(tmp_path, stubborn(tmp_path, "a"), stubborn(tmp_path, "b"))
  started = pids(tmp_path / "a") + pids(tmp_path / "b")
  run.send_signal(number)
  assert run.wait(TIMEOUT_S) == 128 + number
  assert len(started) == 4 and not [pid for pid in started if running(pid)]


def test_a_failed_child_ends_the_others(tmp_path):
  fails = [sys.executable, "-c",
           f"import os, time\nwhile not os.path.exists({str(tmp_path / 'a')!r}): time.sleep(0.02)\n"
           "os._exit(7)"]
  run = start(tmp_path, stubborn(tmp_path, "a"), fails)
  assert run.wait(TIMEOUT_S) == 7
  assert not [pid for pid in pids(tmp_path / "a") if running(pid)]


def test_exit_code_of_a_good_run(tmp_path):
  assert start(tmp_path, ["true"], ["true"]).wait(TIMEOUT_S) == 0


def test_report_shows_streams_and_nan():
  stream = {"link": "tcp <eth0>", "sent_bytes": 3_000_000, "received_bytes": 5, "alive": False,
            "used": False, "reason": "closed <by> the other side"}
  spare = {"link": "tcp <eth1>", "sent_bytes": 50, "received_bytes": 50, "alive": True,
           "used": False, "reason": ""}
  rank = {"rank": 1, "statistics": {"operations": 7, "payload_bytes": 10, "sum_s": 0.5,
                                    "resent_chunks": 2,
                                    "peers": [{"rank": 0, "host": "h", "streams": [stream, spare],
                                               "no_rdma": "m0:1 is <not> active"}]},
          "non_finite": [{"name": "fc.weight at step 3", "count": 4, "sequence": 9}], "trace": []}
  text = comm_report.page("train.py <x>", [rank])
  assert "tcp &lt;eth0&gt;" in text and "3 MB" in text and "lost" in text
  assert "tcp &lt;eth1&gt; (in reserve)" in text
  assert "closed &lt;by&gt; the other side" in text and "m0:1 is &lt;not&gt; active" in text
  assert "fc.weight at step 3" in text and "train.py &lt;x&gt;" in text


def test_report_shows_steps_settings_segments_and_a_timeline():
  group = {"group": "world", "model": "5 operations, 97.5 MiB, 0f", "steps": 10, "seconds": 2.0,
           "bytes": 10**9, "busy_s": 1.0, "exposed_s": 0.25, "step_s": 0.2, "recalled": False,
           "settled": True, "setting": "unit=1048576 streams=4 algorithm=<direct>",
           "tried": [{"setting": "unit=1048576 streams=4 algorithm=direct", "seconds": 0.1,
                      "against_seconds": 0.25, "won": True}]}
  events = [{"ph": "X", "tid": 2000, "cat": "wire", "name": "all_reduce <b>", "ts": 1e6 + i * 1e3,
             "dur": 900.0} for i in range(5)]
  ranks = [{"rank": rank, "statistics": {"operations": 7, "payload_bytes": 10, "sum_s": 0.5,
                                         "resent_chunks": 0, "peers": [], "tuning": [group]},
            "segments": [{"parts": 4, "step_s": 0.2, "expected_tail_s": 0.01, "chosen": True},
                         {"plan": "DistributedDataParallel(model, bucket_cap_mb=4)"}],
            "non_finite": [], "trace": events} for rank in range(2)]
  text = comm_report.page("train.py", ranks)
  page = Page()
  page.feed(text)
  page.close()
  assert page.open == [], "every element is closed"
  rows = [" | ".join(row) for row in page.rows]
  step = "0 | world | 5 operations, 97.5 MiB, 0f | 10 | 200 ms | 100 MB | 100 ms | 25 ms | 75%"
  assert step in rows
  assert "unit=1048576 streams=4 algorithm=direct | 100 ms | 250 ms | 2.50x | won" in rows
  assert "4 | 200 ms | 10 ms | chosen" in rows
  assert "algorithm=<direct>" in page.text and "bucket_cap_mb=4" in page.text
  assert page.tags.count("rect") == 2 * len(events)
  assert not {"script", "link", "img"} & set(page.tags), "the page needs nothing else"


class Page(html.parser.HTMLParser):
  """Elements, text and table rows of a page."""

  def __init__(self):
    super().__init__()
    self.open, self.tags, self.rows, self.text = [], [], [], ""

  def handle_starttag(self, tag, attributes):
    self.tags.append(tag)
    if tag != "meta":
      self.open.append(tag)
    if tag == "tr":
      self.rows.append([])
    if tag in ("td", "th"):
      self.rows[-1].append("")

  def handle_endtag(self, tag):
    assert self.open and self.open[-1] == tag, (tag, self.open)
    self.open.pop()

  def handle_data(self, data):
    self.text += data
    if self.open and ("td" in self.open or "th" in self.open):
      self.rows[-1][-1] += data


def test_script_runs_on_ranks(tmp_path):
  pytest.importorskip("torch", reason="torchrun comes with torch")
  script = tmp_path / "train.py"
  script.write_text("""
import sys
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
x = torch.full((2000,), dist.get_rank() + 1.0)
dist.all_reduce(x)
with open(f"{sys.argv[1]}/{dist.get_rank()}", "w") as file:
  file.write(f"{dist.get_backend()} {x[0].item():g}")
dist.destroy_process_group()
""")
  report, trace = tmp_path / "r.html", tmp_path / "t.json"
  done = subprocess.run(
      [sys.executable, "-m", "stretto._launch", "-n", "2", "--replace-backend", "--report",
       str(report), "--trace", str(trace), str(script), str(tmp_path)],
      timeout=300, capture_output=True, text=True)
  assert done.returncode == 0, done.stderr[-3000:]
  assert [(tmp_path / str(r)).read_text() for r in range(2)] == ["stretto 3"] * 2
  assert "1 &rarr; 0" in report.read_text()
  assert '"traceEvents"' in trace.read_text()
