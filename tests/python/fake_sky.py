"""Stands for SkyPilot's command `sky`, and for `ssh` to the nodes that it makes: "machines" are
folders, jobs are processes of this one. The folder FAKE_SKY has its state; argv.log has the command
lines. FAKE_SKY_FAIL says how a launch fails."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(os.environ["FAKE_SKY"])
POLL_S = 0.02


def cluster_folder(name):
  return ROOT / "clusters" / name


def home(cluster, node):
  return cluster_folder(cluster) / f"node-{node}"


def write(path, text):
  part = path.with_name(f"{path.name}.{os.getpid()}.part")
  part.write_text(text)
  part.rename(path)


def options(words, flags):
  """Values by option, and the other words."""
  found, rest, words = {}, [], list(words)
  while words:
    word = words.pop(0)
    if not word.startswith("-"):
      rest.append(word)
    elif word in flags:
      found[word] = True
    else:
      found.setdefault(word, []).append(words.pop(0))
  return found, rest


def launch(words):
  import yaml
  given, [file] = options(words, {"--yes", "--detach-run", "--dryrun", "--down"})
  task = yaml.safe_load(Path(file).read_text())
  [name] = given["--cluster"]
  values = {secret: os.environ[secret] for secret in given.get("--secret", [])}
  assert all(value is None for value in task.get("secrets", {}).values())
  assert set(values) == set(task.get("secrets", {})), "sky refuses a secret without a value"
  if "--dryrun" in given and cluster_folder(name).exists():
    print(f"Running task on cluster {name}...")
    return 0
  if "--dryrun" in given:
    print("\x1b[1mConsidered resources\x1b[0m")
    print(f" AWS (us-east-1)  p3.16xlarge  {task['resources']}  $ {24.48 * task['num_nodes']:.2f}")
    return 0
  if os.environ.get("FAKE_SKY_FAIL") == "launch":
    print("Traceback ...\nsky.exceptions.ResourcesUnavailableError: no machine is free")
    return 1
  folder = cluster_folder(name)
  (folder / "jobs").mkdir(parents=True, exist_ok=True)
  if os.environ.get("FAKE_SKY_FAIL") == "slow":
    return wait_for_request(words)
  if os.environ.get("FAKE_SKY_FAIL") == "setup":
    print("sky.exceptions.CommandError: the machines are there, and rsync has failed")
    return 1
  write(folder / "autostop", json.dumps([given.get("-i"), "--down" in given]))
  nodes = task["num_nodes"]
  for node in range(nodes):
    shutil.copytree(task["workdir"], home(name, node) / "sky_workdir", dirs_exist_ok=True)
  number = 1 + sum(1 for p in (folder / "jobs").iterdir() if p.name.isdigit())
  job = folder / "jobs" / str(number)
  job.mkdir()
  write(job / "record.json", json.dumps({
    "job_id": number, "job_name": task["name"], "username": "ann", "submitted_at": time.time(),
    "resources": f"{nodes}x[{task['resources']}]"}))
  write(job / "status", "PENDING")
  write(job / "task.json", json.dumps(task))
  # Secrets are in its environment, which it has from here.
  subprocess.Popen([sys.executable, __file__, "supervise", name, str(number)],
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, start_new_session=True)
  print(f"\u2699\ufe0e \x1b[0mJob submitted, ID: {number}\x1b[0m")
  return 0


def wait_for_request(words):
  """The server of SkyPilot makes the machines and submits the job, whatever becomes of the command:
  here, once there is a file "go"."""
  signal.signal(signal.SIGINT, signal.default_int_handler)
  request = subprocess.Popen([sys.executable, __file__, "request", *words], start_new_session=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
  write(ROOT / "request-0123abcd", str(request.pid))
  try:
    print("launching", flush=True)
    return request.wait()
  except KeyboardInterrupt:
    print("\u2699\ufe0e Request will continue running asynchronously.\n"
          "\x1b[2mView logs: \x1b[1msky api logs 0123abcd\x1b[0m\n"
          "\x1b[2mTo cancel the request, run: \x1b[1msky api cancel 0123abcd\x1b[0m\n\x1b[0m")
    return 1


def request(words):
  while not (ROOT / "go").exists():
    time.sleep(POLL_S)
  del os.environ["FAKE_SKY_FAIL"]
  return launch(words)


def api(words):
  verb, number = words
  assert verb == "cancel"
  pid = int((ROOT / f"request-{number}").read_text())
  os.kill(pid, signal.SIGKILL)
  while Path(f"/proc/{pid}").exists() and \
      Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
    time.sleep(POLL_S)
  print(f"Cancelled 1 request: {number}")
  return 0


def supervise(name, number):
  signal.signal(signal.SIGINT, signal.SIG_DFL)
  job = cluster_folder(name) / "jobs" / number
  task = json.loads((job / "task.json").read_text())
  nodes = task["num_nodes"]
  lock = threading.Lock()
  children = []

  def copy(child, prefix, log):
    for line in child.stdout:
      with lock:  # SkyPilot splits at carriage returns
        log.write(b"".join(prefix + part + b"\n" for part in line.rstrip(b"\n").split(b"\r")))
        log.flush()

  def start(text, node, what, log):
    child = subprocess.Popen(
      ["bash", "-c", text], cwd=home(name, node) / "sky_workdir", stdin=subprocess.DEVNULL,
      env={**os.environ, **(task.get("envs") or {}), "HOME": str(home(name, node)),
           "SKYPILOT_NODE_RANK": str(node), "SKYPILOT_NODE_IPS": "\n".join(["127.0.0.1"] * nodes)},
      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    prefix = f"\x1b[36m({what}, rank={node}, pid={child.pid})\x1b[0m ".encode()
    thread = threading.Thread(target=copy, args=(child, prefix, log))
    thread.start()
    children.append(child)
    return child, thread

  def end(number, frame):
    write(job / "status", "CANCELLED")
    for child in children:
      if child.poll() is None:
        os.killpg(child.pid, signal.SIGTERM)
    time.sleep(1.5)
    os._exit(0)

  signal.signal(signal.SIGTERM, end)
  write(job / "pid", str(os.getpid()))
  with open(job / "run.log", "ab") as log:
    log.write("\u251c\u2500\u2500 Waiting for task resources.\n".encode())
    for what in ("setup", "run"):
      if what not in task:
        continue
      write(job / "status", {"setup": "SETTING_UP", "run": "RUNNING"}[what])
      begun = [start(task[what], node, what if what == "setup" else f"worker{node}", log)
               for node in range(nodes)]
      while any(child.poll() is None for child, _ in begun) and \
          not any(child.poll() for child, _ in begun):
        time.sleep(POLL_S)
      failed = any(child.poll() for child, _ in begun)
      for child, thread in begun:
        if failed and child.poll() is None:
          os.killpg(child.pid, signal.SIGTERM)
        child.wait()
        thread.join()
      if failed:
        write(job / "status", "FAILED_SETUP" if what == "setup" else "FAILED")
        return 0
  write(job / "status", "SUCCEEDED")
  return 0


def status(words):
  print("note: this is not JSON\n" + json.dumps([
    {"name": p.name, "status": "STOPPED" if (p / "stopped").exists() else "UP"}
    for p in sorted((ROOT / "clusters").glob("*"))], indent=2))
  return 0


def queue(words):
  _, [name] = options(words, {"-u"})
  name = words[-1]
  folder = cluster_folder(name)
  print(f"Fetching job queue for: {name}")
  if not folder.exists() or (folder / "stopped").exists():
    print(f"Failed to get the job queue for cluster {name!r}.\n{{}}")
    return 0
  print(json.dumps({name: [
    {**json.loads((p / "record.json").read_text()), "status": (p / "status").read_text()}
    for p in sorted((folder / "jobs").iterdir(), key=lambda p: int(p.name))]}, indent=2))
  return 0


def logs(words):
  given, [name, number] = options(words, {"--follow", "--no-follow"})
  assert given["--tail"] == ["0"]
  job = cluster_folder(name) / "jobs" / number
  if not job.exists() or (cluster_folder(name) / "stopped").exists():
    print(f"cluster {name} does not exist", file=sys.stderr)
    return 1
  print(f"Tailing logs of job {number} on cluster {name!r}...", flush=True)
  offset = 0
  while True:
    over = (job / "status").read_text() not in ("PENDING", "SETTING_UP", "RUNNING")
    data = (job / "run.log").read_bytes()[offset:] if (job / "run.log").exists() else b""
    offset += len(data)
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    if "--no-follow" in given or over:
      return 0
    time.sleep(POLL_S)


def cancel(words):
  _, [name, number] = options(words, {"--yes"})
  pid = cluster_folder(name) / "jobs" / number / "pid"
  while not pid.exists():
    time.sleep(POLL_S)
  os.kill(int(pid.read_text()), signal.SIGTERM)
  return 0


def down(words):
  _, [name] = options(words, {"--yes"})
  for pid in cluster_folder(name).glob("jobs/*/pid"):
    try:
      os.kill(int(pid.read_text()), signal.SIGTERM)
    except ProcessLookupError:
      continue
    stop = time.monotonic() + 5
    while Path(f"/proc/{pid.read_text()}").exists() and time.monotonic() < stop:
      time.sleep(POLL_S)
  shutil.rmtree(cluster_folder(name))
  return 0


def autostop(words):
  given, [name] = options(words, {"--yes", "--cancel", "--down"})
  assert ("--cancel" in given) != ("-i" in given)
  write(cluster_folder(name) / "autostop", json.dumps([given.get("-i"), "--down" in given]))
  return 0


def ssh(words):
  while words[0].startswith("-"):
    words = words[2:] if words[0] == "-o" else words[1:]
  name, line = words
  name, _, node = name.partition("-worker")
  if (cluster_folder(name) / "stopped").exists():
    print(f"ssh: Could not resolve hostname {name}", file=sys.stderr)
    return 255
  os.environ["HOME"] = str(home(name, int(node or 0)))
  os.chdir(os.environ["HOME"])
  os.execvp("sh", ["sh", "-c", line])


def main():
  with open(ROOT / "argv.log", "a") as file:
    file.write(json.dumps(sys.argv) + "\n")
  if Path(sys.argv[0]).name == "ssh":
    return ssh(sys.argv[1:])
  verb, *words = sys.argv[1:]
  if verb == "supervise":
    return supervise(*words)
  if verb == "request":
    return request(words)
  return {"launch": launch, "status": status, "queue": queue, "logs": logs, "cancel": cancel,
          "down": down, "autostop": autostop, "api": api}[verb](words)


if __name__ == "__main__":
  sys.exit(main())
