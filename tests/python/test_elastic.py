"""hvd.elastic on a real job: processes are killed, and others take their place. No test waits for
time to pass: the script holds at the steps named by --wait-for, and the tests follow its output."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import free_port
from followed_job import TIMEOUT_S, Job

from stretto import _launch as launch

pytest.importorskip("torch", reason="elastic jobs are for torch, which is not installed")
pytest.importorskip("sklearn", reason="scikit-learn has the digits, and is not installed")

SCRIPT = Path(__file__).parent.parent.parent / "examples/python/train_elastic.py"
STEPS = 90
# Sums in another order, over 90 steps: seen are differences of about 1e-6.
TOLERANCE = 1e-3


def digits(folder, *words, name="job", waits="", **environment):
  script = [SCRIPT, "--steps", STEPS, "--out", folder / f"{name}.json"]
  return Job(folder, *words, *script, *(["--wait-for", waits] if waits else []), name=name,
             **environment)


def sizes(curve):
  """How many ranks there were, without repetitions."""
  return [p["ranks"] for i, p in enumerate(curve) if i == 0 or curve[i - 1]["ranks"] != p["ranks"]]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
  with digits(tmp_path_factory.mktemp("undisturbed"), "--elastic", "3:3") as job:
    curve = job.ended()
  assert sizes(curve) == [3]
  return curve


def same_course(curve, expected):
  assert [p["step"] for p in curve] == list(range(STEPS))
  for got, want in zip(curve, expected):
    assert got["loss"] == pytest.approx(want["loss"], rel=TOLERANCE, abs=TOLERANCE), got["step"]


def test_survivors_of_rank_0_go_on_and_a_rank_of_another_launcher_joins(tmp_path, undisturbed):
  """Rank 0 is lost, which in other jobs serves the store."""
  port, secret = free_port(), "a secret of the test"
  meeting = ("--elastic", "2:3", "--master-addr", "127.0.0.1", "--master-port", port)
  with digits(tmp_path, *meeting, "-n", 3, waits="45:2,70:3", STRETTO_SECRET=secret) as job:
    job.until("^step 20")
    job.kill(0)
    job.until("^now rank 0 of 2")
    job.until("^step 60: loss .* on 2 ranks")
    with digits(tmp_path, *meeting, "-n", 1, "--node-rank", 1, name="second", waits="45:2,70:3",
                STRETTO_SECRET=secret) as second:
      second.until("^rank 2 of 3")
      second.ended()
    curve = job.ended()
  assert "a rank ended with code 137; 2 are left here" in job.text
  assert sizes(curve) == [3, 2, 3]
  same_course(curve, undisturbed)
  page = job.out.with_suffix(".html").read_text()
  assert page.count("<polyline") == 3 and "http" not in page


def test_a_host_that_is_lost_with_its_launcher_is_given_up_after_the_grace_time(tmp_path,
                                                                                undisturbed):
  """Nobody notes how its ranks ended."""
  port, secret = free_port(), "a secret of the test"
  meeting = ("--elastic", "1:3", "--master-addr", "127.0.0.1", "--master-port", port)
  settings = {"waits": "10:3,45:2", "STRETTO_SECRET": secret, "STRETTO_ELASTIC_GRACE": "1"}
  with digits(tmp_path, *meeting, "-n", 2, **settings) as job:
    job.until("the ranks meet at")
    with digits(tmp_path, *meeting, "--node-rank", 1, name="second", **settings) as second:
      job.until("^step 20: loss .* on 3 ranks")
      second.process.kill()
      curve = job.ended()
  assert sizes(curve)[-2:] == [3, 2]  # some of the three may be late at the start
  same_course(curve, undisturbed)


def test_a_lost_rank_is_replaced(tmp_path, undisturbed):
  with digits(tmp_path, "--elastic", "1:3", "--max-restarts", 1, waits="60:3") as job:
    job.until("^step 20")
    job.kill(1)
    curve = job.ended()
  assert "2 are left here, and another one starts" in job.text
  assert sizes(curve) in ([3, 2, 3], [3])  # it may come before the others have made a step
  assert job.text.count("now rank 0 of") == 2 or job.text.count("now rank 0 of 3") == 1
  same_course(curve, undisturbed)


def test_two_ranks_lost_at_once_leave_one_that_goes_on(tmp_path):
  """With a codec, whose residuals belong to a job that is gone."""
  with digits(tmp_path, "--elastic", "1:3", "--codec", "int8", waits="45:1") as job:
    job.until("^step 20")
    job.kill(2)
    job.kill(0)
    curve = job.ended()
  assert sizes(curve)[-1] == 1 and len(curve) == STEPS
  assert curve[-1]["loss"] < 0.3  # 0.2 without losses


def test_a_job_ends_when_too_few_ranks_are_left(tmp_path):
  with digits(tmp_path, "--elastic", "2:2", waits="45:3") as job:
    job.until("^step 20")
    job.kill(1, size=2)
    job.ended(137)
  assert "1 ranks are left, and 2 are needed" in job.text


STATES = """
import torch, stretto, stretto.horovod as hvd
hvd.init()
plain = hvd.elastic.ObjectState(step=0, seen=[])
plain.step += 1
plain.seen.append(1)
plain.restore()
assert (plain.step, plain.seen) == (0, []), "what was not committed is gone"
plain.seen.append(2)
plain.commit()
plain.seen.append(3)
plain.restore()
assert plain.seen == [2]
plain.seen.append(4)
plain.restore()
assert plain.seen == [2], "a restored list is a copy too"

