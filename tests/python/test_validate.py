"""`stretto run --validate`: checkpoints are validated beside a training that nothing disturbs."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stretto import _comm_report as comm_report
from stretto import _launch as launch
from stretto import _validate as validate

TIMEOUT_S = 120  # a guard against hanging for ever

# The rank: writes checkpoints by name, content and the seconds after each.
TRAIN = """#!{python}
import os, sys, time
for word in sys.argv[1:]:
  name, text, seconds = word.split(":")
  if name == "exit":
    sys.exit(int(text))
  with open(name + ".part", "w") as file:
    file.write(text)
  os.rename(name + ".part", name)
  if seconds == "row":  # until its result is there
    stop = time.monotonic() + 100
    while time.monotonic() < stop and not (
        os.path.exists("validation.jsonl") and name in open("validation.jsonl").read()):
      time.sleep(0.05)
  elif seconds == "folder":  # until there is no file to write results to, and a little longer
    stop = time.monotonic() + 100
    while time.monotonic() < stop and not os.path.isdir("validation.jsonl"):
      time.sleep(0.05)
    time.sleep(5)
  else:
    time.sleep(float(seconds))
"""

VALIDATE = """
import json, os, sys, time
path = os.environ["STRETTO_CHECKPOINT"]
text = open(path).read()
print("looking at", text)
{body}
assert open(path).read() == text, "the checkpoint has changed"
print(json.dumps(dict(accuracy=float(text), cores=len(os.sched_getaffinity(0)), nice=os.nice(0),
                      batch=os.sched_getscheduler(0) == os.SCHED_BATCH,
                      gpus=os.environ["CUDA_VISIBLE_DEVICES"], pid=os.getpid())))
