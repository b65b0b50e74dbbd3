"""Carries connections to the ranks of epoch 0 over ports of its own: while this process is stopped,
what it carries is silent, and neither side is told.

  python -m bench.comm.soak_relay FOLDER SIZE
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys

from bench.comm.soak_rank import RelayedStore

CHUNK = 256 << 10


def main(folder: str, size: int) -> None:
  store = RelayedStore(folder, {})
  listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(size)]
  with open(f"{folder}/relay.partial", "w") as file:
    json.dump({str(i): s.getsockname()[1] for i, s in enumerate(listeners)}, file)
  os.replace(file.name, f"{folder}/relay.json")
  selector = selectors.DefaultSelector()
  for rank, listener in enumerate(listeners):
    selector.register(listener, selectors.EVENT_READ, rank)
  while True:
    for key, _ in selector.select():
      if isinstance(key.data, int):
        guest, _ = key.fileobj.accept()
        record = json.loads(store.get(f"stretto/0/rank/{key.data}", 60))
        target = socket.create_connection(("127.0.0.1", record["port"]))
        selector.register(guest, selectors.EVENT_READ, target)
        selector.register(target, selectors.EVENT_READ, guest)
      elif key.fileobj.fileno() >= 0:
        carry(selector, key.fileobj, key.data)


def carry(selector: selectors.BaseSelector, source: socket.socket, target: socket.socket) -> None:
  try:
    data = source.recv(CHUNK)
    if data:
      target.sendall(data)
      return
  except OSError:
    pass
  for end in (source, target):
    selector.unregister(end)
    end.close()


if __name__ == "__main__":
  main(sys.argv[1], int(sys.argv[2]))
