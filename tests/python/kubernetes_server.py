"""An API server for tests, which the real kubectl talks to: discovery, objects, logs and exec (over
WebSocket). kubernetes_nodes.py plays what is behind it."""

import base64
import hashlib
import json
import os
import struct
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from kubernetes_nodes import Nodes, inside

from stretto.cluster import _kubernetes_manifest as manifest

GROUPS = {
  "v1": ["configmaps", "secrets", "pods", "events", "persistentvolumeclaims", "nodes",
         "namespaces"],
  "batch/v1": ["jobs"],
  "jobset.x-k8s.io/v1alpha2": ["jobsets"],
  "kueue.x-k8s.io/v1beta1": ["localqueues", "workloads"],
}
NAMES = {"configmaps": "ConfigMap", "secrets": "Secret", "pods": "Pod", "events": "Event",
         "persistentvolumeclaims": "PersistentVolumeClaim", "nodes": "Node",
         "namespaces": "Namespace", "jobs": "Job",
         "jobsets": "JobSet", "localqueues": "LocalQueue", "workloads": "Workload"}
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
STDIN, STDOUT, STDERR, STATUS, CLOSE = 0, 1, 2, 3, 255


class Server:
  """`groups`: which are installed; `forbidden`: plurals that nobody may use, or "POST secrets";
  `late_s`: before each answer."""

  def __init__(self, folder: Path):
    self.nodes, self.folder = Nodes(folder / "pods"), folder
    self.groups, self.forbidden, self.late_s = dict(GROUPS), set(), 0.0
    self.seen: list[tuple[str, str, str]] = []  # method, path and body of all requests
    server = self
    handler = type("Handler", (Handler,), {"of": server})
    self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    self.http.daemon_threads = True
    threading.Thread(target=self.http.serve_forever, daemon=True).start()
    self.config = folder / "kubeconfig"
    self.config.write_text(json.dumps({
      "apiVersion": "v1", "kind": "Config", "current-context": "here",
      "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "lab"}},
                   {"name": "away", "context": {"cluster": "gone", "user": "u"}}],
      "users": [{"name": "u", "user": {"token": "t"}}],
      "clusters": [{"name": "c", "cluster": {
        "server": f"http://127.0.0.1:{self.http.server_port}"}},
                   {"name": "gone", "cluster": {"server": "http://127.0.0.1:9"}}]}))

  def close(self):
    self.http.shutdown()
    self.http.server_close()
    self.nodes.close()


