"""`stretto cluster run --backend cloud` with a stand-in for SkyPilot's command (fake_sky.py), whose
machines are folders of this one. No cloud is reached."""

import json
import os
import pty
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
import yaml
from cluster_cloud import HOSTILE, clouds, processes
from cluster_slurm import PATIENCE_S, wait_until


@pytest.fixture
def cloud(tmp_path):
  with clouds(tmp_path) as made:
    yield made


def test_two_ranks_on_two_nodes(cloud):
  cloud.script("job.py", "import os, sys\n"
               "v = {k: os.environ.get(k) for k in ('RANK', 'WORLD_SIZE', 'LOCAL_RANK',\n"
               "  'LOCAL_WORLD_SIZE', 'GROUP_RANK', 'MASTER_ADDR', 'STRETTO_RANK',\n"
               "  'STRETTO_SIZE')}\n"
               "print(*v.values(), os.environ['STRETTO_ADDRESS'].split(':')[0], sys.argv[1:], "
               "os.environ['A'], os.path.basename(os.getcwd()), flush=True)\n"
               "open(f\"out-{v['RANK']}\", 'w').write('made')\n")
  done = cloud.job("--chips", "v100:16", "-n", 2, "--env", "A=a b", "job.py", "x y")
  assert sorted(done.stdout.splitlines()) == [
    f"[{r}] {r} 2 0 1 {r} 127.0.0.1 {r} 2 127.0.0.1 ['x y'] a b work" for r in (0, 1)]
  assert "$ 48.96" in done.stderr and "job stretto-1 (job): 2 ranks" in done.stderr
  task = yaml.safe_load((cloud.folder() / "task.yaml").read_text())
  assert task["num_nodes"] == 2 and task["resources"] == {"accelerators": "v100:8"}
  # Afterwards, from files of the job's folder alone.
  before = len(cloud.argv())
  assert sorted(cloud.run("logs", "job").stdout.splitlines()) == sorted(done.stdout.splitlines())
  assert cloud.run("logs", "stretto-1", "--rank", 1).stdout.startswith("1 2 0 1 1 127")
  assert len(cloud.argv()) == before
  assert not (cloud.folder() / "send").exists()


def test_ranks_of_one_node_meet(cloud):
  """They find each other at the address that the variables name."""
  cloud.script("meet.py", "import os, socket, time\n"
               "place = (os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']))\n"
               "if os.environ['RANK'] == '0':\n"
               "  with socket.create_server(place) as server:\n"
               "    print('met', server.accept()[0].recv(9).decode())\n"
               "else:\n"
               "  while True:\n"
               "    try: s = socket.create_connection(place); break\n"
               "    except OSError: time.sleep(.05)\n"
               "  s.sendall(os.environ['RANK'].encode())\n")
  assert cloud.job("-n", 2, "meet.py").stdout == "[0] met 1\n"


def test_the_exit_code_and_all_lines_of_a_job_that_fails(cloud):
  cloud.script("job.py", "import os, sys, time\n"
               "print('\\n'.join(map(str, range(2000))))\n"
               "sys.stdout.write('no end of line')\n"
               "sys.stdout.flush()\n"
               "time.sleep(600 if os.environ['RANK'] == '0' else 0.5)\n"
               "sys.exit(7)")
  done = cloud.job("--nodes", 2, "-n", 2, "job.py", code=7)
  for rank in (0, 1):
    lines = [line for line in done.stdout.splitlines() if line.startswith(f"[{rank}] ")]
    assert lines == [f"[{rank}] {i}" for i in range(2000)] + [f"[{rank}] no end of line"]
  assert "over (7)" in cloud.stretto("ls", "--over").stdout
  assert cloud.run("logs", "job", "-f", code=7).stdout.count("no end of line") == 2


def test_progress_bars_stay_with_their_rank(cloud):
  cloud.script("job.py", "import sys\n"
               "for text in ('1 %', '\\r2 %', '\\r3 %', '\\r\\n', 'end\\r\\n', 'last\\r'):\n"
               "  sys.stdout.write(text); sys.stdout.flush()")
  assert cloud.job("job.py").stdout == "[0] 1 %\n[0] 2 %\n[0] 3 %\n[0] end\n[0] last\n"


