"""python -m stretto.cluster VERB: what `stretto cluster VERB` hands over to, as a file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import types

if not __package__:
  # Started as a file: `import stretto` would load NumPy and the engine, which no verb needs and
  # which takes three times as long as the rest.
  sys.path.pop(0)
  package = types.ModuleType("stretto")
  package.__path__ = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
  sys.modules["stretto"] = package

from stretto._program import run_program  # noqa: E402
from stretto.cluster import _options  # noqa: E402
from stretto.cluster._host import ClusterError, Host  # noqa: E402


def main(words: list[str]) -> int:
  if words == ["--describe"]:  # for the C++ side of the command
    print(json.dumps(_options.describe()))
    return 0
  verb = _options.verb_named(words[0]) if words else None
  if verb is None:
    print("stretto cluster: expected " + ", ".join(v.name for v in _options.VERBS)
          + (f"; got {words[0]}" if words else ""), file=sys.stderr)
    return 2
  args = _options.parser(verb).parse_args(words[1:])
  from stretto.cluster import _verbs

  def note(text: str) -> None:
    if not args.quiet:
      print(f"stretto cluster: {text}", file=sys.stderr, flush=True)

  if args.verbose:
    Host.trace = staticmethod(note)
  try:
    return _verbs.FUNCTIONS[verb.name](args, note)
  except (json.JSONDecodeError, UnicodeError) as error:  # of a file or an answer, not of an option
    print(f"stretto cluster {verb.name}: {error}", file=sys.stderr)
    return 3
  except ValueError as error:
    print(f"stretto cluster {verb.name}: {error}", file=sys.stderr)
    return 2
  except (ClusterError, OSError, subprocess.SubprocessError) as error:
    if isinstance(error, BrokenPipeError):
      raise
    print(f"stretto cluster {verb.name}: {error}", file=sys.stderr)
    return 3
  except KeyboardInterrupt:
    return 128 + signal.SIGINT


if __name__ == "__main__":
  sys.exit(run_program(lambda: main(sys.argv[1:])))
