"""A loopback cluster starts a job as soon as it is submitted.

slurmctld starts batch jobs in a loop that wakes once a second, but it also looks at the queue
whenever a job has ended. So an allocation of the same nodes and chips, which must be granted at
once or not at all, is held until sbatch has answered, and is then given back."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
from collections.abc import Iterator

from stretto.cluster._loopback import MARK, Loopback

GRANT_S = 1.0  # a busy cluster refuses within milliseconds
END_S = 2.0
BYTE = b"\n"


@contextlib.contextmanager
def until_submitted(cluster: Loopback, options: list[str]) -> Iterator[None]:
  """While the context lasts, holds what a job with these options of sbatch would get, if that is
  free now. Without it the job starts within a second, so no failure here is an error. If this
  process is killed, salloc's child reads the end of its input, and the allocation ends."""
  environment = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "SALLOC_"))}
  environment |= {**cluster.environment(), MARK: str(cluster.folder)}
  words = ["salloc", "--quiet", "--immediate", "--job-name=wake", "--time=1", *options, "cat"]
  try:
    # In a session of its own: salloc would take the terminal, and Ctrl-C is not meant for it.
    child = subprocess.Popen(words, env=environment, cwd="/", stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                             start_new_session=True)
  except OSError:
    yield
    return
  assert child.stdin and child.stdout
  try:
    with contextlib.suppress(BrokenPipeError):
      child.stdin.write(BYTE)
      child.stdin.flush()
    select.select([child.stdout], [], [], GRANT_S)  # cat repeats the byte, or salloc has ended
    yield
  finally:
    with contextlib.suppress(BrokenPipeError):
      child.stdin.close()
    child.stdout.close()
    try:
      child.wait(END_S)
    except subprocess.TimeoutExpired:
      child.kill()
      child.wait()
