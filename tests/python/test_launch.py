"""`stretto run`: what it would start, and that nothing it started is left."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stretto import _launch as launch
from stretto import _launch_options as launch_options
from stretto import _stretto

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


@pytest.fixture
def no_torch(monkeypatch):
  monkeypatch.setattr(launch, "has_torch", lambda: False)


def test_local_ranks_go_through_torchrun(capsys):
  [line] = planned(capsys, "-n", "4", "--codec", "int8", "--step-policy", "local:8", "train.py",
                   "--epochs", "3")
  assert "torch.distributed.run --standalone --nproc-per-node=4" in line
  assert line.endswith("-m stretto._rank train.py --epochs 3")
  assert "STRETTO_CODEC=int8" in line and "STRETTO_STEP_POLICY=local:8" in line
  assert "OMP_NUM_THREADS=" in line


def test_ranks_share_the_cores_that_the_engine_counts(capsys):
  [line] = planned(capsys, "train.py")
  assert f"OMP_NUM_THREADS={_stretto.core_count()} " in line
  [line] = planned(capsys, "-n", "2", "--threads", "3", "train.py")
  assert "OMP_NUM_THREADS=3 " in line


def test_ranks_show_warnings_unless_somebody_says_what_to_show(capsys, monkeypatch):
  monkeypatch.delenv("STRETTO_LOG_LEVEL", raising=False)
  [line] = planned(capsys, "train.py")
  assert "STRETTO_LOG_LEVEL=warning" in line
  for level in ("off", ""):
    monkeypatch.setenv("STRETTO_LOG_LEVEL", level)
    [line] = planned(capsys, "train.py")
    assert "STRETTO_LOG_LEVEL" not in line


def test_hosts_go_through_ssh(capsys):
  first, second = planned(capsys, "-H", "localhost:2,far:3", "train.py")
  assert "--nnodes=2 --node-rank=0 --nproc-per-node=2 --master-addr=localhost" in first
  assert "ssh -T -o BatchMode=yes far" in second and "--nproc-per-node=3" in second
  assert "-m stretto._remote" in second


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


def test_a_dry_run_shows_no_secret(capsys, monkeypatch):
  monkeypatch.setenv("STRETTO_SECRET", "the user's own secret")
  for words in (["-n", "2"], ["-H", "localhost:1,far:1"], ["--json", "-H", "far:1"]):
    assert "own secret" not in "\n".join(planned(capsys, *words, "train.py"))


def test_launchers_on_several_hosts_cannot_make_a_secret(capsys, monkeypatch, no_torch):
  words = ["--dry-run", "--nnodes", "2", "--node-rank", "0", "--master-addr", "h", "t.py"]
  assert launch.main(words) == 0
  assert "set the same STRETTO_SECRET on all of them" in capsys.readouterr().err
  monkeypatch.setenv("STRETTO_SECRET", "one")
  assert launch.main(words) == 0
  assert capsys.readouterr().err == ""
  args = launch_options.parser().parse_args(words)
  assert launch.job_secret(args, {}) is None and launch.job_secret(args, os.environ) == "one"


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
    (["-H", "a:0", "t.py"], "'a:0' is not HOST:RANKS"),
    (["-n", "0", "t.py"], "-n: expected a number of ranks from 1 on, got 0"),
    (["-n", "2", "--nproc-per-node", "3", "t.py"], "-n and --nproc-per-node"),
    (["-H", "a:1", "--nnodes", "2", "t.py"], "--nnodes is for running this command on each host"),
    (["-m", "--no-python", "t"], "-m and --no-python"),
    (["--step-policy", "sometimes", "t.py"], "every, accumulate:K, local:K or gossip:K"),
    (["nowhere.py"], "nowhere.py: there is no such file"),
    (["/nowhere/python3", "t.py"], "/nowhere/python3: ranks run with"),
    ([sys.executable, "-c", "print()"], "only -u and -m can stand before the script")])
def test_bad_usage(capsys, words, complaint):
  assert launch.main(words) == 2
  assert complaint in capsys.readouterr().err


def test_an_unknown_codec_is_refused_with_the_known_ones(capsys):
  assert launch.main(["-n", "2", "--codec", "int3", "train.py"]) == 2
  said = capsys.readouterr().err
  assert "got 'int3'" in said
  for codec in launch_options.CODECS.split("|"):
    assert codec in said, "the table of options has exactly the codecs there are"
    assert launch.main(["--dry-run", "--codec", codec, "train.py"]) == 0
  listed = said[said.index("one of ") + 7:said.index(", got")].split(", ")
  assert sorted(listed) == sorted(launch_options.CODECS.split("|"))


def test_a_wrong_variable_is_refused_before_anything_starts(capsys, monkeypatch):
  monkeypatch.setenv("STRETTO_STREAMS", "many")
  assert launch.main(["-n", "2", "train.py"]) == 2
  assert "STRETTO_STREAMS" in capsys.readouterr().err


@pytest.mark.parametrize("words, expected", [
    (["--nnodes", "2", "--node-rank", "1", "--nproc-per-node", "4", "--master-addr", "h"],
     ["--nproc-per-node=4", "--nnodes=2", "--node-rank=1", "--master-addr=h"]),
    (["--nnodes=1:4", "--rdzv-backend=c10d", "--rdzv-endpoint=h:1", "--rdzv-id=j", "-n", "2",
      "--max-restarts=3"],
     ["--nproc-per-node=2", "--nnodes=1:4", "--rdzv-backend=c10d", "--rdzv-endpoint=h:1",
      "--rdzv-id=j", "--max-restarts=3"]),
    (["--nproc_per_node", "2", "--tee", "3", "--log_dir", "logs", "--role", "trainer"],
     ["--standalone", "--nproc-per-node=2", "--role=trainer", "--tee=3", "--log-dir=logs"]),
    (["-r", "0:3,1:1", "-n", "2"], ["--standalone", "--redirects=0:3,1:1"]),
])
def test_torchruns_words_reach_torchrun(capsys, words, expected):
  [line] = planned(capsys, *words, "train.py")
  words = line.split()
  for word in expected:
    assert word in words
  assert ("--standalone" in words) == ("--standalone" in expected)
  torchrun_takes(words[words.index("torch.distributed.run") + 1:])


def torchrun_takes(words):
  """torchrun's own parser reads them, where it is installed."""
  run = pytest.importorskip("torch.distributed.run", reason="torchrun comes with torch")
  assert run.get_args_parser().parse_args(words).training_script == "stretto._rank"


