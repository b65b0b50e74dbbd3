"""docs/options.md lists the options of the gradient engine as the code describes them.

  python tests/python/test_comm_options.py      # writes the table anew
"""

import re
import sys
from pathlib import Path

import pytest

import stretto
from stretto import _unordered, comm

PAGE = Path(__file__).parents[2] / "docs/options.md"
PLACE = re.compile(r"(<!-- begin: engine options -->\n)(.*?)(<!-- end: engine options -->)", re.S)


def table() -> str:
  lines = ["| variable | default | allowed | meaning |", "|---|---|---|---|"]
  for row in comm.Options().rows():
    default = f"`{row['default']}`" if row["default"] else "empty"
    lines.append(f"| `{row['variable']}` | {default} | {row['allowed']} | {row['meaning']} |")
  return "\n".join(lines) + "\n"


@pytest.mark.parametrize("text", ["", "soon", "-1", "nan", "inf"])
def test_a_wrong_stall_warning_was_an_error_without_a_name(monkeypatch, text):
  monkeypatch.setenv("STRETTO_STALL_WARNING", text)
  with pytest.raises(stretto.InvalidArgumentError, match="STRETTO_STALL_WARNING: expected sec"):
    _unordered.stall_limit_s()


@pytest.mark.parametrize("text", ["0", "2.5"])
def test_a_stall_warning(monkeypatch, text):
  monkeypatch.setenv("STRETTO_STALL_WARNING", text)
  assert _unordered.stall_limit_s() == float(text)


def test_page_lists_every_option():
  found = PLACE.search(PAGE.read_text())
  assert found[2] == table(), f"write it anew: python {Path(__file__).name}"


def test_sentences_are_whole():
  for row in comm.Options().rows():
    assert row["meaning"][0].isupper() and row["meaning"].endswith("."), row


@pytest.mark.parametrize("field, value, message", [
  ("transports", "udp", "STRETTO_TRANSPORTS: expected shm, tcp or both, got 'udp'"),
  ("algorithm", "fastest", "STRETTO_ALGORITHM: expected one of auto, "),
  ("streams", 65, "STRETTO_STREAMS: '65' is not auto or a number from 1 to 64"),
  ("chunk_bytes", 1, "STRETTO_CHUNK_BYTES: '1' is not a number from 4096 to 67108864"),
])
def test_a_wrong_value_is_refused_when_the_engine_is_made(tmp_path, field, value, message):
  options = comm.Options()
  setattr(options, field, value)
  with pytest.raises(ValueError, match=re.escape(message)):
    comm.Engine(f"{tmp_path}/", 0, 1, options)


@pytest.mark.parametrize("field, good, bad, message", [
  ("tuning", "full", "on", "STRETTO_TUNING: expected one of off, quick, full, got 'on'"),
  ("codec", "int8", "zip", "one of none, fp16, bf16, int8, topk, powersgd, mixed, got 'zip'"),
  ("step_policy", "local:4", "local:0", "STRETTO_STEP_POLICY: '0' is not a number from 1 to"),
])
def test_a_wrong_name_is_refused_at_once(field, good, bad, message):
  options = comm.Options()
  setattr(options, field, good)
  assert getattr(options, field) == good
  with pytest.raises(ValueError, match=re.escape(message)):
    setattr(options, field, bad)


if __name__ == "__main__":
  text = PAGE.read_text()
  PAGE.write_text(PLACE.sub(lambda place: place[1] + table() + place[3], text))
  sys.stdout.write(f"wrote {PAGE}\n")
