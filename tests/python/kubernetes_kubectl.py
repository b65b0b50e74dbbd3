#!/usr/bin/env python3
"""Stands in for kubectl in tests where the real one is not installed: the verbs and options that
`stretto cluster` uses, and no others, sent to the server of kubernetes_server.py as kubectl sends
them. Started as a program."""

import argparse
import base64
import http.client
import json
import os
import socket
import struct
import sys
import threading
from urllib.parse import quote, urlsplit


class Failed(Exception):
  pass


def options():
  p = argparse.ArgumentParser(prog="kubectl", allow_abbrev=False)
  for name in ("--context", "--namespace", "--request-timeout"):
    p.add_argument(name, default="")
  verbs = p.add_subparsers(dest="verb", required=True)
  for verb, flags, values in (
      ("config", ["--minify"], ["-o"]), ("version", [], ["-o"]),
      ("api-resources", [], ["--api-group", "-o"]), ("create", [], ["--validate", "-f", "-o"]),
      ("get", [], ["-l", "-o", "--field-selector"]),
      ("delete", ["--ignore-not-found"], ["--wait", "--cascade", "--timeout", "-l"]),
      ("patch", [], ["--type", "-p"]),
      ("logs", ["--prefix", "--timestamps", "--ignore-errors", "-f"],
       ["-l", "-c", "--tail", "--max-log-requests", "--since-time", "--since"]),
      ("exec", ["-i", "-it"], ["-c"])):
    v = verbs.add_parser(verb, allow_abbrev=False)
    for flag in flags:
      v.add_argument(flag, action="store_true")
    for value in values:
      v.add_argument(value, default="")
    v.add_argument("words", nargs="*")
  return p


