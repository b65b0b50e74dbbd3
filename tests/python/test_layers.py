"""cmake/check_layers.py, a step of ./dev lint, finds an #include that goes around the table."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "cmake"))

import check_layers  # noqa: E402

TABLE = """
stretto_module(base DEPS)
stretto_module(comm DEPS base LINK crypto)
stretto_module(top  DEPS base)
stretto_room(comm/store        DEPS)
stretto_room(comm/link         DEPS store)
stretto_room(comm/engine/parts DEPS)
stretto_room(comm/engine       DEPS link engine/parts)
"""
SOUND = {
  "base/error.h": [],
  "comm/options.h": ["base/error.h"],
  "comm/options.cc": ["comm/options.h", "comm/engine/engine.h"],
  "comm/store/store.h": ["comm/options.h"],
  "comm/link/link.h": ["comm/store/store.h"],
  "comm/link/tcp/socket.cc": ["comm/link/link.h", "comm/store/store.h"],
  "comm/engine/parts/part.h": ["comm/options.h"],
  "comm/engine/engine.h": ["comm/link/link.h", "comm/store/store.h", "comm/engine/parts/part.h"],
  "top/main.cc": ["stretto.h", "top/other.h"],
}


def problems(folder, files=None, table=TABLE):
  (folder / "CMakeLists.txt").write_text(table)
  for name, includes in {**SOUND, **(files or {})}.items():
    path = folder / "src/stretto" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f'#include "stretto/{target}"\n' for target in includes))
  return check_layers.problems(folder)


def test_what_the_table_allows_is_no_problem(tmp_path):
  assert problems(tmp_path) == []


@pytest.mark.parametrize(("file", "include", "expected"), [
  ("base/a.cc", "comm/options.h",
   "base may not include stretto/comm/options.h; its DEPS reach nothing"),
  ("base/a.cc", "stretto.h", "base is below the public interface stretto/stretto.h"),
  ("comm/store/a.cc", "comm/link/link.h",
   "comm/store may not include stretto/comm/link/link.h; its DEPS reach nothing"),
  ("comm/store/a_test.cc", "comm/engine/engine.h",
   "comm/store may not include stretto/comm/engine/engine.h; its DEPS reach nothing"),
  ("comm/link/tcp/a.cc", "comm/engine/engine.h",
   "comm/link may not include stretto/comm/engine/engine.h; its DEPS reach store"),
  ("comm/engine/parts/a.h", "comm/engine/engine.h",
   "comm/engine/parts may not include stretto/comm/engine/engine.h; its DEPS reach nothing"),
  ("comm/membership.h", "comm/store/store.h",
   "every room of comm may include this header, so it may include none, "
   "and not stretto/comm/store/store.h"),
  ("comm/codec/a.h", "base/error.h", "comm/codec has no stretto_room line in CMakeLists.txt"),
  ("codec/a.h", "base/error.h", "codec has no stretto_module line in CMakeLists.txt"),
])
def test_an_include_around_the_table_is_named(tmp_path, file, include, expected):
  assert problems(tmp_path, {file: [include]}) == [f"src/stretto/{file}: {expected}"]


def test_a_room_without_a_folder_is_named(tmp_path):
  assert problems(tmp_path, table=TABLE + "stretto_room(comm/codec DEPS)\n") == [
    "CMakeLists.txt: there is no folder comm/codec"]


@pytest.mark.parametrize(("line", "with_line", "expected"), [
  ("stretto_room(comm/store        DEPS)", "stretto_room(comm/store DEPS engine)",
   "rooms of comm in a circle"),
  ("stretto_module(base DEPS)", "stretto_module(base DEPS top)", "modules in a circle"),
  ("stretto_room(comm/store        DEPS)", "stretto_room(comm/store DEPS codec)",
   "store depends on codec, which is no room of comm"),
])
def test_a_table_that_is_wrong_is_refused(tmp_path, line, with_line, expected):
  assert line in TABLE
  with pytest.raises(SystemExit, match=expected):
    problems(tmp_path, table=TABLE.replace(line, with_line))