def test_modules_and_programs_are_started_as_such(capsys, no_torch):
  [line] = planned(capsys, "-m", "package.train", "--lr", "1")
  assert line.endswith("-m stretto._rank -m package.train --lr 1")
  [line] = planned(capsys, "--no-python", "train", "-x")
  assert line.endswith("-m stretto._rank --no-python train -x")


def test_python_before_the_script_is_left_out(capsys, monkeypatch):
  monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
  [line] = planned(capsys, sys.executable, "train.py", "--lr", "1")
  assert "torch.distributed.run" in line and line.endswith("-m stretto._rank train.py --lr 1")
  [line] = planned(capsys, sys.executable, "-u", "-m", "package.train", "-x")
  assert line.endswith("-m stretto._rank -m package.train -x")
  assert os.environ.pop("PYTHONUNBUFFERED") == "1"


def test_several_hosts_without_torch(capsys, no_torch):
  lines = planned(capsys, "--nnodes", "2", "--node-rank", "1", "-n", "2", "--master-addr", "h",
                  "--master-port", "7", "train.py")
  assert ["RANK=2 WORLD_SIZE=4" in lines[0], "RANK=3 WORLD_SIZE=4" in lines[1]] == [True, True]
  assert all("STRETTO_ADDRESS=h:8" in line for line in lines)
  assert launch.main(["--nnodes", "2", "train.py"]) == 2
  assert "--master-addr" in capsys.readouterr().err
  assert launch.main(["--rdzv-backend", "c10d", "train.py"]) == 3
  assert "comes with torch" in capsys.readouterr().err


def test_a_dry_run_as_json(capsys, no_torch):
  plan = json.loads("\n".join(planned(capsys, "--json", "-n", "2", "train.py")))["commands"]
  assert [entry["environment"]["RANK"] for entry in plan] == ["0", "1"]
  assert plan[0]["words"][-3:] == ["-m", "stretto._rank", "train.py"]


@pytest.mark.parametrize("words, option", [
    (["--port", "7"], "--port"), (["--log-dir", "x"], "--log-dir")])
def test_options_without_effect_are_warned_about(capsys, words, option):
  assert launch.main(["--dry-run", *words, "train.py"]) == 0
  assert f"warning: {option} has no effect" in capsys.readouterr().err
  assert launch.main(["--dry-run", "-q", *words, "train.py"]) == 0
  assert capsys.readouterr().err == ""


def test_the_description_is_the_parser(capsys):
  """What completion and the docs are made from names exactly what the parser takes."""
  taken = {name for action in launch_options.parser()._actions for name in action.option_strings}
  described = {name for option in launch_options.describe()["options"]
               for name in option["names"] if name.startswith("-")}
  assert taken - {"-h", "--help"} == described


