"""Lists the slowest tests, those that failed and those that were skipped, and fails if one of these
was meant to run.

  python tests/check_results.py FOLDER    # of JUnit XML files, written by GoogleTest and pytest
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

LINES = 12  # of a failure's text that are shown
SLOWEST = 20  # files or suites of tests, and as many single ones
ALLOWED = Path(__file__).with_name("allowed_skips.txt")


def allowed_reasons(path: Path = ALLOWED) -> list[re.Pattern]:
  lines = (line.strip() for line in path.read_text().splitlines())
  return [re.compile(line) for line in lines if line and not line.startswith("#")]


def reason_of(skipped: ET.Element) -> str:
  """Without the place in the source, which both frameworks put in front."""
  text = (skipped.get("message") or skipped.text or "").strip()
  text = re.sub(r"^\S+:\d+\n", "", text)  # GoogleTest: file and line, then the text
  return " ".join(text.removeprefix("Skipped: ").split()) or "no reason given"


def name_of(case: ET.Element) -> str:
  return f"{case.get('classname')}.{case.get('name')}"


def cases(folder: Path) -> list[ET.Element]:
  return [case for file in sorted(folder.glob("*.xml")) for case in ET.parse(file).iter("testcase")]


def print_failures(ran: list[ET.Element]) -> None:
  """Once more, for thousands of lines may stand between a failure and the end."""
  for case in ran:
    texts = [found.text or found.get("message") or ""
             for kind in ("failure", "error") for found in case.findall(kind)]
    if not texts:
      continue
    print(f"failed: {name_of(case)}")
    lines = [line for text in texts for line in text.strip().splitlines()]
    # pytest gives the source first and the reason last; GoogleTest gives the reason alone.
    for line in lines[-LINES:]:
      print(f"    {line}")


def print_slowest(ran: list[ET.Element]) -> None:
  """Where the time goes: by file or suite, and by test."""
  for name_of_part in (lambda case: case.get("classname"), name_of):
    seconds: Counter[str] = Counter()
    for case in ran:
      seconds[name_of_part(case)] += float(case.get("time") or 0)
    for name, took in seconds.most_common(SLOWEST):
      if took >= 1:
        print(f"{took:5.0f} s  {name}")
    print()
  print(f"{sum(seconds.values()):.0f} s in {len(ran)} tests, of which several ran at a time")


def main(folder: Path) -> int:
  ran = cases(folder)
  if not ran:
    print(f"check_results: no test results in {folder}", file=sys.stderr)
    return 1
  print_slowest(ran)
  print_failures(ran)
  found = [(name_of(case), reason_of(skipped)) for case in ran
           for skipped in case.findall("skipped")]
  for reason, count in Counter(reason for _, reason in found).most_common():
    print(f"{count:5}  {reason}")
  print(f"{len(found)} of {len(ran)} tests were skipped")
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