class Handler(BaseHTTPRequestHandler):
  protocol_version = "HTTP/1.1"
  of: Server

  def log_message(self, *words):
    pass

  def answer(self, body, code=200):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    self.send_response(code)
    self.send_header("Content-Type", "application/json" if data[:1] == b"{" else "text/plain")
    self.send_header("Content-Length", str(len(data)))
    self.end_headers()
    self.wfile.write(data)

  def refuse(self, code, reason, message):
    self.answer({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                 "message": message, "reason": reason, "code": code}, code)

  def do_GET(self):
    self.act("GET")

  def do_POST(self):
    self.act("POST")

  def do_PATCH(self):
    self.act("PATCH")

  def do_DELETE(self):
    self.act("DELETE")

  def act(self, method):
    url = urlsplit(self.path)
    length = int(self.headers.get("Content-Length") or 0)
    body = self.rfile.read(length).decode() if length else ""
    self.of.seen.append((method, self.path, body))
    time.sleep(self.of.late_s)
    parts, query = url.path.strip("/").split("/"), parse_qs(url.query)
    found = self.discovery(parts)
    if found is not None:
      return self.answer(found)
    group = parts[1] if parts[0] == "api" else "/".join(parts[1:3])
    if group not in self.of.groups:
      return self.refuse(404, "NotFound", "the server could not find the requested resource")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    rest = rest[2:] if rest[:1] == ["namespaces"] and len(rest) > 2 else rest
    plural, name, sub = [*rest, "", "", ""][:3]
    if {plural, f"{plural}/{sub}", f"{method} {plural}"} & self.of.forbidden:
      return self.refuse(403, "Forbidden", f'{plural} is forbidden: User "u" cannot list resource')
    if sub == "log":
      return self.log(name, query)
    if sub == "exec":
      return self.execute(name, query)
    return self.objects(method, group, plural, name, query, body)

  def discovery(self, parts):
    if parts == ["version"]:
      return {"major": "1", "minor": "31", "gitVersion": "v1.31.4", "platform": "linux/amd64"}
    if parts == ["api"]:
      return {"kind": "APIVersions", "versions": ["v1"]}
    if parts == ["apis"]:
      groups = []
      for group in self.of.groups:
        if "/" in group:
          version = {"groupVersion": group, "version": group.split("/")[1]}
          groups.append({"name": group.split("/")[0], "versions": [version],
                         "preferredVersion": version})
      return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    group = parts[1] if parts[0] == "api" and len(parts) == 2 else "/".join(parts[1:])
    if parts[0] in ("api", "apis") and group in self.of.groups:
      return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group, "resources": [
        {"name": plural, "singularName": plural[:-1], "kind": NAMES[plural],
         "namespaced": plural not in ("nodes", "namespaces"),
         "verbs": ["create", "delete", "get", "list", "patch"]}
        for plural in self.of.groups[group]]}
    return None

  def objects(self, method, group, plural, name, query, body):
    nodes = self.of.nodes
    if method == "POST":
      made = nodes.add(json.loads(body))
      return self.answer(made, 201) if made else self.refuse(409, "AlreadyExists", "exists already")
    with nodes.lock:
      if method == "PATCH":
        found = nodes.own(plural, name, json.loads(body))
      elif method == "DELETE":
        asked = json.loads(body or "{}")
        found = nodes.delete(plural, name, asked.get("propagationPolicy") == "Foreground")
      elif name:
        found = nodes.get(plural, name)
      else:
        found = {"kind": f"{NAMES[plural]}List", "apiVersion": group, "metadata": {}, "items": [
          each for each in nodes.of(plural) if matches(each, query)]}
      found = json.loads(json.dumps(found))
    if found is None:
      return self.refuse(404, "NotFound", f'{plural} "{name}" not found')
    return self.answer(found)

  def log(self, name, query):
    with self.of.nodes.lock:
      process = self.of.nodes.processes.get(name)
    if process is None:
      return self.refuse(400, "BadRequest", f'container "{manifest.CONTAINER}" in pod "{name}" is '
                         "waiting to start: ContainerCreating")
    follow = query.get("follow") == ["true"]
    since = query.get("sinceTime", [""])[0].rstrip("Z")
    if "sinceSeconds" in query:
      begin = time.time() - int(query["sinceSeconds"][0])
      since = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(begin))
    self.send_response(200)
    self.send_header("Transfer-Encoding", "chunked")
    self.end_headers()
    rest = b""
    with open(process.log, "rb") as file:
      while True:
        over = process.child.poll() is not None
        time.sleep(0.02)
        rest += file.read()
        *lines, rest = rest.split(b"\n")
        data = b"".join(line + b"\n" for line in lines if line.decode()[:19] >= since)
        try:
          if data:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
          if over or not follow:
            return self.wfile.write(b"0\r\n\r\n")
        except OSError:
          return None

  # kubectl exec.

  def execute(self, name, query):
    with self.of.nodes.lock:
      process = self.of.nodes.processes.get(name)
    key = self.headers.get("Sec-WebSocket-Key", "").encode()
    if not key:
      return self.refuse(400, "BadRequest", "only WebSocket is understood")
    self.send_response(101)
    for header, value in (
        ("Upgrade", "websocket"), ("Connection", "Upgrade"),
        ("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key + GUID).digest()).decode()),
        ("Sec-WebSocket-Protocol", "v5.channel.k8s.io")):
      self.send_header(header, value)
    self.end_headers()
    words = [inside(process.folder, word) for word in query["command"]]
    path = f"{Path(os.sys.executable).parent}:{os.environ['PATH']}"
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env={**os.environ, "PATH": path},
                             cwd=process.folder)
    lock = threading.Lock()

    def send(channel, data):
      with lock:
        self.wfile.write(frame(bytes([channel]) + data))
        self.wfile.flush()

    def copy(channel, stream):
      while data := stream.read1(1 << 14):
        send(channel, data)

    threads = [threading.Thread(target=copy, args=pair, daemon=True)
               for pair in ((STDOUT, child.stdout), (STDERR, child.stderr))]
    for thread in threads:
      thread.start()
    threading.Thread(target=self.feed, args=(child, process.folder), daemon=True).start()
    for thread in threads:
      thread.join()
    code = child.wait()
    send(STATUS, json.dumps({"status": "Success"} if code == 0 else {
      "status": "Failure", "reason": "NonZeroExitCode", "message": f"exit code {code}",
      "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]}}).encode())
    with lock:
      self.wfile.write(frame(struct.pack(">H", 1000), 8))
    self.close_connection = True
    return None

  def feed(self, child, folder):
    """What kubectl sends goes to the child. Paths of the pod are paths below its folder."""
    while True:
      kind, data = read_frame(self.rfile)
      if kind == 8 or not data or data[0] == CLOSE:
        child.stdin.close()
        return
      if data[0] == STDIN:
        child.stdin.write(data[1:].replace(b'"/stretto/job"', json.dumps(
          str(folder / "job")).encode()))
        child.stdin.flush()


def frame(data, kind=2):
  size = len(data)
  head = bytes([0x80 | kind, size]) if size < 126 else bytes([0x80 | kind, 126]) + struct.pack(
    ">H", size)
  return head + data


def read_frame(stream):
  head = stream.read(2)
  if len(head) < 2:
    return 8, b""
  size = head[1] & 127
  if size == 126:
    size = struct.unpack(">H", stream.read(2))[0]
  elif size == 127:
    size = struct.unpack(">Q", stream.read(8))[0]
  mask = stream.read(4) if head[1] & 128 else b"\0\0\0\0"
  data = stream.read(size)
  key = int.from_bytes(mask * (size // 4 + 1), "big") >> (8 * (4 - size % 4)) if size else 0
  return head[0] & 15, (int.from_bytes(data, "big") ^ key).to_bytes(size, "big") if size else b""


def matches(each, query):
  labels = each["metadata"].get("labels", {})
  for term in filter(None, query.get("labelSelector", [""])[0].split(",")):
    key, equals, value = term.partition("=")
    if labels.get(key) != value if equals else key not in labels:
      return False
  fields = query.get("fieldSelector", [""])[0]
  return all(each.get(k) == v for k, _, v in (f.partition("=") for f in filter(None,
                                                                             fields.split(","))))
