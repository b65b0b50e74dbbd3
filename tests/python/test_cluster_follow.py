"""`stretto cluster`: following a job, signals, and finding it again whatever was killed."""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from cluster_slurm import without_scheduler
from stretto.cluster._backend import OVER, RUNS, WAITS, Backend, News, State
from stretto.cluster._host import ClusterError, Host

from stretto.cluster import _agent, _backends, _follow, _loopback, _slurm, _state


@pytest.fixture
def cluster(tmp_path):
  return without_scheduler(tmp_path)


# Following.

def test_lines_of_ranks_are_whole(capsys):
  printer = _follow.Printer(sys.stdout)
  printer.show([News(0, b"one\ntw"), News(1, b"half")])
  printer.show([News(0, b"o\r\n"), News(None, b"from srun\n"), News(1, b" and half")])
  assert capsys.readouterr().out == "[0] one\n[0] two\n[job] from srun\n"
  printer.finish()
  assert capsys.readouterr().out == "[1] half and half\n"


class Scripted(Backend):
  """A back end that says one state after another."""

  host = Host()

  def __init__(self, states, exits=()):
    self.states, self.exits = list(states), list(exits)

  def news(self, folder, offsets):
    return [], self.exits[0] if self.exits else None

  def state(self, job, folder):
    state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
    if isinstance(state, Exception):
      raise state
    return state


def test_a_job_that_ended_but_is_started_again_is_not_over(monkeypatch):
  monkeypatch.setattr(_follow, "ASK_S", 0.0)
  notes = []
  states = [State(RUNS, "RUNNING"), State("ends", "COMPLETING"),
            State(WAITS, "PENDING", "BeginTime"), State(RUNS, "RUNNING"), State(OVER, "COMPLETED")]
  assert _follow.follow(Scripted(states, ["0"]), "1", "", notes.append) == 0


def test_a_scheduler_that_is_silent_for_long_is_an_error(monkeypatch):
  monkeypatch.setattr(_follow, "ASK_S", 0.0)
  monkeypatch.setattr(_follow, "PATIENCE_S", 0.3)
  with pytest.raises(ClusterError, match="squeue: down; job 1 may go on"):
    _follow.follow(Scripted([ClusterError("squeue: down")]), "1", "", print)
  back = [ClusterError("down"), ClusterError("down"), State(OVER, "COMPLETED")]
  assert _follow.follow(Scripted(back, ["0"]), "1", "", print) == 0


class Unsteady(Scripted):
  """Of whose looks at the logs every second one fails."""

  def __init__(self, states, exits, pattern):
    super().__init__(states, exits)
    self.pattern = pattern

  def news(self, folder, offsets):
    if self.pattern.pop(0) if len(self.pattern) > 1 else self.pattern[0]:
      raise ClusterError("ssh far: reset")
    return super().news(folder, offsets)


def test_a_look_at_the_logs_may_fail(monkeypatch):
  monkeypatch.setattr(_follow, "PATIENCE_S", 0.3)
  monkeypatch.setattr(_follow, "FAR_NEWS_S", 0.05)
  states = [State(OVER, "COMPLETED")]
  assert _follow.follow(Unsteady(states, ["0"], [1, 0, 1, 0]), "1", "", print) == 0
  with pytest.raises(ClusterError, match="ssh far: reset; job 1 may go on"):
    _follow.follow(Unsteady(states, ["0"], [1]), "1", "", print)


def test_a_talkative_job_of_another_host_is_not_asked_without_a_pause(monkeypatch):
  monkeypatch.setattr(_follow, "FAR_NEWS_S", 0.1)

  class Talks(Scripted):
    looks = 0
    host = type("Far", (Host,), {"name": "far"})()

    def news(self, folder, offsets):
      self.looks += 1
      return [News(0, b"x\n")] if self.looks < 5 else [], "0"

  begin = time.monotonic()
  talks = Talks([State(OVER, "COMPLETED")])
  assert _follow.follow(talks, "1", "", print, _follow.Printer(open(os.devnull, "w"))) == 0
  assert time.monotonic() - begin >= 0.4


# Signals.

def signals(number, times):
  """What until_signal() does when the signals come while it waits: in its action, then again."""
  left = [number] * times

  def wait():
    if left:
      os.kill(os.getpid(), left.pop(0))
    time.sleep(0.01)

  def go_on():
    wait()
    return 0

  def cancel():
    wait()
    return 130

  return _follow.until_signal(go_on, lambda why: f"left {why}", cancel)


def test_signals_cancel_leave_or_end_the_waiting():
  before = signal.signal(signal.SIGINT, signal.default_int_handler)
  # The tests themselves may run under nohup.
  hang_up = signal.signal(signal.SIGHUP, signal.SIG_DFL)
  try:
    assert signals(signal.SIGINT, 1) == 130
    assert signals(signal.SIGINT, 2) == 130  # the second while the job is cancelled
    assert signals(signal.SIGTERM, 1) == "left SIGTERM"
    assert signals(signal.SIGHUP, 1) == "left SIGHUP"
  finally:
    signal.signal(signal.SIGINT, before)
    signal.signal(signal.SIGHUP, hang_up)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_signals_that_were_ignored_stay_ignored(number):
  before = signal.signal(number, signal.SIG_IGN)  # nohup, or `stretto cluster run a.py &`
  try:
    assert signals(number, 1) == 0
    assert signal.getsignal(number) == signal.SIG_IGN
  finally:
    signal.signal(number, before)