model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
def step():
  optimizer.zero_grad()
  model(torch.ones(1, 2)).sum().backward()
  optimizer.step()
  schedule.step()
step()
state = hvd.elastic.TorchState(model=model, optimizer=optimizer, schedule=schedule, step=1)
weight, rate = model.weight.clone(), schedule.get_last_lr()
momentum = optimizer.state[model.weight]["momentum_buffer"].clone()
for _ in range(2):
  step()
  state.step = 5
  state.restore()
  assert torch.equal(model.weight, weight) and state.step == 1
  assert torch.equal(optimizer.state[model.weight]["momentum_buffer"], momentum)
  assert schedule.get_last_lr() == rate
calls = []
state.register_reset_callbacks([lambda: calls.append(1), lambda: calls.append(2)])
state.on_reset()
assert calls == [1, 2]

@hvd.elastic.run
def train(state, factor, offset=0):
  "Its name and text stay."
  state.step += 1
  state.commit()
  return state.step * factor + offset
assert train(state, 10, offset=3) == 23
assert train.__name__ == "train" and "stay" in train.__doc__

@hvd.elastic.run
def fails(state):
  raise stretto.CommError("rank 7 is lost", 7)
try:
  fails(state)
except stretto.CommError as error:
  assert error.rank == 7, "a job that is not elastic ends with its error"
else:
  raise AssertionError("no error")
