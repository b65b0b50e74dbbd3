#!/usr/bin/env python3
"""Fails on a commit subject that is not `area: imperative` in 72 characters.

  python3 cmake/check_commits.py                       commits since the rule began
  python3 cmake/check_commits.py origin/main..HEAD     commits of a range of Git's
  python3 cmake/check_commits.py --message-file FILE   one message, for a commit-msg hook
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 72
RULE_BEGAN = "2f8b9bf"  # earlier subjects have another form
SUBJECT = re.compile(r"^(?P<areas>[a-z][\w./+-]*(, [a-z][\w./+-]*)*): (?P<verb>\S+)(?P<rest>.*)$")
# Verbs in the imperative that end like another form.
IMPERATIVES = {"embed", "feed", "need", "seed", "speed", "shed", "bring", "string", "ring", "focus",
               "canvas", "alias", "bias"}


def problems(subject: str) -> list[str]:
  """What is wrong with one subject; nothing for a good one."""
  found = []
  if len(subject) > LIMIT:
    found.append(f"{len(subject)} characters, the limit is {LIMIT}")
  match = SUBJECT.match(subject)
  if not match:
    return found + ["expected `area: what it does`, with a lower-case area"]
  verb = match["verb"].lower()
  third_person = verb.endswith("s") and not verb.endswith("ss")
  if verb not in IMPERATIVES and (third_person or verb.endswith(("ed", "ing"))):
    found.append(f"`{match['verb']}`: expected the imperative, as in `comm: name the rank`")
  if subject.endswith("."):
    found.append("ends with a full stop")
  return found


def subjects(commits: str) -> list[str]:
  """`hash subject` per commit of the range, or of HEAD alone when Git does not know the range's
  beginning (a shallow clone, a new branch)."""
  for words in ([commits], ["-1", "HEAD"]):
    done = subprocess.run(["git", "log", "--no-merges", "--format=%h %s", *words], cwd=ROOT,
                          capture_output=True, text=True)
    if done.returncode == 0:
      return done.stdout.splitlines()
  raise SystemExit(f"commits: {done.stderr.strip()}")


def main(arguments: list[str]) -> int:
  if arguments[:1] == ["--message-file"]:
    text = Path(arguments[1]).read_text()
    lines = ["new " + next((s for s in text.splitlines() if not s.startswith("#")), "")]
  else:
    lines = subjects(arguments[0] if arguments else f"{RULE_BEGAN}..HEAD")
  bad = 0
  for line in lines:
    commit, _, subject = line.partition(" ")
    for problem in problems(subject):
      print(f"{commit} {subject!r}: {problem}")
      bad += 1
  print(f"commits: {bad} problem{'' if bad == 1 else 's'} in {len(lines)}")
  return 1 if bad else 0


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
