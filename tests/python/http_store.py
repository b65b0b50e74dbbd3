"""A web server for tests: files with ranges, ETags and listings, and faults on demand."""

from __future__ import annotations

import html
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit


class HttpStore:
  """Serves `root` at `url` until closed.

  `faults` maps the end of a path to how its GET requests go wrong, and how often: "drop" ends the
  connection in the middle, "short" sends less than was asked for as if it were all, "hang" does not
  answer, and a number is the status. `delay_s` is waited before each answer to a GET of a file.
  """

  def __init__(self, root: Path, *, ranges: bool = True, etags: bool = True) -> None:
    self.root, self.ranges, self.etags = root, ranges, etags
    self.faults: dict[str, tuple[str | int, int]] = {}
    self.delay_s = 0.0
    self.requests: list[tuple[str, str, str | None]] = []  # method, path, range
    self.sent: dict[str, int] = {}  # bytes of GET by path
    self.lock = threading.Lock()
    self.ending = threading.Event()
    store = self

    class Handler(BaseHTTPRequestHandler):
      protocol_version = "HTTP/1.1"

      def do_HEAD(self) -> None:  # noqa: N802
        store.answer(self, False)

      def do_GET(self) -> None:  # noqa: N802
        store.answer(self, True)

      def log_message(self, *args: object) -> None:
        pass

    self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    self.server.daemon_threads = True
    self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
    threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

  def close(self) -> None:
    self.ending.set()
    self.server.shutdown()
    self.server.server_close()

  def __enter__(self) -> HttpStore:
    return self

  def __exit__(self, *error: object) -> None:
    self.close()

  def gets(self, end: str) -> list[str | None]:
    """The ranges of the GET requests of paths that end so."""
    with self.lock:
      return [part for method, path, part in self.requests
              if method == "GET" and path.endswith(end)]

  def answer(self, to: BaseHTTPRequestHandler, body: bool) -> None:
    path = unquote(urlsplit(to.path).path)
    asked = to.headers.get("Range")
    with self.lock:
      self.requests.append((to.command, path, asked))
      fault = self.take_fault(path) if body else None
    if fault == "hang":
      self.ending.wait(60)
      to.close_connection = True
      return
    if isinstance(fault, int):
      self.send(to, fault, self.error_page(fault), {}, body)
      return
    file = self.file_of(path)
    if file.is_dir():
      self.send_folder(to, file, body)
      return
    if not file.is_file():
      self.send(to, 404, self.error_page(404), {}, body)
      return
    content = file.read_bytes()
    headers = {"Content-Type": "application/octet-stream", **self.version_of(file)}
    if body and self.delay_s:
      time.sleep(self.delay_s)
    status = 200
    if asked and self.ranges:
      begin, _, end = asked.removeprefix("bytes=").partition("-")
      first, last = int(begin), int(end) if end else len(content) - 1
      headers["Content-Range"] = f"bytes {first}-{min(last, len(content) - 1)}/{len(content)}"
      content, status = content[first:last + 1], 206
    if fault == "short":
      content = content[:len(content) // 2]
    if body:  # counted before it is sent: whoever has it all may look at once
      with self.lock:
        self.sent[path] = self.sent.get(path, 0) + len(content)
    self.send(to, status, content, headers, body, drop=fault == "drop")

  def file_of(self, path: str) -> Path:
    return self.root / path.strip("/")

  def version_of(self, file: Path) -> dict[str, str]:
    info = file.stat()
    return {"ETag": f'"{info.st_mtime_ns:x}-{info.st_size:x}"'} if self.etags else {}

  def error_page(self, status: int) -> bytes:
    return b""

  def send_folder(self, to: BaseHTTPRequestHandler, folder: Path, body: bool) -> None:
    names = sorted(p.name + "/" * p.is_dir() for p in folder.iterdir())
    page = "".join(f'<a href="{quote(n)}">{html.escape(n)}</a>\n' for n in ["../", *names])
    self.send(to, 200, page.encode(), {"Content-Type": "text/html"}, body)

  def take_fault(self, path: str) -> str | int | None:
    for end, (fault, count) in self.faults.items():
      if path.endswith(end) and count > 0:
        self.faults[end] = fault, count - 1
        return fault
    return None

  def send(self, to: BaseHTTPRequestHandler, status: int, content: bytes, headers: dict[str, str],
           body: bool, drop: bool = False) -> None:
    try:
      to.send_response(status)
      for name, value in headers.items():
        to.send_header(name, value)
      to.send_header("Content-Length", str(len(content)))
      to.end_headers()
      if body:
        to.wfile.write(content[:len(content) // 2] if drop else content)
        to.wfile.flush()
    except OSError:  # whoever asked is gone
      drop = True
    if drop:
      to.close_connection = True