@pytest.mark.parametrize("number, expected", [
  (signal.SIGHUP, "left SIGHUP"), (signal.SIGTERM, "left SIGTERM"), (signal.SIGINT, 130)])
def test_a_signal_instead_of_an_answer(monkeypatch, number, expected):
  """The window closes while the question is shown: the job goes on."""
  class Terminal:
    def isatty(self):
      return True

    def write(self, text):
      pass

    def flush(self):
      pass

    def readline(self):
      raise _follow.Left(number)

  before = signal.signal(signal.SIGINT, signal.default_int_handler)
  monkeypatch.setattr(sys, "stdin", Terminal())
  monkeypatch.setattr(sys, "stderr", Terminal())
  try:
    assert signals(signal.SIGINT, 1) == expected
  finally:
    signal.signal(signal.SIGINT, before)


def test_a_job_that_slurm_holds_is_an_error():
  with pytest.raises(ClusterError, match="could not start it and holds it.*scontrol release 1"):
    _follow.follow(Scripted([State(WAITS, "PENDING", "launch failed requeued held")]), "1", "",
                   print)


# Finding.

def test_nothing_is_left_of_a_job_that_could_not_be_submitted(cluster, tmp_path):
  cluster.script("job.py", "")
  (tmp_path / "bin/sbatch").write_text("#!/bin/sh\necho 'sbatch: error: Batch job submission "
                                       "failed: Invalid account' >&2; exit 1\n")
  (tmp_path / "bin/sinfo").write_text("#!/bin/sh\necho 'slurm 25.05.1'\n")
  (tmp_path / "bin/scontrol").write_text("#!/bin/sh\necho 'MpiParams = (null)'\n")
  for name in ("sbatch", "sinfo", "scontrol"):
    (tmp_path / "bin" / name).chmod(0o755)
  error = cluster.run("run", "job.py", code=3).stderr
  assert "sbatch here: sbatch: error: Batch job submission failed: Invalid account" in error
  assert list((cluster.state / "jobs").iterdir()) == []


def test_a_job_whose_starter_was_killed_before_it_knew_the_number_is_found(tmp_path, monkeypatch):
  monkeypatch.setenv("STRETTO_STATE_DIR", str(tmp_path))
  here = Host()
  folder = _state.new_job_folder(here)
  def found(wanted):
    return _backends.chosen_of(_state.all_jobs(here), here, wanted)

  job = {"name": "train", "backend": "slurm", "cluster": ""}
  _agent.make(folder, {"job.json": json.dumps({**job, "id": ""})})
  monkeypatch.setattr(_slurm.Slurm, "numbers", lambda self: {})
  with pytest.raises(ClusterError, match=r"there is no such job.*no number \(train\)"):
    found("train")
  _agent.write(folder, "id", "12\n")  # the batch script does this
  for wanted in ("12", "train", "12+1"):
    assert found(wanted) == (folder, {**job, "id": "12"})
  waits = _state.new_job_folder(here)  # this one has not started yet
  _agent.make(waits, {"job.json": json.dumps({**job, "id": ""})})
  monkeypatch.setattr(_slurm.Slurm, "numbers", lambda self: {Path(waits).name: "13"})
  assert found("13")[0] == waits and _agent.read_text(waits, "id") == "13\n"
  assert found("train")[0] == waits


SBATCH = """#!/bin/sh
echo submitted >>{log}
{does}
"""


def fake_slurm(cluster, tmp_path, does, queue=""):
  """Commands of Slurm that answer as they are told."""
  log = tmp_path / "calls"
  texts = {"sbatch": SBATCH.format(log=log, does=does),
           "sinfo": "#!/bin/sh\necho 'slurm 25.05.1'\n",
           "scontrol": "#!/bin/sh\necho 'MpiParams = (null)'\n",
           "scancel": f"#!/bin/sh\necho scancel $* >>{log}\n",
           "squeue": f"#!/bin/sh\n{queue}\n"}
  for name, text in texts.items():
    (tmp_path / "bin" / name).write_text(text)
    (tmp_path / "bin" / name).chmod(0o755)
  cluster.script("job.py", "")
  return log


def test_a_job_whose_submission_has_no_clear_end_keeps_its_folder(cluster, tmp_path):
  fake_slurm(cluster, tmp_path, "echo 'sbatch: error: Socket timed out on send/recv' >&2; exit 1")
  error = cluster.run("run", "job.py", code=3).stderr
  assert "Socket timed out" in error and "`stretto cluster stop job` ends it if it is" in error
  [folder] = (cluster.state / "jobs").iterdir()
  assert json.loads((folder / "job.json").read_text())["id"] == ""
  assert "never submitted" in cluster.run("ls", "--over").stdout
  # It was: the queue has a job in this folder.
  (tmp_path / "bin/squeue").write_text(f"#!/bin/sh\nprintf '17\\037{folder}\\n'\n")
  assert "job 17 (job) is asked to end" in cluster.run("stop", "job").stderr
  assert "scancel 17" in (tmp_path / "calls").read_text()


