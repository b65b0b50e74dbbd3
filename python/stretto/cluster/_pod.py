"""What a pod of a job runs: unpacks the tree, starts the pod's ranks, prints what they print with
their rank before it, and ends as the job does.

  python _pod.py ROOT run PART  in ROOT/packed are pod.json, the parts of the tree and this program
  python _pod.py ROOT shell     for `stretto cluster ssh`
  python _pod.py ROOT wait S    nothing, for S seconds: a pod that gives access to a volume

Kubernetes is told by the exit code whether the job is over: FAILED, or AGAIN when a pod was lost.
The code of the job stands in the termination message. It is started as a file, and imports nothing
of Stretto but what lies beside it; an image needs Python and no more."""

import glob
import gzip
import json
import os
import pwd
import queue
import re
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import types

if not __package__:
  here = os.path.dirname(os.path.abspath(__file__))
  for name, path in (("stretto", os.path.dirname(here)), ("stretto.cluster", here)):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [path]

from stretto.cluster import _agent, _pod_link  # noqa: E402

FAILED, AGAIN = 1, 75
LATE = 124
GRACE_S, KILL_S = 50.0, 5.0  # after SIGTERM or the loss of a pod; after the failure of a rank
VERDICT_S = 15.0  # for the leader to say why a rank has failed
DRAIN_S = 1.0  # for output of processes that a rank has left behind
PATIENCE_S = 60.0  # until it is said what is waited for; again ever more rarely
LONGEST_LINE = 1 << 16
LARGEST_FILE = 2 << 20
SHARED = re.compile(r"(progress|records)/[A-Za-z0-9][A-Za-z0-9._-]*")
LINK_PORT = 2  # after MASTER_PORT and the one of the engine


def note(text):
  sys.stdout.buffer.write(f"stretto cluster: {text}\n".encode())
  sys.stdout.buffer.flush()


class Reminder:
  """Whether it is time to say what is waited for. Other pods may begin hours later, so waiting ends
  when somebody stops the job, and never by itself: --time counts from the start of the ranks."""

  def __init__(self):
    self.pause = PATIENCE_S
    self.at = time.monotonic() + self.pause

  def due(self):
    if time.monotonic() < self.at:
      return False
    self.pause *= 2
    self.at = time.monotonic() + self.pause
    return True


def await_name(address, asked):
  """Names of pods are known some seconds after these have begun; a rank would give up at once.
  False: this pod is asked to end."""
  reminder = Reminder()
  while not asked["term"]:
    try:
      socket.getaddrinfo(address, None)
      return True
    except OSError as error:
      if reminder.due():
        note(f"waits for the first pod: its name {address} is not known yet ({error}). If that pod "
             "runs, DNS does not work in this cluster")
    time.sleep(0.5)
  return False


class Tree:
  """The parts of the packed tree as one stream."""

  def __init__(self, packed):
    self.parts = sorted(glob.glob(os.path.join(packed, "tree.*")))
    self.file = None

  def read(self, size=-1):
    while self.file or self.parts:
      self.file = self.file or open(self.parts.pop(0), "rb")
      data = self.file.read(size)
      if data:
        return data
      self.file.close()
      self.file = None
    return b""


def prepare(root, words, leader, shared, asked):
  """The job's folder. On a volume all pods share one, which the first pod makes at the start. None:
  this pod is asked to end."""
  folder, done = os.path.join(root, "job"), os.path.join(root, "job", "unpacked")
  if leader or not shared:
    for inner in ("progress", "records", "logs", _agent.WORK):
      try:
        os.makedirs(os.path.join(folder, inner), exist_ok=True)
      except PermissionError as error:
        raise OSError(f"{error}; user {os.getuid()} of this image may not write here" + (
          ". Kubernetes makes a job's folder on a volume for root: the image has to run as root, "
          "or with --run-as UID:GID where the volume's driver gives it to a group (fsGroup)"
          if shared else "")) from None
    # Of the start before. Other pods write there when all have met, see gather().
    for old in [*glob.glob(os.path.join(folder, "progress", "*")),
                *glob.glob(os.path.join(folder, "records", "*")), os.path.join(folder, "hangs")]:
      if os.path.exists(old):
        os.remove(old)
    if not os.path.exists(done):
      with gzip.GzipFile(fileobj=Tree(os.path.join(root, "packed")), mode="rb") as stream:
        _agent.unpack(folder, stream)
      _agent.write(folder, "words.json", json.dumps(words))
      _agent.write(folder, "unpacked", "")
    return folder
  reminder = Reminder()
  while not os.path.exists(done):
    if asked["term"]:
      return None
    if reminder.due():
      note("waits for the first pod, which unpacks the tree on the volume. If that pod runs, not "
           "all nodes see this volume")
    time.sleep(0.2)
  return folder


