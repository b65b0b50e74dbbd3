"""Runs engines for `stretto bench`, for reports and for bench/, each in a process of its own.

  python -m stretto.peers list     says {"peers": [{"name", "version", "setting", "about",
                                   "packages"}, ...]}; the version is null where not installed
  python -m stretto.peers serve    loads and times one engine; see stretto/peers/_worker.py

Both speak JSON lines on standard input and output.
"""

from __future__ import annotations

import argparse
import sys

from stretto.peers import _worker as worker
from stretto.peers import select


def main() -> int:
  parser = argparse.ArgumentParser(prog="python -m stretto.peers", description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("verb", choices=["list", "serve"])
  verb = parser.parse_args().verb
  say = worker.reply_stream()
  if verb == "serve":
    worker.serve(sys.stdin, say)
  else:
    say({"peers": [{"name": peer.name, "version": peer.version(), "setting": peer.setting,
                    "about": peer.about, "packages": list(peer.driver().PACKAGES)}
                   for peer in select("all")]})
  return 0


if __name__ == "__main__":
  sys.exit(main())
