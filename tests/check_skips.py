"""Lists the tests that were skipped, and fails if one was meant to run.

  python tests/check_skips.py FOLDER      # of JUnit XML files, written by GoogleTest and pytest
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

ALLOWED = Path(__file__).with_name("allowed_skips.txt")


def allowed_reasons(path: Path = ALLOWED) -> list[re.Pattern]:
  lines = (line.strip() for line in path.read_text().splitlines())
  return [re.compile(line) for line in lines if line and not line.startswith("#")]


def reason_of(skipped: ET.Element) -> str:
  """Without the place in the source, which both frameworks put in front."""
  text = (skipped.get("message") or skipped.text or "").strip()
  text = re.sub(r"^\S+:\d+\n", "", text)  # GoogleTest: file and line, then the text
  return " ".join(text.removeprefix("Skipped: ").split()) or "no reason given"


def skips(folder: Path) -> tuple[int, list[tuple[str, str]]]:
  """How many tests there were, and name and reason of those skipped."""
  total, found = 0, []
  for file in sorted(folder.glob("*.xml")):
    for case in ET.parse(file).iter("testcase"):
      total += 1
      skipped = case.find("skipped")
      if skipped is not None:
        found.append((f"{case.get('classname')}.{case.get('name')}", reason_of(skipped)))
  return total, found


def main(folder: Path) -> int:
  total, found = skips(folder)
  if total == 0:
    print(f"check_skips: no test results in {folder}", file=sys.stderr)
    return 1
  for reason, count in Counter(reason for _, reason in found).most_common():
    print(f"{count:5}  {reason}")
  print(f"{len(found)} of {total} tests were skipped")
  patterns = allowed_reasons()
  unexpected = [(name, reason) for name, reason in found
                if not any(pattern.fullmatch(reason) for pattern in patterns)]
  for name, reason in unexpected:
    print(f"error: {name} was meant to run, but was skipped: {reason}", file=sys.stderr)
  if unexpected:
    print(f"Install what is missing, or list the reason in {ALLOWED.name}.", file=sys.stderr)
  return 1 if unexpected else 0


if __name__ == "__main__":
  if len(sys.argv) != 2:
    sys.exit(__doc__)
  sys.exit(main(Path(sys.argv[1])))