def test_a_job_that_was_submitted_without_an_answer_is_ended(cluster, tmp_path):
  queue = ('case "$*" in *-j*) echo "slurm_load_jobs error: Invalid job id" >&2; exit 1;;'
           f' *) printf "17\\037%s\\n" {cluster.state}/jobs/*;; esac')
  log = fake_slurm(cluster, tmp_path, "echo no number", queue)
  error = cluster.run("run", "job.py", code=3).stderr
  assert "the answer was lost; it is cancelled" in error
  assert log.read_text() == "submitted\nscancel 17\n"
  assert list((cluster.state / "jobs").iterdir()) == []


def test_another_job_with_the_number_is_not_ended(cluster, tmp_path):
  log = fake_slurm(cluster, tmp_path, "echo 17", "echo /somewhere/else")
  cluster.run("run", "--detach", "job.py")
  assert "job 17 here is another one, which works in /somewhere/else" in cluster.run(
    "stop", "job", code=3).stderr
  assert "scancel" not in log.read_text()


def test_jobs_of_clusters_with_equal_numbers_are_told_apart(cluster, monkeypatch):
  monkeypatch.setenv("STRETTO_STATE_DIR", str(cluster.state))
  here = Host()
  for name, identity in (("a", "1"), ("b", "2")):
    place = cluster.state / "clusters" / name
    place.mkdir(parents=True)
    (place / "cluster.json").write_text(json.dumps({"nodes": [], "identity": identity}))
  folders = {}
  for label, name, identity in (("old", "b", "0"), ("mine-a", "a", "1"), ("mine-b", "b", "2")):
    folders[label] = _state.new_job_folder(here)
    _agent.make(folders[label], {"job.json": json.dumps({
      "id": "3", "name": label, "backend": "slurm", "ranks": 1, "identity": identity,
      "cluster": str(cluster.state / "clusters" / name / "etc/slurm.conf")})})
    time.sleep(0.01)

  def job(wanted, name=None):
    return _backends.of_job(argparse.Namespace(host=None, cluster=name), wanted)[1]

  assert job("3", "a") == folders["mine-a"] and job("3", "b") == folders["mine-b"]
  with pytest.raises(ClusterError, match="there is one in each of cluster a, cluster b"):
    job("3")
  assert job("mine-a") == folders["mine-a"]
  with pytest.raises(ClusterError, match="its cluster is no longer up"):
    job("old")  # the cluster b of now has another job 3


@pytest.mark.parametrize("note, words", [
  ("n1 12 \n", ["--jobid=12", "--overlap"]),
  # Slurm gives the ranks of every part the number of the first, which has no such node.
  ("m0 12 1\n", ["--jobid=12", "--het-group=1", "--overlap"])])
def test_a_shell_is_opened_in_the_part_of_the_job_that_has_the_node(tmp_path, note, words):
  (tmp_path / "progress").mkdir()
  (tmp_path / "progress/rank-00003.node").write_text(note)
  found = _slurm.Slurm(Host()).shell("12", str(tmp_path), 3)
  assert found[1:1 + len(words)] == words and f"--nodelist={note.split()[0]}" in found


def test_a_cluster_that_a_restart_has_ended_is_named(cluster):
  place = cluster.state / "clusters/local/run"
  place.mkdir(parents=True)
  (place.parent / "cluster.json").write_text('{"nodes": []}')
  (place / "slurmctld.pid").write_text("1\n")  # another process by now
  error = cluster.run("ls", code=3).stderr
  assert "cluster local has ended" in error and "cluster down` removes its rest" in error


def test_words_that_are_not_utf_8(cluster):
  cluster.script("job.py", "import os, sys; print(os.fsencode(sys.argv[1]))")
  word = os.fsdecode(b"caf\xe9")
  assert cluster.run("run", "--backend", "local", "job.py", word).stdout == "[0] b'caf\\xe9'\n"


def test_down_removes_folders_of_jobs_that_never_got_a_number(tmp_path, monkeypatch):
  monkeypatch.setenv("STRETTO_STATE_DIR", str(tmp_path))
  here, mine = Host(), _loopback.named("local")
  folders = [_state.new_job_folder(here) for _ in range(3)]
  for folder, conf in zip(folders, (mine.conf, "/other", None)):
    _agent.make(folder, {} if conf is None else {"job.json": json.dumps(
      {"id": "", "name": "x", "backend": "slurm", "cluster": str(conf)})})
  monkeypatch.setattr(_loopback, "LEFT_S", -1.0)
  assert _loopback.remove_jobs(mine) == 2
  assert [str(p) for p in (tmp_path / "jobs").iterdir()] == [folders[1]]
