"""Connections between the pods of a job, from each to the pod of rank 0: so that the loss of a pod
is told from the failure of a script, a failing rank ends all others, and the counters of
--hang-after come together. Messages are lines of JSON.

It runs in pods, and imports nothing of Stretto."""

import hashlib
import hmac
import json
import os
import socket
import threading
import time

PING_S, SILENT_S = 5.0, 60.0  # a pod that says nothing for so long is lost
ANSWER_S = 5.0  # for pods that are asked whether they live, when a rank has failed
RETRY_S, CONNECT_S = 0.2, 5.0
LONGEST = 16 << 20  # of a message: a flight record


def proof(secret, nonce):
  return hmac.new(secret.encode(), nonce.encode(), hashlib.sha256).hexdigest()


def lines_of(connection):
  with connection.makefile("rb") as stream:
    while True:
      line = stream.readline(LONGEST)
      if not line.endswith(b"\n"):
        return
      yield json.loads(line)


def listening(port):
  """On all addresses, of IPv4 and of IPv6 where there is that."""
  try:
    return socket.create_server(("", port), family=socket.AF_INET6, backlog=512,
                                dualstack_ipv6=True)
  except (OSError, ValueError):
    return socket.create_server(("", port), backlog=512)


class Line:
  """One connection: messages go out whole, whichever thread sends them."""

  def __init__(self, connection):
    self.connection, self.lock = connection, threading.Lock()
    self.heard = time.monotonic()
    connection.settimeout(SILENT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

  def send(self, message):
    """Whether it went out; the reader finds out about the end of a connection."""
    try:
      with self.lock:
        self.connection.sendall(json.dumps(message).encode() + b"\n")
    except OSError:
      return False
    return True

  def close(self):
    try:
      self.connection.shutdown(socket.SHUT_RDWR)
    except OSError:
      pass


class Leader:
  """In the pod of rank 0. `events` gets (what, pod, message): "said", "lost"."""

  def __init__(self, port, secret, events):
    self.secret, self.events = secret, events
    self.lock = threading.Lock()
    self.peers, self.over, self.leaving = {}, set(), set()
    self.shut_ = False
    self.server = listening(port)
    for work in (self.accept, self.ping):
      threading.Thread(target=work, daemon=True).start()

  def accept(self):
    while True:
      try:
        connection, _ = self.server.accept()
      except OSError:
        return
      threading.Thread(target=self.read, args=(connection,), daemon=True).start()

  def read(self, connection):
    line, nonce, pod = Line(connection), os.urandom(16).hex(), None
    line.send({"nonce": nonce})
    try:
      for message in lines_of(connection):
        line.heard = time.monotonic()
        if pod is None:
          # Other pods of the cluster can connect, too.
          if not hmac.compare_digest(str(message.get("proof", "")), proof(self.secret, nonce)):
            break
          with self.lock:
            if self.shut_:
              break
            pod = int(message["pod"])
            self.peers[pod] = line
          line.send({"do": "ping"})  # the welcome
          continue
        if message["do"] == "over":
          self.over.add(pod)
          break
        if message["do"] == "leaving":
          self.leaving.add(pod)
        if message["do"] != "pong":
          self.events.put(("said", pod, message))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
      pass
    line.close()
    connection.close()
    if pod is None:
      return
    with self.lock:
      if self.peers.get(pod) is line:
        del self.peers[pod]
    if pod not in self.over:
      self.events.put(("lost", pod, {}))

  def shut(self):
    """Nobody new is welcome: this pod has done its work, and ends when the others have."""
    with self.lock:
      if not self.shut_:
        self.shut_ = True
        self.server.close()

  def all(self):
    with self.lock:
      return dict(self.peers)

  def ping(self):
    while True:
      self.send({"do": "ping"})
      time.sleep(PING_S)

  def send(self, message):
    for line in self.all().values():
      line.send(message)

  def absent(self):
    """Pods that are leaving, or do not answer when asked now."""
    asked, begin = self.all(), time.monotonic()
    self.send({"do": "ping"})
    while time.monotonic() - begin < ANSWER_S:
      silent = [pod for pod, line in asked.items() if line.heard < begin and pod not in self.over]
      if not silent:
        break
      time.sleep(0.02)
    gone = [pod for pod in asked if pod not in self.all() and pod not in self.over]
    return sorted({*silent, *gone, *self.leaving})


class Peer:
  """In the other pods. Tries until the leader lets it in."""

  def __init__(self, address, port, pod, secret, events):
    self.to, self.pod, self.secret, self.events = (address, port), pod, secret, events
    self.line, self.welcome, self.gone = None, False, False
    self.lock = threading.Lock()
    self.thread = threading.Thread(target=self.work, daemon=True)
    self.thread.start()

  def work(self):
    while not self.gone:
      try:
        connection = socket.create_connection(self.to, CONNECT_S)
      except OSError:  # its name is not known yet, or it does not listen yet
        time.sleep(RETRY_S)
        continue
      if self.read(connection):
        return
      time.sleep(RETRY_S)

  def read(self, connection):
    """Whether this was the leader."""
    line = Line(connection)
    try:
      for message in lines_of(connection):
        if "nonce" in message:
          with self.lock:
            if self.gone:
              break
            line.send({"pod": self.pod, "proof": proof(self.secret, message["nonce"])})
            self.line = line
        elif message["do"] == "ping":
          self.welcome = True
          line.send({"do": "pong"})
        else:
          self.events.put(("said", 0, message))
    except (OSError, ValueError, KeyError, TypeError):
      pass
    connection.close()
    if self.welcome:
      self.events.put(("lost", 0, {}))
    return self.welcome

  def send(self, message):
    return self.line is not None and self.line.send(message)

  def leave(self):
    """The ranks of this pod have done their work: its end is no loss."""
    with self.lock:
      self.gone = True
    if self.send({"do": "over"}):
      self.thread.join(ANSWER_S)  # until the leader has heard it
