"""`import stretto` costs nothing that was not asked for: no thread, no file, no word."""

import json
import subprocess
import sys

# NumPy, which is not ours, comes first: it starts threads.
BEGIN = """
import json, os, sys
import numpy, numpy.typing
"""

OPENED = BEGIN + """
opened = []
sys.addaudithook(lambda event, words: opened.append(str(words[0])) if event == "open" else None)
threads = len(os.listdir("/proc/self/task"))
opened.clear()
import stretto
names = [name for name in opened]
print(json.dumps({"opened": names, "threads": len(os.listdir("/proc/self/task")) - threads,
                  "prefixes": [os.path.realpath(p) for p in sys.path if p]}))
"""

# C++ opens files unseen by the audit hook, so the read calls of the process are counted instead
# while the module is initialised.
READS = BEGIN + """
import importlib.machinery
def reads():
  file = os.open("/proc/self/io", os.O_RDONLY)
  text = os.read(file, 4096).decode()
  os.close(file)
  return int(text.split("syscr: ")[1].split()[0])
found = []
class Loader(importlib.machinery.ExtensionFileLoader):
  def exec_module(self, module):
    if self.name != "stretto._stretto":
      return original(self, module)
    before = [reads(), reads()]
    original(self, module)
    found.append((reads() - before[1]) - (before[1] - before[0]))
original = importlib.machinery.ExtensionFileLoader.exec_module
importlib.machinery.ExtensionFileLoader.exec_module = Loader.exec_module
import stretto
print(json.dumps(found))
"""


def answer(code, *options):
  done = subprocess.run([sys.executable, *options, "-c", code], capture_output=True, text=True,
                        timeout=60)
  assert done.returncode == 0, done.stderr
  assert done.stderr == ""
  return json.loads(done.stdout) if done.stdout else None


def test_import_is_quiet_where_warnings_are_errors():
  assert answer("import stretto", "-W", "error") is None


def test_import_starts_no_thread_and_opens_nothing_but_modules():
  found = answer(OPENED)
  assert found["threads"] == 0
  assert any("stretto" in name for name in found["opened"]), "the hook saw nothing"
  strange = [name for name in found["opened"]
             if not name.endswith((".py", ".pyc", ".so")) and ".pyc." not in name]
  assert strange == []


def test_initialising_the_extension_module_reads_nothing():
  assert answer(READS) == [0]


def test_the_name_of_the_core_is_found_on_request():
  assert isinstance(answer("import json\nfrom stretto import _stretto\n"
                           "print(json.dumps(_stretto.core_name()))"), str)
