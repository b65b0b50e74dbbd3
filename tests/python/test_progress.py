"""Progress: a bar where one can be seen, events for a function, silence otherwise."""

import ast
import fcntl
import logging
import os
import pty
import struct
import subprocess
import sys
import termios
import types
from pathlib import Path

import pytest

import stretto
from stretto import _progress

OPTIMIZE = "import sys, stretto; stretto.optimize(sys.argv[1], tuning=0.2, progress={progress})"


def on_terminal(code, *arguments):
  """What a program shows whose standard error is a terminal."""
  ours, theirs = pty.openpty()
  fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
  child = subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stderr=theirs,
                           stdout=theirs, env={**os.environ, "TERM": "xterm"})
  os.close(theirs)
  shown = b""
  try:
    while chunk := os.read(ours, 65536):
      shown += chunk
  except OSError:  # the other side is gone
    pass
  os.close(ours)
  assert child.wait(60) == 0, shown.decode()
  return shown.decode()


def test_a_function_gets_every_stage_and_how_far_it_is(cnn):
  events = []
  stretto.optimize(cnn, tuning=0.2, progress=lambda stage, share: events.append((stage, share)))
  stages = [stage for stage, _ in events]
  assert stages[0] == "import" and "verify" in stages and "profile" in stages
  assert all(isinstance(share, float) and 0 <= share <= 1 for _, share in events)


def test_what_the_function_raises_ends_the_call(cnn):
  def stop(stage, share):
    raise KeyError(stage)

  with pytest.raises(KeyError, match="import"):
    stretto.optimize(cnn, tuning="off", progress=stop)


def test_another_kind_of_progress_is_refused(cnn):
  with pytest.raises(stretto.InvalidArgumentError, match="progress: expected True, False or"):
    stretto.optimize(cnn, tuning="off", progress="loud")


def test_nothing_is_shown_when_standard_error_is_no_terminal(cnn_path):
  done = subprocess.run([sys.executable, "-c", OPTIMIZE.format(progress=True), cnn_path],
                        capture_output=True, text=True, timeout=60)
  assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_terminal_shows_a_text_bar_without_tqdm_and_wipes_it(cnn_path):
  shown = on_terminal("import sys; sys.modules['tqdm'] = None; sys.modules['tqdm.auto'] = None\n" +
                      OPTIMIZE.format(progress=True), cnn_path)
  assert "verify" in shown and "░" in shown and "%" in shown
  assert shown.endswith("\r\x1b[K")


def test_a_terminal_shows_nothing_when_progress_is_false(cnn_path):
  assert on_terminal(OPTIMIZE.format(progress=False), cnn_path) == ""


def test_a_terminal_shows_tqdm_where_it_is_installed(cnn_path):
  pytest.importorskip("tqdm")
  shown = on_terminal(OPTIMIZE.format(progress=True), cnn_path)
  assert "verify" in shown and "%|" in shown
  assert "░" not in shown


def test_a_notebook_shows_the_bar_of_tqdm_whatever_standard_error_is(monkeypatch):
  drawn = []

  class Widget:
    monitor_interval = 10

    def __init__(self, **options):
      assert self.monitor_interval == 0

    def set_description_str(self, text, refresh):
      self.stage = text

    def refresh(self):
      drawn.append((self.stage, self.n))

    def close(self):
      drawn.append("closed")

  shell = types.SimpleNamespace(kernel=object())
  monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
  monkeypatch.setitem(sys.modules, "tqdm.auto", types.SimpleNamespace(tqdm=Widget))
  monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
  with _progress.shown(True) as tell:
    tell("verify", 0.0)
    tell("verify", 1.0)
  assert drawn == [("verify", 0.0), ("verify", 1.0), "closed"]


def test_a_stage_is_drawn_at_most_ten_times_a_second(monkeypatch):
  now = [0.0]
  monkeypatch.setattr(_progress.time, "monotonic", lambda: now[0])
  drawn = []
  bar = _progress._Bar()
  bar.draw = lambda stage, fraction: drawn.append((stage, fraction))
  for step in range(100):
    now[0] = 1 + step * 0.01
    bar("measure", step / 100)
  assert 9 <= len(drawn) <= 11
  bar("measure", 1.0)
  bar("verify", 0.0)
  assert drawn[-2:] == [("measure", 1.0), ("verify", 0.0)]


def test_the_library_logs_to_a_logger_that_is_silent_until_set_up():
  handlers = logging.getLogger("stretto").handlers
  assert any(isinstance(handler, logging.NullHandler) for handler in handlers)


def test_messages_of_the_library_go_to_its_logger(cnn_path, tmp_path):
  cache = tmp_path / "cache.tsv"
  cache.write_text("this is no tuning cache")
  code = ("import logging, sys, stretto\n"
          "logging.basicConfig(format='%(levelname)s %(name)s %(threadName)s %(message)s')\n"
          "stretto.optimize(sys.argv[1], tuning='off')\n")
  done = subprocess.run([sys.executable, "-c", code, cnn_path], capture_output=True, text=True,
                        timeout=60, env={**os.environ, "STRETTO_TUNING_CACHE": str(cache)})
  assert done.returncode == 0, done.stderr
  [line] = done.stderr.splitlines()
  assert line.startswith(f"WARNING stretto MainThread tuning cache {cache}: ")


def test_only_the_command_prints():
  package = Path(stretto.__file__).parent
  printing = {str(file.relative_to(package)) for file in package.rglob("*.py")
              for node in ast.walk(ast.parse(file.read_text()))
              if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"}
  command = {"_command.py", "_convert.py", "_flight.py", "_installed.py", "_launch.py",
             "_launch_elastic.py", "_rank.py", "_rank_output.py", "_remote.py",
             "_validate.py", "cluster/__main__.py", "cluster/_agent.py", "cluster/_run.py",
             "cluster/_cloud.py", "cluster/_verbs.py", "cluster/_watch_steps.py",
             "data/__main__.py", "data/_peers.py", "migrate/__main__.py"}
  assert printing <= command