def nameless():
  """What libraries ask for that a user has to whom the image gives no name (--run-as): without it
  they fail when they look for a cache."""
  try:
    pwd.getpwuid(os.getuid())
    return {}
  except KeyError:
    home, user = os.environ.get("HOME", "/"), os.environ.get("USER") or str(os.getuid())
    return {"USER": user, "LOGNAME": user,
            "HOME": home if os.access(home, os.W_OK) else tempfile.gettempdir()}


class Pod:
  """The ranks of this pod, and what is known of the others."""

  def __init__(self, root, spec, part, index):
    about = spec["parts"][part]
    self.root, self.spec = root, spec
    self.number = sum(p["pods"] for p in spec["parts"][:part]) + index
    self.ranks_here = about["ranks"] // about["pods"]
    self.first = sum(p["ranks"] for p in spec["parts"][:part]) + index * self.ranks_here
    self.python = about["python"]
    self.pods = sum(p["pods"] for p in spec["parts"])
    self.events = queue.Queue()
    self.children, self.printing = {}, threading.Lock()
    self.folder = self.watcher = self.link = None
    self.sent, self.others_over = {}, set()
    self.late_at = None  # when the ranks are told that their time is over: by the first pod

  @property
  def leads(self):
    return self.number == 0

  def environment(self, rank):
    ranks = sum(p["ranks"] for p in self.spec["parts"])
    restarts = os.environ.get("STRETTO_RESTARTS") or "0"
    place = (rank, ranks, rank - self.first, self.ranks_here, self.number, restarts)
    found = {**os.environ, **nameless(), "PYTHONUNBUFFERED": "1", **self.spec["environment"],
             "STRETTO_JOB_FOLDER": self.folder, "MASTER_ADDR": self.spec["address"],
             "MASTER_PORT": str(self.spec["port"]), "STRETTO_TASK": "/".join(map(str, place))}
    if self.spec["cpus"] >= 1:
      found.setdefault("OMP_NUM_THREADS", str(int(self.spec["cpus"])))
    if self.spec["hang_after"]:
      found["STRETTO_PROGRESS"] = os.path.join(self.folder, "progress")
    return found

  def connect(self, asked):
    """False: this pod is asked to end."""
    port = self.spec["port"] + LINK_PORT
    # Pods of the start before may still be ending; they know another number.
    secret = os.environ.get("STRETTO_SECRET", "") + "/" + os.environ.get("STRETTO_RESTARTS", "")
    if self.pods > 1:
      if not await_name(self.spec["address"], asked):
        return False
      self.link = _pod_link.Leader(port, secret, self.events) if self.leads else _pod_link.Peer(
        self.spec["address"], port, self.number, secret, self.events)
    return True

  def start(self):
    os.chdir(os.path.join(self.folder, _agent.WORK, self.spec["inside"]))
    program = os.path.dirname(os.path.abspath(__file__))
    for rank in range(self.first, self.first + self.ranks_here):
      child = subprocess.Popen([self.python, os.path.join(program, "_task.py"), "--inherit-output"],
                               env=self.environment(rank), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True)
      self.children[rank] = child
      reader = threading.Thread(target=self.read, args=(rank, child.stdout.fileno()), daemon=True)
      reader.start()
      threading.Thread(target=self.wait, args=(rank, child, reader), daemon=True).start()
    if self.leads and self.spec["limit_s"]:
      self.late_at = time.monotonic() + self.spec["limit_s"] - self.spec["grace_s"]
    if self.leads and self.spec["hang_after"]:
      # Started in this thread: the watcher looks at its parent.
      self.watcher = subprocess.Popen(
        [self.python, os.path.join(program, "_watch_steps.py"), "--group", str(os.getpid()),
         str(self.spec["hang_after"])], env=self.environment(self.first), stdin=subprocess.DEVNULL)

  def wait(self, rank, child, reader):
    code = child.wait()
    reader.join(DRAIN_S)
    self.events.put(("exit", rank, code if code >= 0 else 128 - code))

  def read(self, rank, pipe):
    rest = b""
    while True:
      data = os.read(pipe, 1 << 16)
      lines = (rest + data).split(b"\n")
      rest = lines.pop()
      if rest and (not data or len(rest) > LONGEST_LINE):
        lines, rest = [*lines, rest], b""
      if lines:
        with self.printing:
          sys.stdout.buffer.write(b"".join(b"[%d] %s\n" % (rank, line) for line in lines))
          sys.stdout.buffer.flush()
      if not data:
        return

  def signal(self, number):
    """To the ranks and all that they have started."""
    for child in self.children.values():
      try:
        if child.returncode is None:
          os.killpg(child.pid, number)
      except ProcessLookupError:
        pass

  def dump(self):
    """SIGUSR2 goes to the processes of the ranks only: others would die of it."""
    for child in self.children.values():
      if child.returncode is None:
        child.send_signal(signal.SIGUSR2)

  def share(self):
    """Counters, records and stacks go to the pod whose watcher reads them."""
    if self.leads or not self.spec["hang_after"] or self.spec["volume"]:
      return
    for inner in ("progress", "records"):
      for path in glob.glob(os.path.join(self.folder, inner, "*")):
        name = os.path.join(inner, os.path.basename(path))
        try:
          status = os.stat(path)
          mark = (status.st_mtime_ns, status.st_size)
          if not SHARED.fullmatch(name) or path.endswith(".part") or self.sent.get(name) == mark \
              or status.st_size > LARGEST_FILE:
            continue
          with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        except OSError:  # it is just being replaced
          continue
        if self.link.send({"do": "file", "name": name, "text": text}):
          self.sent[name] = mark


