"""What `stretto doctor` asks: the versions of the packages that Stretto works with, as one line of
JSON. Nothing is imported for it.

  python -m stretto._installed
"""

from __future__ import annotations

import importlib.metadata
import json

from stretto.peers import select

FRAMEWORKS = ("numpy", "onnx", "torch", "jax", "tensorflow")


def version(package: str) -> str | None:
  try:
    return importlib.metadata.version(package)
  except importlib.metadata.PackageNotFoundError:
    return None


def packages() -> list[dict[str, str | None]]:
  peers = [name for peer in select("all") for name in peer.driver().PACKAGES]
  return [{"name": name, "version": version(name)} for name in dict.fromkeys([*FRAMEWORKS, *peers])]


if __name__ == "__main__":
  print(json.dumps({"packages": packages()}))