class Client:

  def __init__(self, context, namespace):
    with open(os.environ["KUBECONFIG"]) as file:
      self.config = json.load(file)
    self.name = context or self.config["current-context"]
    found = [c["context"] for c in self.config["contexts"] if c["name"] == self.name]
    if not found:
      raise Failed(f'error: context "{self.name}" does not exist')
    self.context = found[0]
    self.namespace = namespace or self.context.get("namespace", "default")
    url = next(c["cluster"]["server"] for c in self.config["clusters"]
               if c["name"] == self.context["cluster"])
    self.host, self.port = urlsplit(url).hostname, urlsplit(url).port

  def open(self, method, path, body=None):
    connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
    try:
      connection.request(method, path, body)
      return connection.getresponse()
    except OSError:
      raise Failed(f"The connection to the server {self.host}:{self.port} was refused - did you "
                   "specify the right host or port?") from None

  def ask(self, method, path, body=None):
    answer = self.open(method, path, body)
    found = json.loads(answer.read())
    if answer.status >= 400:
      raise Failed(f"Error from server ({found['reason']}): {found['message']}")
    return found

  def kinds(self):
    """Plural and kind to the path of their objects."""
    found = {}
    groups = [f"{v['groupVersion']}" for g in self.ask("GET", "/apis")["groups"]
              for v in g["versions"]]
    for group in ["v1", *groups]:
      root = f"/api/{group}" if group == "v1" else f"/apis/{group}"
      for each in self.ask("GET", root)["resources"]:
        place = f"{root}/namespaces/{self.namespace}" if each["namespaced"] else root
        for name in (each["name"], each["kind"], each["singularName"],
                     f"{each['name']}.{group.split('/')[0]}"):
          found[name] = f"{place}/{each['name']}"
    return found

  def path(self, kind):
    found = self.kinds().get(kind)
    if not found:
      raise Failed(f'error: the server doesn\'t have a resource type "{kind.split(".")[0]}"')
    return found

  # Verbs.

  def do_config(self, args):
    return json.dumps({"current-context": self.name,
                       "contexts": [{"name": self.name, "context": self.context}]})

  def do_version(self, args):
    return json.dumps({"clientVersion": {}, "serverVersion": self.ask("GET", "/version")})

  def do_api_resources(self, args):
    group = next((g for g in self.ask("GET", "/apis")["groups"] if g["name"] == args.api_group),
                 None)
    if not group:
      return ""
    found = self.ask("GET", f"/apis/{group['versions'][0]['groupVersion']}")["resources"]
    return "".join(f"{each['name']}.{args.api_group}\n" for each in found)

  def do_create(self, args):
    each = json.load(sys.stdin)
    if each["kind"] not in self.kinds():
      raise Failed(f'error: no matches for kind "{each["kind"]}" in version "{each["apiVersion"]}"')
    return json.dumps(self.ask("POST", self.path(each["kind"]), json.dumps(each)))

  def do_get(self, args):
    query = f"?labelSelector={quote(args.l)}&fieldSelector={quote(args.field_selector)}"
    items = []
    for kind in args.words[0].split(","):
      path = self.path(kind)
      if args.words[1:]:
        return json.dumps(self.ask("GET", f"{path}/{args.words[1]}"))
      items += self.ask("GET", path + query)["items"]
    if args.o == "name":
      return "".join(f"{args.words[0]}/{each['metadata']['name']}\n" for each in items)
    if args.o.startswith("jsonpath="):  # of nodes
      return "".join(f"{each['metadata']['labels'].get('stretto/chip', '')}\t"
                     f"{json.dumps(each['status']['allocatable'])}\n" for each in items)
    return json.dumps({"kind": "List", "items": items})

  def do_delete(self, args):
    policy = "Foreground" if args.cascade == "foreground" else "Background"
    paths = [f"{self.path(args.words[0])}/{args.words[1]}"] if args.words[1:] else [
      f"{self.path(kind)}/{each['metadata']['name']}" for kind in args.words[0].split(",")
      for each in self.ask("GET", f"{self.path(kind)}?labelSelector={quote(args.l)}")["items"]]
    for path in paths:
      try:
        self.ask("DELETE", path, json.dumps({"propagationPolicy": policy}))
      except Failed as error:
        if "(NotFound)" not in str(error) or not args.ignore_not_found:
          raise
    return ""

  def do_patch(self, args):
    for word in args.words:
      kind, _, name = word.partition("/")
      self.ask("PATCH", f"{self.path(kind)}/{name}", args.p)
    return ""

  def do_logs(self, args):
    pods = self.path("pods")
    items = self.ask("GET", f"{pods}?labelSelector={quote(args.l)}")["items"]
    lock = threading.Lock()
    since = f"sinceTime={args.since_time}"
    if args.since:
      since = f"sinceSeconds={int(args.since[:-1]) * {'s': 1, 'm': 60, 'h': 3600}[args.since[-1]]}"

    def copy(name):
      answer = self.open("GET", f"{pods}/{name}/log?timestamps=true&follow="
                         f"{'true' if args.f else 'false'}&{since}")
      if answer.status >= 400:
        return print("error:", json.loads(answer.read())["message"], flush=True)
      for line in answer:
        with lock:
          sys.stdout.buffer.write(f"[pod/{name}/{args.c}] ".encode() + line)
          sys.stdout.buffer.flush()
      return None

    threads = [threading.Thread(target=copy, args=(each["metadata"]["name"],), daemon=True)
               for each in items]
    for thread in threads:
      thread.start()
    for thread in threads:
      thread.join()
    return ""

  def do_exec(self, args):
    from kubernetes_server import read_frame
    pod, *words = args.words
    query = "&".join(f"command={quote(word, safe='')}" for word in words)
    path = f"{self.path('pods')}/{pod}/exec?{query}&container={args.c}&stdin=true&stdout=true"
    connection = socket.create_connection((self.host, self.port))
    key = base64.b64encode(os.urandom(16)).decode()
    connection.sendall((f"GET {path} HTTP/1.1\r\nHost: here\r\nUpgrade: websocket\r\n"
                        f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n\r\n").encode())
    stream = connection.makefile("rb")
    while stream.readline().strip():
      pass

    def feed():
      while data := sys.stdin.buffer.read1(1 << 14):
        connection.sendall(masked(b"\0" + data))
      connection.sendall(masked(bytes([255, 0])))

    threading.Thread(target=feed, daemon=True).start()
    while True:
      kind, data = read_frame(stream)
      if kind == 8 or not data:
        return ""
      if data[0] == 3 and (ended := json.loads(data[1:]))["status"] != "Success":
        raise Failed(f"command terminated with {ended['message']}")
      if data[0] in (1, 2):
        out = (sys.stdout if data[0] == 1 else sys.stderr).buffer
        out.write(data[1:])
        out.flush()


def masked(data):
  size = len(data)
  head = bytes([0x82, 0x80 | size]) if size < 126 else bytes([0x82, 0xFE]) + struct.pack(">H", size)
  return head + b"\0\0\0\0" + data


def main():
  words = sys.argv[1:]
  given, rest = (words[:words.index("--")], words[words.index("--") + 1:]) if "--" in words else (
    words, [])
  args = options().parse_args(given)
  args.words += rest
  try:
    client = Client(args.context, args.namespace)
    sys.stdout.write(getattr(client, f"do_{args.verb.replace('-', '_')}")(args))
  except Failed as error:
    print(error, file=sys.stderr)
    return 1
  return 0


if __name__ == "__main__":
  sys.exit(main())
