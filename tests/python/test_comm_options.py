"""docs/options.md lists the options of the gradient engine as the code describes them.

  python tests/python/test_comm_options.py      # writes the table anew
"""

import re
import sys
from pathlib import Path

import pytest

from stretto import comm

PAGE = Path(__file__).parents[2] / "docs/options.md"
PLACE = re.compile(r"(<!-- begin: engine options -->\n)(.*?)(<!-- end: engine options -->)", re.S)


def table() -> str:
  lines = ["| variable | default | allowed | meaning |", "|---|---|---|---|"]
  for row in comm.Options().rows():
    default = f"`{row['default']}`" if row["default"] else "empty"
    lines.append(f"| `{row['variable']}` | {default} | {row['allowed']} | {row['meaning']} |")
  return "\n".join(lines) + "\n"


def test_page_lists_every_option():
  found = PLACE.search(PAGE.read_text())
  assert found[2] == table(), f"write it anew: python {Path(__file__).name}"


def test_sentences_are_whole():
  for row in comm.Options().rows():
    assert row["meaning"][0].isupper() and row["meaning"].endswith("."), row


@pytest.mark.parametrize("field, value, message", [
  ("codec", "zip", "one of none, fp16, bf16, int8, topk, powersgd, mixed, got 'zip'"),
  ("transports", "udp", "STRETTO_TRANSPORTS: expected shm, tcp or both, got 'udp'"),
  ("algorithm", "fastest", "STRETTO_ALGORITHM: expected one of auto, "),
  ("streams", 65, "STRETTO_STREAMS: '65' is not auto or a number from 1 to 64"),
  ("step_policy", "local:0", "STRETTO_STEP_POLICY: '0' is not a number from 1 to"),
  ("chunk_bytes", 1, "STRETTO_CHUNK_BYTES: '1' is not a number from 4096 to 67108864"),
])
def test_a_wrong_value_is_refused_when_the_engine_is_made(tmp_path, field, value, message):
  options = comm.Options()
  setattr(options, field, value)
  with pytest.raises(ValueError, match=re.escape(message)):
    comm.Engine(f"{tmp_path}/", 0, 1, options)


def test_a_wrong_tuning_is_refused_at_once():
  options = comm.Options()
  options.tuning = "full"
  assert options.tuning == "full"
  with pytest.raises(ValueError, match="STRETTO_TUNING: expected one of off, .*, got 'on'"):
    options.tuning = "on"


if __name__ == "__main__":
  text = PAGE.read_text()
  PAGE.write_text(PLACE.sub(lambda place: place[1] + table() + place[3], text))
  sys.stdout.write(f"wrote {PAGE}\n")
