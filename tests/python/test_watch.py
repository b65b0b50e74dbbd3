"""What an engine tells while it runs: counters for Prometheus, and the log."""

import json
import os
import re
import subprocess
import sys

import pytest
from conftest import free_port

import stretto
from stretto import _metrics as metrics

pytest.importorskip("numpy")

# Guards against hanging for ever, not statements about speed.
TIMEOUT_S = 180
LINE = re.compile(r'stretto_([a-z_]+)\{(([a-z]+="[^"\n]*",?)+)\} (\S+)')

JOB = """
import json, os, sys, time, urllib.request, urllib.error
import numpy as np
import stretto.comm
rank, port, folder = int(os.environ["RANK"]), int(sys.argv[1]), sys.argv[2]
def scrape(path="/metrics"):
  with urllib.request.urlopen(f"http://127.0.0.1:{port + rank}{path}", timeout=100) as answer:
    return answer.read().decode()
engine = stretto.comm.Engine(os.environ["STRETTO_ADDRESS"], rank, 2)
x = np.ones(100_000, np.float32)
for _ in range(3):
  engine.all_reduce(x)
pages = {"after": scrape()}
if rank == 0:
  handle = engine.start_all_reduce(x)
  pages["pending"] = scrape()
  open(f"{folder}/scraped", "w").close()
  engine.wait(handle)
else:
  while not os.path.exists(f"{folder}/scraped"):
    time.sleep(0.01)
  engine.all_reduce(x)
try:
  scrape("/")
except urllib.error.HTTPError as error:
  pages["other"] = error.code
child = os.fork()
if child == 0:
  os._exit(stretto._metrics.STATE["server"] is not None)
pages["child"] = os.waitpid(child, 0)[1]
engine.close()
pages["closed"] = scrape()
with open(f"{folder}/{rank}", "w") as file:
  json.dump(pages, file)
"""


def run(tmp_path, script, *words, environment):
  (tmp_path / "job.py").write_text(script)
  program = tmp_path / "rank"
  program.write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path / "job.py"} "$@"\n')
  program.chmod(0o755)
  return subprocess.run(
      [sys.executable, "-m", "stretto._launch", "-n", "2", "--no-python", str(program), *words],
      capture_output=True, text=True, timeout=TIMEOUT_S, env={**os.environ, **environment})


def parsed(page):
  """Values by name. Every line must be one of the format."""
  found = {}
  for line in page.splitlines():
    if line.startswith("# "):
      assert re.fullmatch(r"# (HELP stretto_\w+ .+|TYPE stretto_\w+ (counter|gauge))", line)
      continue
    match = LINE.fullmatch(line)
    assert match, line
    found[match[1]] = float(match[4])
  return found


def test_prometheus_can_scrape_every_rank(tmp_path):
  port = free_port()
  done = run(tmp_path, JOB, str(port), str(tmp_path),
             environment={"STRETTO_METRICS_PORT": f"127.0.0.1:{port}",
                          "STRETTO_TRANSPORTS": "tcp"})
  assert done.returncode == 0, done.stderr
  for rank in range(2):
    pages = json.loads((tmp_path / str(rank)).read_text())
    after = parsed(pages["after"])
    assert f'rank="{rank}"' in pages["after"]
    assert after["operations_total"] == 3 and after["operations_failed_total"] == 0
    assert after["sent_bytes_total"] > after["payload_bytes_total"] >= 3 * 200_000
    assert after["operations_pending"] == 0 and after["pending_age_seconds"] == 0
    assert after["resent_chunks_total"] == 0 and after["broken_streams"] == 0
    assert pages["other"] == 404 and pages["child"] == 0
    assert parsed(pages["closed"]) == {}
    if rank == 0:
      pending = parsed(pages["pending"])
      assert pending["operations_pending"] == 1 and pending["pending_age_seconds"] > 0


@pytest.mark.parametrize("text", ["no", "0", "70000", "host:", "1.5", "\u00b2", "9" * 5000])
def test_a_wrong_port_is_an_error(text):
  with pytest.raises(stretto.InvalidArgumentError, match="expected PORT or HOST:PORT, got"):
    metrics.address_of(text)


def test_addresses():
  assert metrics.address_of("9400") == ("", 9400)
  assert metrics.address_of("127.0.0.1:9400") == ("127.0.0.1", 9400)
  assert metrics.escaped('a"b\\c\nd') == 'a\\"b\\\\c\\nd'


LOGS = """
import os, sys
import numpy as np
import stretto.comm
engine = stretto.comm.Engine(os.environ["STRETTO_ADDRESS"], int(os.environ["RANK"]), 2)
x = np.ones(100, np.float32)
if sys.argv[1] == "fail":
  if engine.rank == 0:
    engine.native.abort("enough of this")
  try:
    while True:
      engine.all_reduce(x)
  except stretto.CommError:
    for _ in range(1000):  # the main thread delivers what C++ logs
      pass
engine.close()
"""


@pytest.mark.parametrize("level, shown, hidden", [
  ("info", ["stretto INFO: rank 1 of 2 is connected", "leaves after"], []),
  ("warning", ["stretto WARNING: rank 0: the job ends: enough of this"], ["INFO"]),
  ("off", [], ["stretto"]), ("", [], ["stretto"]),
  ("loud", ["STRETTO_LOG_LEVEL: expected one of off, warning, info, got 'loud'"], ["INFO"])])
def test_one_variable_sets_the_level_of_the_log(tmp_path, level, shown, hidden):
  done = run(tmp_path, LOGS, "fail" if level == "warning" else "good",
             environment={"STRETTO_LOG_LEVEL": level})
  assert done.returncode == 0, done.stderr
  assert all(text in done.stderr for text in shown), done.stderr
  assert not any(text in done.stderr for text in hidden), done.stderr


def test_help_lists_the_variables(run_command):
  text = run_command("help", "environment").stdout
  assert "STRETTO_LOG_LEVEL" in text and "STRETTO_METRICS_PORT" in text and "STRETTO_DUMP" in text
