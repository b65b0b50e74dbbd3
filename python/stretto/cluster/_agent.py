"""What is done where the scheduler and the jobs' folders are: on this host, or on another one that
is reached through ssh. There, the text of this file is what `python3 -c` is given, so it imports
nothing of Stretto; a line of JSON on standard input says what to do, and a line answers.

Commands are lists of words, and never pass through a shell."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile

READ_BYTES = 1 << 20  # of one file at a time
PACKED = "packed.json"  # of a job's folder: what was in the tree at the beginning
WORK = "work"  # the job's own copy of the tree
NOT_FOUND, TIMED_OUT = 127, 124  # as env and timeout exit


def run(words, environment=None, folder=None, text="", timeout=30.0):
  """Code, output and errors of a command; TIMED_OUT after it and all its children were killed."""
  env = None if environment is None else {**os.environ, **environment}
  if folder is not None and not os.path.isdir(folder):
    return [NOT_FOUND, "", f"{folder}: there is no such folder"]
  try:
    child = subprocess.Popen(words, env=env, cwd=folder, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             start_new_session=True)
  except OSError as error:
    if error.errno == errno.ENOENT:
      return [NOT_FOUND, "", f"{words[0]}: not found"]
    return [NOT_FOUND, "", f"{words[0]}: {error.strerror}"]
  try:
    out, err = child.communicate(text.encode(), timeout=timeout)
  except subprocess.TimeoutExpired:
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    return [TIMED_OUT, "", f"no answer within {timeout:g} s"]
  return [child.returncode, out.decode(errors="replace"), err.decode(errors="replace")]


def make(folder, files):
  """A new folder that only its owner may read, with these files."""
  os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
  os.mkdir(folder, 0o700)
  for inner in ("logs", "progress", "records", WORK):
    os.mkdir(os.path.join(folder, inner))
  for name, text in files.items():
    write(folder, name, text)


def write(folder, name, text):
  """Whole or not at all."""
  path = os.path.join(folder, name)
  with open(os.open(path + ".part", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
    file.write(text)
  os.replace(path + ".part", path)


def unpack(folder, stream):
  """The tree from a tar stream, which Stretto has made; nothing of it may lie outside."""
  root = os.path.join(folder, WORK)
  how = {"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}
  names = []
  with tarfile.open(fileobj=stream, mode="r|") as tar:
    for member in tar:
      parts = member.name.split("/")
      if member.name.startswith("/") or ".." in parts:
        raise ValueError(f"{member.name}: this path would lie outside the job's folder")
      tar.extract(member, root, **how)
      names.append(member.name)
  note_tree(folder, names)


def files_in(root):
  """Path to size and time of every file below; links are not followed."""
  found = {}
  for where, _, names in os.walk(root):
    for name in names:
      path = os.path.join(where, name)
      try:
        status = os.lstat(path)
      except OSError:  # it is gone meanwhile
        continue
      found[os.path.relpath(path, root)] = [status.st_size, status.st_mtime_ns]
  return found


def note_tree(folder, names):
  """These files came from outside; the job has not written them."""
  known = json.loads(read_text(folder, PACKED) or "{}")
  now = files_in(os.path.join(folder, WORK))
  for name in map(os.path.normpath, names):
    if name in now:
      known[name] = now[name]
  write(folder, PACKED, json.dumps(known))


def written(folder):
  """The files that the job wrote or changed."""
  before = json.loads(read_text(folder, PACKED) or "{}")
  now = files_in(os.path.join(folder, WORK))
  return sorted(path for path, what in now.items()
                if before.get(path) != what and "__pycache__" not in path.split(os.sep))


def read_text(folder, name):
  """None: there is no such file."""
  try:
    with open(os.path.join(folder, name), errors="replace") as file:
      return file.read()
  except OSError:
    return None


def news(folder, offsets):
  """What was added to the log files since the offsets, and the file that the end of a job leaves:
  {"logs": {name: [text in Latin-1, new offset]}, "exit": text or None}."""
  # The exit file is read first: what was printed before it is then in the logs.
  left = read_text(folder, "exit")
  logs = {}
  place = os.path.join(folder, "logs")
  for name in sorted(os.listdir(place)) if os.path.isdir(place) else []:
    before = offsets.get(name, 0)
    try:
      with open(os.path.join(place, name), "rb") as file:
        file.seek(before)
        data = file.read(READ_BYTES)
    except OSError:
      continue
    if data:
      logs[name] = [data.decode("latin-1"), before + len(data)]
  return {"logs": logs, "exit": left}


def inside(folder, path):
  """A path below the job's tree; ValueError for others, also through links."""
  root = os.path.realpath(os.path.join(folder, WORK))
  whole = os.path.realpath(os.path.join(root, path))
  if whole != root and not whole.startswith(root + os.sep):
    raise ValueError(f"{path}: this lies outside the job's folder")
  return whole


def send(folder, paths, stream):
  """A tar stream with files of the job."""
  root = os.path.join(folder, WORK)
  # All are checked before the stream begins, which an error could not end.
  found = [(inside(folder, path), os.path.relpath(os.path.join(root, path), root))
           for path in paths]
  for whole, name in found:
    if not os.path.exists(whole):
      raise ValueError(f"{name}: the job has no such file")
  with tarfile.open(fileobj=stream, mode="w|") as tar:
    for whole, name in found:
      tar.add(whole, arcname=name)


def folders_below(place):
  """The jobs' folders, the newest first, with their job.json and the number that the job has left
  itself: whoever submitted it may have been killed before it could note the number."""
  found = []
  for name in sorted(os.listdir(place), reverse=True) if os.path.isdir(place) else []:
    text = read_text(os.path.join(place, name), "job.json")
    if text is not None:
      found.append([os.path.join(place, name), text,
                    (read_text(os.path.join(place, name), "id") or "").strip()])
  return found


def remove(folder):
  shutil.rmtree(folder, ignore_errors=True)


CALLS = {"run": run, "make": make, "write": write, "news": news, "written": written,
         "read_text": read_text, "folders_below": folders_below, "remove": remove}


def main():
  asked = json.loads(sys.stdin.buffer.readline())
  place = os.path.expanduser
  arguments = [place(a) if isinstance(a, str) and a.startswith("~/") else a for a in asked["with"]]
  try:
    if asked["do"] == "unpack":
      answer = unpack(arguments[0], sys.stdin.buffer)
    elif asked["do"] == "send":
      send(arguments[0], arguments[1], sys.stdout.buffer)
      return
    else:
      answer = CALLS[asked["do"]](*arguments)
  except (OSError, ValueError, tarfile.TarError) as error:
    print(json.dumps({"error": str(error)}))
    return
  print(json.dumps({"answer": answer}))


if __name__ == "__main__":
  main()