print("done")
"""


def test_states_go_back_to_the_last_commit():
  environment = {k: v for k, v in os.environ.items() if not k.startswith(("RANK", "WORLD_SIZE"))}
  done = subprocess.run([sys.executable, "-c", STATES], capture_output=True, text=True,
                        timeout=TIMEOUT_S, env=environment)
  assert done.stdout == "done\n" and done.returncode == 0, done.stdout + done.stderr


def planned(capsys, *words):
  assert launch.main(["--dry-run", "--json", "--elastic", *words]) == 0
  return [c["environment"] | {"words": c["words"]}
          for c in json.loads(capsys.readouterr().out)["commands"]]


def test_the_ranks_of_an_elastic_job_start_without_torchrun(capsys, monkeypatch):
  monkeypatch.setattr(launch, "has_torch", lambda: True)
  monkeypatch.setenv("SLURM_JOB_ID", "1")
  ranks = planned(capsys, "2:4", "train.py", "--lr", "1")
  assert [r["LOCAL_RANK"] for r in ranks] == ["0", "1", "2", "3"]
  assert len({r["STRETTO_ELASTIC_WORKER"] for r in ranks}) == 4
  assert {(r["STRETTO_ELASTIC"], r["STRETTO_ELASTIC_START"]) for r in ranks} == {("2:4", "4")}
  assert ranks[0]["words"][1:] == ["-m", "stretto._rank", "train.py", "--lr", "1"]
  assert len(planned(capsys, "2:4", "-n", "3", "train.py")) == 3
  # Another host adds one rank, if not told otherwise.
  assert len(planned(capsys, "2:4", "--node-rank", "1", "--master-addr", "h", "train.py")) == 1


@pytest.mark.parametrize("words, said", [
    (["2"], "--elastic: expected MIN:MAX"),
    (["3:2"], "--elastic: expected MIN:MAX"),
    (["2:4", "-n", "5"], "-n: expected 2 to 4 ranks"),
    (["2:4", "-n", "1"], "-n: expected 2 to 4 ranks"),
    (["2:4", "-H", "a:2,b:2"], "not with -H"),
    (["2:4", "--nnodes", "1:2"], "--elastic and --nnodes: give one of them"),
    (["2:4", "--node-rank", "1"], "name the host of node 0 with --master-addr"),
])
def test_wrong_words_are_refused(capsys, monkeypatch, words, said):
  monkeypatch.setattr(launch, "has_torch", lambda: True)
  assert launch.main(["--elastic", *words, "train.py"]) == 2
  assert said in capsys.readouterr().err


def test_without_torch_a_package_is_missing(capsys, monkeypatch):
  monkeypatch.setattr(launch, "has_torch", lambda: False)
  assert launch.main(["--elastic", "1:2", "train.py"]) == 3
  assert "--elastic needs torch" in capsys.readouterr().err


def test_launchers_on_several_hosts_make_no_secrets_of_their_own():
  args = launch.parser().parse_args(["--elastic", "1:2", "--master-addr", "h", "train.py"])
  assert launch.job_secret(args, {}) is None
  alone = launch.parser().parse_args(["--elastic", "1:2", "train.py"])
  assert launch.job_secret(alone, {}) is not None


MANY_EPOCHS = """
import gc, os, sys, torch, stretto, stretto.horovod as hvd
from stretto.horovod import _epochs, _optimizer, _state
hvd.init()
model = torch.nn.Linear(4, 4)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                     model.named_parameters(), hvd.Compression.int8)
state = hvd.elastic.TorchState(model=model, optimizer=optimizer, epochs=0)
held = []

@hvd.elastic.run
def train(state):
  optimizer.zero_grad()
  model(torch.ones(1, 4)).sum().backward()
  optimizer.step()
  gc.collect()
  held.append((len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))))
  if state.epochs < 8:
    state.epochs += 1
    state.save()
    hvd.barrier()
    if state.epochs % 2:
      raise stretto.CommError("as if a rank were lost")
    raise hvd.elastic.HostsUpdatedInterrupt
train(state)
assert _epochs.epochs().number >= 9, "each attempt has an epoch of its own"
assert hvd.size() == 2
sys.excepthook(ValueError, ValueError("as a test"), None)  # torch puts the rank before it
# The third epoch has everything that an epoch needs.
assert max(held[-3:]) <= max(held[2:5]), held
sys.stdout.write(f"rank {hvd.rank()} is through\\n")
hvd.shutdown()
"""


def test_epochs_leave_nothing_behind(tmp_path):
  """Neither descriptors nor threads, nor words before the lines of an error."""
  script = tmp_path / "epochs.py"
  script.write_text(MANY_EPOCHS)
  with Job(tmp_path, "--elastic", "2:2", script) as job:
    job.ended()
  assert sorted(line for line in job.text.splitlines() if "is through" in line) == [
      "rank 0 is through", "rank 1 is through"]
  assert job.text.count("[rank0]: ") == job.text.count("[rank0]: ValueError: as a test") == 1