print("done")
"""


class Job:
  def __init__(self, folder):
    self.folder = folder
    self.train = folder / "train"
    self.train.write_text(TRAIN.format(python=sys.executable))
    self.train.chmod(0o755)

  def start(self, steps, body="", options=()):
    (self.folder / "validate.py").write_text(VALIDATE.format(body=body))
    return subprocess.Popen(
        [sys.executable, "-m", "stretto._launch", "-n", "1", "--validate", "validate.py",
         *options, str(self.train), *steps], cwd=self.folder, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))

  def end(self, child, code=0):
    out, err = child.communicate(timeout=TIMEOUT_S)
    assert child.returncode == code, err
    left = [p.name for p in self.folder.iterdir() if p.name.startswith(".validate")]
    assert left == [], "the names of checkpoints that were kept are removed"
    assert processes_of(self.folder) == []
    return err

  def run(self, steps, body="", options=(), code=0):
    return self.end(self.start(steps, body, options), code)

  def rows(self):
    path = self.folder / "validation.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

  def wait_for(self, name):
    stop = time.monotonic() + TIMEOUT_S
    while not (self.folder / name).exists():
      assert time.monotonic() < stop
      time.sleep(0.02)
    return (self.folder / name).read_text()


def processes_of(folder):
  """Those that work in a folder."""
  found = []
  for entry in Path("/proc").iterdir():
    if entry.name.isdigit() and int(entry.name) != os.getpid():
      try:
        if os.readlink(entry / "cwd") == str(folder):
          found.append(int(entry.name))
      except OSError:
        continue
  return found


@pytest.fixture
def job(tmp_path):
  return Job(tmp_path)


def test_each_checkpoint_is_validated_and_nothing_is_left(job):
  said = job.run(["a.pt:1:row", "b.pt:2:row"])
  first, second = job.rows()
  assert (first["checkpoint"], second["checkpoint"]) == ("a.pt", "b.pt")
  assert (first["outcome"], first["code"], first["skipped"]) == ("ok", 0, [])
  assert [row["result"]["accuracy"] for row in job.rows()] == [1, 2]
  assert first["result"]["nice"] == 19 and first["result"]["batch"]
  assert 'validation: a.pt: {"accuracy": 1.0' in said
  assert "2 checkpoints validated, 0 not, 0 skipped; validation.jsonl" in said
  assert sorted(p.name for p in job.folder.iterdir()) == ["a.pt", "b.pt", "train",
                                                          "validate.py", "validation.jsonl"]


def test_the_last_checkpoint_is_validated_when_the_training_has_ended(job):
  said = job.run(["a.pt:1:0"])
  assert [row["checkpoint"] for row in job.rows()] == ["a.pt"]
  assert "1 checkpoints validated" in said


def test_two_checkpoints_a_second_and_a_slow_validation_skip_the_stale_ones(job):
  job.run([f"{i:02d}.pt:{i}:0.5" for i in range(10)], body="time.sleep(1.5)")
  rows = job.rows()
  assert rows[-1]["checkpoint"] == "09.pt" and rows[-1]["outcome"] == "ok"
  validated, skipped = {r["checkpoint"] for r in rows}, [s for r in rows for s in r["skipped"]]
  assert skipped and len(skipped) == len(set(skipped))
  assert validated | set(skipped) == {f"{i:02d}.pt" for i in range(10)}
  assert not validated & set(skipped)


def test_a_checkpoint_of_one_name_is_validated_as_it_was(job):
  """Others take its name while it is validated: the validator asserts that it sees none of them."""
  job.run([f"last.pt:{i}:0.4" for i in range(8)], body="time.sleep(1)")
  rows = job.rows()
  assert {row["outcome"] for row in rows} == {"ok"}
  accuracies = [row["result"]["accuracy"] for row in rows]
  assert accuracies == sorted(set(accuracies)) and accuracies[-1] == 7


def test_a_file_that_is_overwritten_in_place_is_told_from_a_failure(job):
  (job.folder / "train").write_text(
    f"#!{sys.executable}\nimport time\nopen('a.pt', 'w').write('1')\ntime.sleep(3)\n"
    "open('a.pt', 'w').write('2')\ntime.sleep(4)\n")
  said = job.run([], body="time.sleep(3)")
  assert job.rows()[0]["outcome"] == "overwritten" and job.rows()[-1]["result"]["accuracy"] == 2
  assert "a.pt: overwritten" in said


def test_a_result_from_before_it_was_overwritten_counts(job):
  (job.folder / "train").write_text(
    f"#!{sys.executable}\nimport time\nopen('a.pt', 'w').write('1')\ntime.sleep(3)\n"
    "open('a.pt', 'w').write('2')\ntime.sleep(4)\n")
  job.run([], body="print('{}'); time.sleep(3); os._exit(0)")
  assert [row["outcome"] for row in job.rows()] == ["ok", "ok"]
  assert [row["overwritten"] for row in job.rows()] == [True, False]


def test_another_name_of_a_checkpoint_is_not_another_checkpoint(job):
  job.run(["a.pt:1:3", "z:0:0"], body="os.path.lexists('last.pt') or os.symlink('a.pt', 'last.pt')")
  assert [(row["checkpoint"], row["skipped"]) for row in job.rows()] == [("a.pt", [])]


def test_a_file_that_is_being_written_waits(job):
  (job.folder / "train").write_text(
    f"#!{sys.executable}\nimport time\nwith open('a.pt', 'w') as file:\n  file.write('1')\n"
    "  file.flush()\n  time.sleep(4)\n  file.write('2')\ntime.sleep(3)\n")
  job.run([])
  assert [row["result"]["accuracy"] for row in job.rows()] == [12]


def test_a_failing_validation_is_told_at_the_end_and_the_training_succeeds(job):
  said = job.run(["a.pt:1:row", "b.pt:2:0"], body="sys.exit('no data') if text == '1' else 0")
  first, second = job.rows()
  assert (first["outcome"], first["code"], first["result"]) == ("failed", 1, None)
  assert first["output"] == ["looking at 1", "no data"] and second["outcome"] == "ok"
  assert "1 checkpoints validated, 1 not" in said and "no data" in said.splitlines()[-1]


def test_a_killed_validation_is_one_that_failed(job):
  child = job.start(["a.pt:1:4", "b.pt:2:0"], body="open('pid.part', 'w').write(str(os.getpid()))\n"
                    "if text == '1':\n  os.rename('pid.part', 'pid')\n  time.sleep(600)")
  os.kill(int(job.wait_for("pid")), signal.SIGKILL)
  job.end(child)
  assert [(r["outcome"], r["code"]) for r in job.rows()] == [("failed", 137), ("ok", 0)]


# A child in a session of its own, and both ignore being asked to end.
HANG = """
import signal, subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)
time.sleep(600)
"""


def test_a_hanging_validation_ends_by_its_limit(job):
  began = time.monotonic()
  said = job.run(["a.pt:1:0"], body=HANG, options=["--validate-timeout", "3"])
  assert time.monotonic() - began < 60
  assert job.rows()[0]["outcome"] == "timeout" and "a.pt: timeout" in said


def test_a_training_that_fails_does_not_wait(job):
  began = time.monotonic()
  job.run(["a.pt:1:3", "exit:7:0"], body=HANG, code=7)
  assert time.monotonic() - began < 60
  assert [row["outcome"] for row in job.rows()] == ["end of the run"]


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_a_signal_skips_the_last_validation(job, number, code):
  child = job.start(["a.pt:1:0"], body="open('begun', 'w').close()\n" + HANG)
  job.wait_for("begun")
  time.sleep(1)  # the training has ended
  child.send_signal(number)
  assert "a signal has come" in job.end(child, code)


def test_ctrl_c_in_training_ends_the_validation(job):
  child = job.start(["a.pt:1:600"], body="open('begun', 'w').close()\n" + HANG)
  job.wait_for("begun")
  child.send_signal(signal.SIGINT)
  job.end(child, 130)


def test_a_launcher_that_is_killed_takes_the_validation_with_it(job):
  child = job.start(["a.pt:1:600"], body="open('pid.part', 'w').write(str(os.getpid()))\n"
                    "os.rename('pid.part', 'pid')\ntime.sleep(600)")
  job.wait_for("pid")
  child.kill()
  child.communicate(timeout=TIMEOUT_S)
  stop = time.monotonic() + TIMEOUT_S
  while processes_of(job.folder):
    assert time.monotonic() < stop, "the rank or the validation is left"
    time.sleep(0.05)


def test_results_that_cannot_be_written_do_not_stop_the_training(job):
  body = "os.mkdir('validation.jsonl') if text == '1' else 0"
  said = job.run(["a.pt:1:folder", "b.pt:2:0"], body=body)
  assert "ended, and the training goes on" in said


def test_too_much_output_ends_a_validation(job):
  body = "while True: print('x' * (1 << 20))"
  said = job.run(["a.pt:1:0"], body=body)
  assert job.rows()[0]["outcome"] == "too much output" and len(said) < 8 << 20


def test_files_that_were_there_before_are_no_checkpoints_of_the_run(job):
  (job.folder / "old.pt").write_text("9")
  said = job.run(["x:1:1"])
  assert job.rows() == [] and "no checkpoint was written that matches *.pt" in said


def test_patterns_and_the_file_of_results(job):
  (job.folder / "deep" / "er").mkdir(parents=True)
  (job.folder / "r.jsonl").write_text('{"old": 1}')
  job.run(["deep/er/a.weights:3:0", "b.pt:4:0"], options=[
      "--validate-on", "deep/**/*.weights", "--validate-results", "r.jsonl", "-q"])
  old, new = map(json.loads, (job.folder / "r.jsonl").read_text().splitlines())
  assert old == {"old": 1} and new["checkpoint"] == "deep/er/a.weights"


@pytest.mark.parametrize("words, complaint", [
  (["--validate", "absent.py"], "--validate: absent.py: there is no such file"),
  (["--validate", "no-such-program -x"], "--validate: no-such-program: there is no such program"),
  (["--validate", "'"], "--validate: No closing quotation"),
  (["--validate", "true", "--validate-timeout", "0"], "expected seconds above 0, got 0"),
  (["--validate", "true", "--validate-on", ","], "expected patterns of file names"),
  (["--validate-on", "x"], "--validate-on is for --validate: give both")])
def test_bad_usage(capsys, words, complaint):
  assert launch.main([*words, "--dry-run", "train.py"]) == 2
  assert complaint in capsys.readouterr().err


def test_validation_takes_the_cores_that_ranks_leave(monkeypatch):
  monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {2, 3, 4, 5, 6})
  assert validate.spare_cores(2, bound=True) == {6}
  assert validate.spare_cores(5, bound=True) == {2, 3, 4, 5, 6}
  assert validate.spare_cores(2, bound=False) == {2, 3, 4, 5, 6}
  assert validate.spare_cores(9, bound=True) == {2, 3, 4, 5, 6}


def test_the_result_is_the_last_object_that_was_printed():
  assert validate.result_of('{"a": 1}\n{"a": 2}\nend\n{broken}\n') == {"a": 2}
  assert validate.result_of("[1]\n3\n") is None
  assert validate.result_of('{"a": NaN}') == {"a": None}


def test_names_are_matched_as_in_a_shell(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  for name in ("a.pt", "b.pth.tar", ".c.pt", "x/d.ckpt", "x/y/e.pt", ".z/f.pt", "a.pt.part"):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("")
  assert validate.matching(validate.PATTERN.split(",")) == {"a.pt", "b.pth.tar", "x/d.ckpt"}
  assert validate.matching(["**/*.pt"]) == {"a.pt", "x/y/e.pt"}
  assert validate.matching([f"{tmp_path}/x/*/*.pt", "no/*.pt"]) == {f"{tmp_path}/x/y/e.pt"}


def test_the_report_has_a_curve_for_each_number():
  rows = [{"checkpoint": f"<{i}>.pt", "written_s": 100.0 + i, "seconds": 1.0, "outcome": "ok",
           "result": {"accuracy": i / 4, "name": "x", "nan": float("nan")}} for i in range(3)]
  rows[1] |= {"result": None, "outcome": "failed"}
  page = comm_report.page("t", [], rows)
  assert page.count("<polyline") == 1 and "&lt;2&gt;.pt" in page and "<2>" not in page
  assert "<span class=bad>failed</span>" in page
  assert "Validation" not in comm_report.page("t", [])


def test_folders_are_no_checkpoints(tmp_path, monkeypatch):
  """Files in one may grow while it stays as it is."""
  monkeypatch.chdir(tmp_path)
  (tmp_path / "step1.ckpt").mkdir()
  (tmp_path / "step1.ckpt" / "model.bin").write_text("half")
  found = validate.Validation(["true"], ["*.ckpt"], "r.jsonl", 9, str(tmp_path), {0})
  assert found.files() == []
  (tmp_path / "step2.ckpt").write_text("whole")
  assert [file.path for file in found.files()] == ["step2.ckpt"]


def test_time_in_which_others_run_is_not_counted(monkeypatch):
  child = subprocess.Popen(["sleep", "600"])
  try:
    file = validate.File("a.pt", 0, 1, 1)
    running = validate.Running(file, "a.pt", child, Path(os.devnull), [], time.monotonic() - 100)
    assert validate.waited_s(running) < 50
    running.waited = 95
    kept = validate.Validation(["true"], [], "r.jsonl", 50, "", {0}, running=running)
    killed = []
    monkeypatch.setattr(kept, "kill", killed.append)
    kept.look_after(running)
    assert killed == []
    running.waited = 0
    kept.look_after(running)
    assert killed == ["timeout"]
  finally:
    child.kill()
    child.wait()


def test_a_validation_that_does_not_die_stops_nobody(tmp_path, monkeypatch, capsys):
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(validate, "DEATH_S", 0.1)
  child = subprocess.Popen(["sleep", "600"])
  try:
    monkeypatch.setattr(os, "killpg", lambda pid, number: None)
    monkeypatch.setattr(validate.processes, "descendants", lambda *rest, **more: [])
    (tmp_path / "a.pt").write_text("1")
    (tmp_path / "out.txt").write_text("")
    file = validate.state("a.pt")
    running = validate.Running(file, "a.pt", child, tmp_path / "out.txt", [], time.monotonic())
    kept = validate.Validation(["true"], [], "r.jsonl", 50, "", {0}, running=running)
    kept.kill("timeout")
    assert kept.rows[0]["outcome"] == "timeout" and kept.running is None
    assert kept.pids() == [child.pid] and "did not die" in capsys.readouterr().err
  finally:
    child.kill()
    child.wait()