TALKS = """
import os, sys
print("out of", os.environ["RANK"], flush=True)
print("err of", os.environ["RANK"], file=sys.stderr, flush=True)
sys.exit(int(sys.argv[1]))
"""


def talk(tmp_path, *words, code=0):
  """Ranks that no torchrun starts: a program."""
  (tmp_path / "talks.py").write_text(TALKS)
  program = tmp_path / "talks"
  program.write_text(f"#!/bin/sh\nexec {sys.executable} {tmp_path / 'talks.py'} \"$@\"\n")
  program.chmod(0o755)
  done = subprocess.run([sys.executable, "-m", "stretto._launch", *words, str(program), str(code)],
                        capture_output=True, text=True, timeout=TIMEOUT_S)
  assert done.returncode == code, done.stderr
  return done


def test_tee_puts_the_rank_before_each_line(tmp_path):
  done = talk(tmp_path, "-n", "2", "--tee", "3", "--role", "worker", "--log-dir",
              str(tmp_path / "logs"))
  assert sorted(done.stdout.splitlines()) == ["[worker0]:out of 0", "[worker1]:out of 1"]
  assert sorted(done.stderr.splitlines()) == ["[worker0]:err of 0", "[worker1]:err of 1"]
  place = tmp_path / "logs" / "attempt_0" / "1"
  assert (place / "stdout.log").read_text() == "out of 1\n"
  assert (place / "stderr.log").read_text() == "err of 1\n"


def test_redirects_keep_the_terminal_quiet(tmp_path):
  done = talk(tmp_path, "-n", "2", "-r", "0:1,1:3", "--log-dir", str(tmp_path / "logs"))
  assert done.stdout == "" and done.stderr == "err of 0\n"
  assert (tmp_path / "logs" / "attempt_0" / "0" / "stdout.log").read_text() == "out of 0\n"


def test_ranks_are_started_again(tmp_path):
  done = talk(tmp_path, "-n", "1", "--max-restarts", "2", code=5)
  assert done.stdout.splitlines() == ["out of 0"] * 3
  assert done.stderr.count("starting all ranks again") == 2


def test_a_reader_that_leaves_ends_the_ranks(tmp_path):
  program = tmp_path / "talks"
  program.write_text("#!/bin/sh\nwhile echo line; do sleep 0.05; done\n")
  program.chmod(0o755)
  line = (f"{sys.executable} -m stretto._launch -n 2 --tee 3 --log-dir {tmp_path / 'logs'} "
          f"{program} | head -n 3; echo ${{PIPESTATUS[0]}}")
  done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=TIMEOUT_S)
  assert done.stdout.splitlines()[-1] == "141" and done.stderr == ""


def test_a_module_runs_on_ranks(tmp_path):
  (tmp_path / "job").mkdir()
  (tmp_path / "job" / "train.py").write_text(
    "import os, sys\nfrom job import other\n"
    "open(os.environ['RANK'], 'w').write(f'{__name__} {other.X} {sys.argv[1]}')\n")
  (tmp_path / "job" / "other.py").write_text("X = 3\n")
  words = ["-n", "2", "-m", "job.train", "z"]
  done = subprocess.run([sys.executable, "-m", "stretto._launch", *words], cwd=tmp_path,
                        capture_output=True, text=True, timeout=TIMEOUT_S)
  assert done.returncode == 0, done.stderr
  assert [(tmp_path / str(r)).read_text() for r in range(2)] == ["__main__ 3 z"] * 2


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
                    f"sys.exit(processes.run_all([processes.Command(c, {{}}) for c in {commands!r}]"
                    "))\n")
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


def test_a_remote_host_went_on_without_its_launcher(tmp_path):
  stub = subprocess.Popen([sys.executable, "-m", "stretto._remote", *stubborn(tmp_path, "a")],
                          stdin=subprocess.PIPE)
  stub.stdin.write(b'{"X": "1"}\n')
  stub.stdin.flush()
  started = pids(tmp_path / "a")
  assert len(started) == 2 and all(running(pid) for pid in started)
  stub.stdin.close()  # as when the connection breaks
  assert stub.wait(TIMEOUT_S) == 128 + signal.SIGHUP
  assert not [pid for pid in started if running(pid)]


def test_a_remote_host_says_when_it_was_told_nothing():
  done = subprocess.run([sys.executable, "-m", "stretto._remote", "true"], input="", text=True,
                        capture_output=True, timeout=TIMEOUT_S)
  assert done.returncode == 3 and "the launcher has ended" in done.stderr


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