class Ending:
  """How the job ends here: `code` of this process, and what the message says."""

  def __init__(self, why, rank=None, code=0, pods=()):
    self.why, self.rank, self.code, self.pods = why, rank, code, list(pods)

  def exit_code(self):
    return {"over": 0, "failed": FAILED, "late": FAILED}.get(self.why, AGAIN)

  def message(self):
    return {"why": self.why, "rank": self.rank, "code": self.code, "pods": self.pods}


def judged(pod, rank, code):
  """Why a rank has failed: ranks fail, too, when others are lost."""
  if code == LATE and rank is None:
    return Ending("failed", None, LATE)
  gone = pod.link.absent() if pod.link else []
  return Ending("lost", rank, code, gone) if gone else Ending("failed", rank, code)


def gather(pod, asked):
  """Until all pods are there: without a queue that admits whole jobs they may begin minutes apart,
  and ranks would give up waiting for each other. An Ending if the job ends before."""
  reminder = Reminder()
  while pod.link:
    if asked["term"]:
      pod.link.send({"do": "leaving"})
      return Ending("stopped")
    if pod.leads and len(pod.link.all()) == pod.pods - 1:
      pod.link.send({"do": "start"})
      return None
    if reminder.due():
      missing = set(range(1, pod.pods)) - set(pod.link.all()) if pod.leads else {0}
      note("waits for pods " + ", ".join(map(str, sorted(missing))))
    try:
      what, who, more = pod.events.get(timeout=0.1)
    except queue.Empty:
      continue
    if what == "lost" or more["do"] == "leaving":
      return Ending("lost", pods=[who])
    if more["do"] == "start":
      return None
    if more["do"] == "end":
      return Ending(more["why"], more["rank"], more["code"], more["pods"])
  return None


def follow(pod, asked):
  """Until the job is over for this pod. `asked`: which signals have come."""
  running, waits_since, failure = set(pod.children), None, None
  shared_at = 0.0
  while True:
    if asked["term"]:
      if os.path.exists(os.path.join(pod.folder, "hangs")) and pod.leads:
        return Ending("failed", None, LATE)
      if pod.link:
        pod.link.send({"do": "leaving"})
      return Ending("stopped")
    if pod.late_at is not None and time.monotonic() > pod.late_at:
      return Ending("late", None, LATE)
    if asked["dump"]:
      asked["dump"] = False
      pod.dump()
      if pod.leads and pod.link:
        pod.link.send({"do": "dump"})
    try:
      what, who, more = pod.events.get(timeout=0.1)
    except queue.Empty:
      what = ""
    if time.monotonic() - shared_at > 0.5:
      shared_at = time.monotonic()
      pod.share()
    if what == "exit":
      running.discard(who)
      if more and failure is None:
        failure, waits_since = (who, more), time.monotonic()
        if pod.leads:
          return judged(pod, who, more)
        if not pod.link.send({"do": "failed", "rank": who, "code": more}):
          return Ending("failed", who, more)
    elif what == "lost":
      # Either the leader, or one of the others; whoever is over has said so.
      return Ending("lost", pods=[who])
    elif what == "said" and pod.leads:
      ending = heard(pod, who, more)
      if ending:
        return ending
    elif what == "said" and more["do"] == "end":
      return Ending(more["why"], more["rank"], more["code"], more["pods"])
    elif what == "said" and more["do"] == "leaving":
      return Ending("lost", pods=[who])  # its ranks save their state, and may need these for it
    elif what == "said" and more["do"] == "dump":
      open(os.path.join(pod.folder, "progress", "asked"), "w").close()
      pod.dump()
    if failure and time.monotonic() - waits_since > VERDICT_S:
      return Ending("lost" if pod.link.welcome else "failed", failure[0], failure[1], [0])
    if not running and not failure:
      if not pod.link:
        return Ending("over")
      if not pod.leads:
        pod.link.leave()
        return Ending("over")
      pod.link.shut()
      if not set(pod.link.all()) - pod.link.over:  # they need the pod where they meet until then
        return Ending("over")


