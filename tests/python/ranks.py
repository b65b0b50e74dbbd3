"""Jobs for tests: a script of `check_*` functions runs as every rank of a job, one check after the
other, and leaves FOLDER/RANK.json: for every check "" or what went wrong. A rank whose check fails
ends at once, because its next operation would meet another one of the other ranks; they raise
CommError in turn. So the first check in the list that failed is the one to read.

  python SCRIPT FOLDER RANK SIZE [CHECKS...]

No port of this machine has to be free: ranks meet in FOLDER.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

# A guard against hanging for ever, not a statement about speed.
TIMEOUT_S = 240
FORKED_S = 60  # the same for a forked child
FAILED = 3  # the exit code of a rank whose check failed


def names(script: Path) -> list[str]:
  return re.findall(r"^def (check_\w+)", script.read_text(), flags=re.M)


def run(script: Path, size: int, folder: Path, **environment: str) -> list[dict]:
  """Per rank: check -> "" or a traceback; "log" and "code"."""
  logs = [(folder / f"{rank}.log").open("w+") for rank in range(size)]
  ranks = [subprocess.Popen([sys.executable, str(script), str(folder), str(rank), str(size)],
                            stdout=logs[rank], stderr=subprocess.STDOUT,
                            env=os.environ | environment) for rank in range(size)]
  end = time.monotonic() + TIMEOUT_S
  try:
    for rank in ranks:
      rank.wait(max(0.0, end - time.monotonic()))
  except subprocess.TimeoutExpired:
    pass  # the code of a killed rank and its missing checks say it
  finally:
    for rank in ranks:
      rank.kill()
      rank.wait()
  results = []
  for rank, log in enumerate(logs):
    file = folder / f"{rank}.json"
    log.seek(0)
    text = log.read()[-3000:]
    assert file.exists(), f"rank {rank} did not start:\n{text}"
    results.append(json.loads(file.read_text()) | {"log": text, "code": ranks[rank].returncode})
  return results


def run_checks(checks: dict, folder: Path, rank: int, size: int, only: list[str]) -> None:
  """As one rank."""
  outcome = {}
  for name, check in sorted(checks.items()):
    if name.startswith("check_") and (not only or name in only):
      try:
        check(rank, size)
        outcome[name] = ""
      except Exception:
        outcome[name] = traceback.format_exc()
      (folder / f"{rank}.json").write_text(json.dumps(outcome))
      if outcome[name]:
        print(outcome[name], flush=True)
        os._exit(FAILED)


def in_child(call) -> str:
  """Forks. What `call` did there: "returned", its error, or how the child ended."""
  reads, writes = os.pipe()
  child = os.fork()
  if child == 0:
    signal.alarm(FORKED_S)
    try:
      call()
      answer = "returned"
    except BaseException as error:
      answer = f"{type(error).__name__}: {error}"
    os.write(writes, answer.encode()[:4000])
    os._exit(0)
  os.close(writes)
  with os.fdopen(reads) as pipe:
    answer = pipe.read()
  _, status = os.waitpid(child, 0)
  return answer if status == 0 else f"{answer} status {status}"


def named_main(checks: dict, module) -> None:
  """Of a script whose `module` has init() and shutdown()."""
  folder, rank, size = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
  os.environ |= {"STRETTO_RANK": str(rank), "STRETTO_SIZE": str(size),
                 "STRETTO_ADDRESS": f"{folder}/meet"}
  module.init()
  run_checks(checks, folder, rank, size, sys.argv[4:])
  module.shutdown()