def test_lines_that_look_like_ours_are_the_ranks_own(cloud):
  cloud.script("job.py", "print('[node 0] exit 9\\n[rank 1] x\\n(a, pid=3) [node 0] exit 8')")
  assert cloud.job("job.py").stdout == (
    "[0] [node 0] exit 9\n[0] [rank 1] x\n[0] (a, pid=3) [node 0] exit 8\n")


def test_what_git_ignores_stays_here_and_what_it_tracks_goes(cloud):
  cloud.script(".gitignore", "*.bin\n")
  cloud.script("kept.bin", "tracked")
  cloud.script("left.bin", "ignored")
  cloud.script("job.py", "import os; print(sorted(os.listdir()))")
  git = ["git", "-C", str(cloud.work), "-c", "user.name=a", "-c", "user.email=a@b"]
  subprocess.run([*git, "init", "-q"], check=True)
  subprocess.run([*git, "add", "-f", "kept.bin"], check=True)
  assert cloud.job("job.py").stdout == "[0] ['.gitignore', 'job.py', 'kept.bin']\n"


def test_secrets_are_in_no_command_line_and_in_no_file(cloud):
  cloud.script("job.py", "from os import environ as e; print(len(e['KEY']), "
               "len(e['STRETTO_SECRET']))")
  done = cloud.job("--secret", "KEY", "-v", "job.py", KEY="tell-nobody")
  assert done.stdout == "[0] 11 64\n" and "tell-nobody" not in done.stderr
  assert any("KEY" in words for words in cloud.launches())
  kept = [p for place in (cloud.state, cloud.sky) for p in place.rglob("*") if p.is_file()]
  assert len(kept) > 5
  assert all(b"tell-nobody" not in p.read_bytes() for p in kept)
  shown = cloud.stretto("run", "--dry-run", "--secret", "KEY", "job.py", KEY="tell-nobody")
  assert "tell-nobody" not in shown.stdout + shown.stderr and "KEY: null" in shown.stdout


def test_hostile_words_stay_words(cloud):
  script = cloud.script("a; touch pwned $(touch pwned).py", "import os, sys, json\n"
                        "print(json.dumps([sys.argv[1:], os.environ['A']]))")
  done = cloud.job("--name", "$(touch pwned)", "--env", f"A={HOSTILE}", script.name, HOSTILE, ":")
  assert json.loads(done.stdout[4:]) == [[HOSTILE, ":"], HOSTILE]
  assert not list(cloud.work.parent.rglob("pwned"))
  assert "$(touch pwned)" in cloud.stretto("ls", "--over").stdout