def heard(pod, who, message):
  if message["do"] == "failed":
    return judged(pod, message["rank"], message["code"])
  if message["do"] == "leaving":
    return Ending("lost", pods=[who])
  if message["do"] == "file" and SHARED.fullmatch(message["name"]):
    _agent.write(pod.folder, message["name"], message["text"])
  return None


def finish(pod, ending):
  """Ends the ranks. After SIGTERM they have time to save their state."""
  if pod.leads and pod.link and ending.why in ("lost", "failed", "late"):
    pod.link.send({"do": "end", **ending.message()})
  if pod.leads and ending.why == "late":
    note("the time limit is reached; the ranks get SIGTERM" if pod.spec["grace_s"] == 0 else
         "the time limit is near; the ranks get SIGTERM")
  pod.signal(signal.SIGTERM)
  # All pods may get SIGTERM at once, and then hear of each other before they see their own.
  stop = time.monotonic() + (KILL_S if ending.why == "failed" else GRACE_S)
  while any(child.returncode is None for child in pod.children.values()):
    if time.monotonic() > stop:
      pod.signal(signal.SIGKILL)
      stop += KILL_S
    time.sleep(0.02)
  time.sleep(0.1)  # the threads that read their output are at its end
  pod.signal(signal.SIGKILL)
  if pod.watcher:
    pod.watcher.kill()
  if ending.why == "lost":
    note(f"pod {', '.join(map(str, ending.pods))} of the job was lost, or asked to end")


def run(root, part):
  with open(os.path.join(root, "packed", "pod.json"), encoding="utf-8",
            errors="surrogateescape") as file:
    spec = json.load(file)
  asked = {"term": False, "dump": False}
  signal.signal(signal.SIGTERM, lambda *_: asked.update(term=True))
  signal.signal(signal.SIGUSR2, lambda *_: asked.update(dump=True))
  pod = Pod(root, spec, part, int(os.environ.get("JOB_COMPLETION_INDEX", "0")))
  pod.folder = prepare(root, spec["words"], pod.leads, spec["volume"], asked)
  there = pod.folder is not None and pod.connect(asked)
  ending = gather(pod, asked) if there else Ending("stopped")
  if ending is None:
    pod.start()
    ending = follow(pod, asked)
  finish(pod, ending)
  sys.stdout.buffer.flush()
  with open(os.path.join(root, "message"), "w") as file:
    json.dump(ending.message(), file)
  return ending.exit_code()


def shell(root):
  with open(os.path.join(root, "packed", "pod.json"), encoding="utf-8") as file:
    inside = json.load(file)["inside"]
  os.chdir(os.path.join(root, "job", _agent.WORK, inside))
  for program in ("/bin/bash", "/bin/sh"):
    if os.path.exists(program):
      os.execv(program, [program, "-i"])


def main():
  root, do = sys.argv[1], sys.argv[2:]
  if do[:1] == ["shell"]:
    return shell(root)
  if do[:1] == ["wait"]:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    time.sleep(float(do[1]))
    return 0
  try:
    code = run(root, int(do[1]))
  except (OSError, EOFError, ValueError, KeyError, tarfile.TarError) as error:
    note(error)
    code = FAILED
  sys.stdout.buffer.flush()
  os._exit(code)  # whatever a rank has left behind, and threads that wait for it, do not hold it up


if __name__ == "__main__":
  sys.exit(main())