def test_ctrl_c_cancels_the_job(cloud):
  cloud.script("slow.py", "import time; print('began', flush=True); time.sleep(600)")
  child = cloud.start("run", "--backend", "cloud", "--yes", "slow.py",
                      preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
  assert child.stdout.readline() == "[0] began\n"
  child.send_signal(signal.SIGINT)
  out, err = child.communicate(timeout=PATIENCE_S)
  assert child.returncode == 130, err
  assert "cancelling job stretto-1" in err
  assert any(words[1:] == ["cancel", "--yes", "stretto", "1"] for words in cloud.argv())
  wait_until(lambda: not [p for p in processes(cloud) if b"slow.py" in p[1] or b"_task" in p[1]])


def test_a_job_outlives_the_command_and_its_lines_come_once(cloud):
  cloud.script("slow.py", "import time\n"
               "for i in range(10**6): print(i, flush=True); time.sleep(0.05)")
  child = cloud.start("run", "--backend", "cloud", "--yes", "slow.py")
  assert child.stdout.readline() == "[0] 0\n"
  child.kill()
  child.communicate()
  wait_until(lambda: not [p for p in processes(cloud) if b"--follow" in p[1]])
  assert "running" in cloud.stretto("ls").stdout
  first = cloud.run("logs", "slow").stdout.splitlines()
  assert first[:3] == ["[0] 0", "[0] 1", "[0] 2"]
  follower = cloud.start("logs", "stretto-1", "-f")
  wait_until(lambda: len(follower.stdout.readline()) and True)
  cloud.run("stop", "slow")
  # communicate() would lose what readline() has taken ahead.
  rest = follower.stdout.read().splitlines()
  assert follower.wait(timeout=PATIENCE_S) == 143
  lines = (cloud.folder() / "logs/rank-00000.log").read_text().splitlines()
  assert lines == [str(i) for i in range(len(lines))]
  assert rest == [f"[0] {i}" for i in range(1, 1 + len(rest))]


def test_a_command_that_was_killed_early_finds_its_job(cloud):
  cloud.script("slow.py", "import time; time.sleep(600)")
  cloud.job("--detach", "slow.py")
  about = cloud.folder() / "job.json"
  about.write_text(json.dumps({**json.loads(about.read_text()), "id": ""}))
  (cloud.folder() / "id").unlink()
  cloud.run("stop", "stretto-1")
  assert "stretto-1" == json.loads((cloud.folder() / "job.json").read_text())["id"] or \
      (cloud.folder() / "id").read_text() == "stretto-1\n"


def test_a_cluster_is_used_again_and_told_what_to_do_at_the_end(cloud):
  cloud.script("job.py", "print('ran')")
  told = cloud.sky / "clusters/stretto/autostop"
  cloud.job("job.py")
  assert json.loads(told.read_text()) == [["5"], False]
  cloud.job("--at-end", "down", "job.py")
  assert json.loads(told.read_text()) == [["5"], True]
  assert cloud.job("--at-end", "keep", "--detach", "job.py").stdout == "stretto-3\n"
  assert json.loads(told.read_text()) == [None, False]
  cloud.job("--cluster", "other", "job.py")
  assert sorted(p.name for p in (cloud.sky / "clusters").iterdir()) == ["other", "stretto"]


def test_a_new_cluster_of_the_name_has_other_jobs(cloud):
  """Both count from 1: the job that is named must be the one that is stopped."""
  cloud.script("slow.py", "import time; time.sleep(600)")
  cloud.job("--detach", "--name", "old", "slow.py")
  cloud.stretto("down", "--yes", "--keep-jobs")
  cloud.job("--detach", "--name", "new", "slow.py")
  assert cloud.run("logs", "old", "-f", code=1).stderr.count("ended")
  cloud.run("stop", "old")
  listed = json.loads(cloud.stretto("ls", "--json").stdout)["jobs"]
  assert [(row["id"], row["name"]) for row in listed] == [("stretto-1", "new")]
  assert not any("cancel" in words for words in cloud.argv())


def test_a_cluster_that_has_stopped_ends_its_jobs(cloud):
  cloud.script("job.py", "import sys; print('ran'); sys.exit(4)")
  cloud.job("job.py", code=4)
  (cloud.sky / "clusters/stretto/stopped").write_text("")
  assert cloud.run("logs", "job", "-f", code=4).stdout == "[0] ran\n"
  assert cloud.stretto("ls").stdout.count("\n") == 1


def test_files_go_to_the_first_node_and_come_back(cloud):
  cloud.script("job.py", "import os, time\nopen('out', 'w').write('made')\nprint('ready')\n"
               "while not os.path.exists('go'): time.sleep(.05)")
  cloud.job("--detach", "job.py")
  wait_until(lambda: "ready" in cloud.run("logs", "job").stdout)
  assert cloud.run("download", "job", "--list").stdout == "out\n"
  cloud.run("download", "job", "-o", "results")
  assert (cloud.work / "results/out").read_text() == "made"
  cloud.script("go", "")
  cloud.run("upload", "job", "go")
  assert cloud.run("logs", "job", "-f").stdout == "[0] ready\n"


def test_a_shell_opens_where_the_rank_runs(cloud):
  cloud.script("slow.py", "import time; time.sleep(600)")
  cloud.job("--detach", "--nodes", 2, "-n", 4, "slow.py")
  wait_until(lambda: "running" in cloud.stretto("ls").stdout)
  for rank, node in ((0, 0), (3, 1)):
    shell = subprocess.run(cloud.words("ssh", "slow", rank), input="pwd\n", text=True,
                           capture_output=True, env=cloud.environment, cwd=cloud.work,
                           timeout=PATIENCE_S)
    assert f"/node-{node}/sky_workdir/" in shell.stdout, shell.stderr


def test_setup_prepares_a_node_in_the_tree(cloud):
  cloud.script("names.txt", "a\n")
  cloud.script("job.py", "print(open('prepared').read())")
  cloud.job("--setup", "cat names.txt >prepared\necho 'set up'", "job.py")
  assert "[job] set up\n" in cloud.run("logs", "job").stdout
  assert "[0] a\n" in cloud.run("logs", "job").stdout
  done = cloud.job("--setup", "echo no; exit 5", "job.py", code=1)
  assert "[job] no" in done.stdout and "the commands of --setup failed" in done.stderr


def test_a_time_limit(cloud):
  cloud.script("slow.py", "import time; time.sleep(600)")
  assert "the time limit is reached" in cloud.job("--time", "3s", "slow.py", code=124).stdout


def answered(cloud, answer, *words):
  """What a command asks at a terminal, its exit code and its output."""
  ours, theirs = pty.openpty()
  child = subprocess.Popen(cloud.words(*words), cwd=cloud.work, env=cloud.environment,
                           stdin=theirs, stdout=subprocess.PIPE, stderr=theirs)
  os.close(theirs)
  seen = b""
  while b"[y/N]" not in seen:
    seen += os.read(ours, 4096)
  os.write(ours, answer)
  out = child.stdout.read()
  code = child.wait(PATIENCE_S)
  child.stdout.close()
  os.close(ours)
  return " ".join(seen.decode().split()), code, out


def test_nothing_is_paid_without_an_answer(cloud):
  cloud.script("job.py", "print('ran')")
  refused = cloud.stretto("run", "job.py", code=2).stderr
  assert "no terminal; --yes agrees to the price" in refused
  for answer, code in ((b"n\n", 3), (b"\n", 3), (b"y\n", 0)):
    assert cloud.launches() == [] if (cloud.sky / "argv.log").exists() else True
    seen, ended, out = answered(cloud, answer, "run", "--backend", "cloud", "job.py")
    assert "$ 24.48" in seen and "for this price, or a higher one if need be? [y/N]" in seen
    assert "If these machines are sold out, SkyPilot takes others, which may be dearer" in seen
    assert ended == code and (out == b"[0] ran\n") is (code == 0)
  assert len(cloud.launches()) == 1
  assert len(list((cloud.state / "jobs").iterdir())) == 1, "a refused job leaves no folder"


def test_who_uses_a_cluster_again_is_told_that_no_price_is_known(cloud):
  cloud.script("job.py", "print('ran')")
  cloud.job("job.py")
  seen, code, out = answered(cloud, b"n\n", "run", "--quiet", "--backend", "cloud", "job.py")
  assert code == 3 and "SkyPilot names no price" in seen
  assert "Run on cluster stretto, whatever it costs? [y/N]" in seen


def test_a_launch_that_fails_leaves_nothing_here(cloud):
  cloud.script("job.py", "")
  failed = cloud.job("job.py", code=3, FAKE_SKY_FAIL="launch").stderr
  assert "sky launch: sky.exceptions.ResourcesUnavailableError: no machine is free" in failed
  assert "there is no cluster stretto, so nothing costs money" in failed
  assert not list((cloud.state / "jobs").iterdir())


def test_a_launch_that_fails_on_a_used_cluster_leaves_nothing_here(cloud):
  """Other jobs in its queue are no sign that this one was submitted."""
  cloud.script("job.py", "")
  cloud.job("job.py")
  failed = cloud.job("job.py", code=3, FAKE_SKY_FAIL="launch").stderr
  assert "it is not known" not in failed
  assert len(list((cloud.state / "jobs").iterdir())) == 1


@pytest.mark.parametrize("how, told", [([], [["5"], False]), (["--at-end", "down"], [["5"], True])])
def test_machines_of_a_launch_that_fails_are_told_to_end(cloud, how, told):
  cloud.script("job.py", "")
  failed = cloud.job(*how, "--quiet", "job.py", code=3, FAKE_SKY_FAIL="setup").stderr
  assert "cluster stretto is up, and told to end when it is idle for 5 minutes" in failed
  assert json.loads((cloud.sky / "clusters/stretto/autostop").read_text()) == told


def test_a_launch_that_fails_tells_a_cluster_that_was_there_nothing_new(cloud):
  cloud.script("job.py", "")
  cloud.job("--at-end", "keep", "job.py")
  failed = cloud.job("--at-end", "down", "job.py", code=3, FAKE_SKY_FAIL="setup").stderr
  assert "cluster stretto was there before, and ends as it was told before" in failed
  assert json.loads((cloud.sky / "clusters/stretto/autostop").read_text()) == [None, False]


def test_machines_of_a_launch_that_fails_and_keeps_them_are_named(cloud):
  cloud.script("job.py", "")
  failed = cloud.job("--at-end", "keep", "job.py", code=3, FAKE_SKY_FAIL="setup").stderr
  assert ("cluster stretto is up, and does not stop by itself: it costs money until `stretto "
          "cluster down --backend cloud --cluster stretto` ends it") in failed


def test_ctrl_c_while_machines_start_cancels_the_launch(cloud):
  """SkyPilot's server goes on without the command that asked it."""
  cloud.script("job.py", "")
  child = subprocess.Popen(
    cloud.words("run", "--backend", "cloud", "--yes", "job.py"), cwd=cloud.work,
    env=cloud.environment | {"FAKE_SKY_FAIL": "slow"}, stdin=subprocess.DEVNULL,
    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
  for line in child.stderr:
    if "launching" in line:
      break
  child.send_signal(signal.SIGINT)
  err = child.communicate(timeout=PATIENCE_S)[1]
  (cloud.sky / "go").write_text("")  # a request that is still there submits the job now
  assert child.returncode == 130
  assert "the launch is cancelled" in err and "it is not known" not in err
  assert any(words[1:] == ["api", "cancel", "0123abcd"] for words in cloud.argv())
  assert "told to end when it is idle for 5 minutes" in err
  assert "`stretto cluster down --backend cloud --cluster stretto` ends it" in err
  assert not [pair for pair in processes(cloud) if b"request" in pair[1]]
  assert not list((cloud.sky / "clusters/stretto/jobs").iterdir())
  assert not list((cloud.state / "jobs").iterdir())


def test_without_skypilot_the_error_names_the_package(cloud):
  cloud.script("job.py", "")
  (Path(cloud.environment["PATH"]) / "sky").unlink()
  missing = cloud.job("job.py", code=3).stderr
  assert "pip install 'stretto[cluster]' 'skypilot[aws]'" in missing
  assert "not known" not in missing and not list((cloud.state / "jobs").iterdir())
  assert "sky: not found" in cloud.stretto("ls", code=3).stderr


@pytest.mark.parametrize("words, error", [
  (["--chips", "a:1", "--chips", "b:1"], "stretto cluster compile SITE -o DIR --terraform aws"),
  (["--queue", "x"], "--queue: not with --backend cloud"),
  (["--hang-after", "9"], "--hang-after: not with --backend cloud"),
  (["-n", "3", "--nodes", "2"], "-n 3: does not divide into 2 nodes"),
  (["--cluster", "-x"], "--cluster: expected"),
  (["--cluster", "a b"], "--cluster: expected up to 40 letters"),
  (["--cluster", "a" * 41], "--cluster: expected up to 40 letters"),
  (["--infra=--down"], "--infra: expected a cloud"),
  (["--infra", "aws us"], "--infra: expected a cloud"),
  (["--at-end", "sell"], "--at-end: expected stop, down, keep"),
  (["--host", "a@b"], "--host: not with --backend cloud"),
])
def test_wrong_options_are_named(cloud, words, error):
  cloud.script("job.py", "")
  assert error in cloud.job(*words, "job.py", code=2).stderr
  assert not (cloud.sky / "argv.log").exists() and not (cloud.state / "jobs").exists()


@pytest.mark.parametrize("option", [["--yes"], ["--infra", "aws"], ["--setup", "x"],
                                    ["--at-end", "stop"]])
def test_options_of_clouds_are_refused_elsewhere(cloud, option):
  cloud.script("job.py", "")
  refused = cloud.run("run", "--backend", "local", *option, "job.py", code=2).stderr
  assert f"{option[0]}: only with --backend cloud" in refused


def test_down_ends_the_cluster_and_the_folders_of_its_jobs(cloud):
  cloud.script("job.py", "")
  cloud.job("job.py")
  cloud.job("--cluster", "other", "job.py")
  assert "cluster stretto is gone, with its disks" in cloud.stretto("down", "--yes").stderr
  assert [p.name for p in (cloud.sky / "clusters").iterdir()] == ["other"]
  assert len(list((cloud.state / "jobs").iterdir())) == 1
  assert "SkyPilot knows no cluster stretto" in cloud.stretto("down", "--yes").stderr


def test_down_means_the_cluster_that_was_named(cloud):
  """Clusters of this machine are called local by default."""
  cloud.script("job.py", "")
  cloud.job("job.py")
  for name in ("local", "Stretto", "stretto-1"):
    refused = cloud.stretto("down", "--yes", "--cluster", name).stderr
    assert f"SkyPilot knows no cluster {name}" in refused
  assert not any("down" in words for words in cloud.argv())
  cloud.job("--cluster", "local", "job.py")
  cloud.stretto("down", "--yes", "--cluster", "local")
  assert [p.name for p in (cloud.sky / "clusters").iterdir()] == ["stretto"]
  assert "--yes: only with --backend cloud" in cloud.run("down", "--yes", code=2).stderr


def test_down_asks_before_disks_are_lost(cloud):
  cloud.script("slow.py", "import time; time.sleep(600)")
  cloud.job("--detach", "slow.py")
  wait_until(lambda: "running" in cloud.stretto("ls").stdout)
  assert "nobody can be asked" in cloud.stretto("down", code=2).stderr
  words = ("down", "--backend", "cloud")
  seen, code, _ = answered(cloud, b"\n", *words)
  assert code == 3 and "job stretto-1 of ann is running" in seen and "is it yours" not in seen
  assert "End cluster stretto, and lose its disks? [y/N]" in seen
  assert not any("down" in line for line in cloud.argv())
  shutil.rmtree(cloud.state / "jobs")  # as on another machine, or of another user
  assert "no job that is known here was started on cluster stretto: is it yours?" in answered(
    cloud, b"n\n", *words)[0]
  assert answered(cloud, b"y\n", *words)[1] == 0
  assert list((cloud.sky / "clusters").iterdir()) == []


def test_a_script_outside_of_the_tree_is_refused(cloud, tmp_path):
  (tmp_path / "other.py").write_text("")
  refused = cloud.job("../other.py", code=2).stderr
  assert "so the cloud does not get it" in refused
  assert not (cloud.sky / "argv.log").exists()


def test_a_stopped_cluster_is_named_as_the_reason(cloud):
  cloud.script("job.py", "")
  cloud.job("--detach", "job.py")
  wait_until(lambda: not cloud.stretto("ls", "--json").stdout.count("stretto-1"))
  (cloud.sky / "clusters/stretto/stopped").write_text("")
  told = cloud.run("logs", "job", "-f", code=1).stderr
  assert "cluster stretto is stopped, and how the job ended is not known here; `sky start " \
    "stretto`" in told and "LOST" not in told
  assert "cluster stretto is stopped: `sky start stretto`, then again" in cloud.run(
    "download", "job", code=3).stderr
  (cloud.sky / "clusters/stretto/stopped").unlink()
  assert cloud.run("logs", "job", "-f").returncode == 0


def test_the_task_file_that_dry_run_shows(cloud):
  cloud.script("job.py", "")
  shown = cloud.stretto("run", "--dry-run", "--chips", "v100:16", "--infra", "aws/us-east-1",
                        "--env", "LR=0.1", "--setup", "pip install -r requirements.txt",
                        "job.py").stdout
  text = shown.split("# task.yaml\n")[1].split("\n# spec.json")[0]
  tag = yaml.safe_load(text)["name"].removeprefix("stretto-")
  assert text == f"""name: stretto-{tag}
workdir: send
num_nodes: 2
resources:
  infra: aws/us-east-1
  accelerators: "v100:8"
envs:
  LR: "0.1"
secrets:
  STRETTO_SECRET: null
setup: |
  python3 {tag}/stretto/cluster/_cloud_node.py --unpack && cd {tag}/work || exit 1
  pip install -r requirements.txt
run: |
  python3 {tag}/stretto/cluster/_cloud_node.py
"""
  assert "sky launch --yes --detach-run --cluster stretto -i 5 --secret STRETTO_SECRET task.yaml" \
    in shown
  assert not (cloud.sky / "argv.log").exists()
