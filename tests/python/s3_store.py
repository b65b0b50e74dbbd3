"""A store for tests that speaks enough of S3 to read: objects, ranges and listings in pages."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime, timezone
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from http_store import HttpStore

BUCKET, KEY = "pictures", "TESTKEY"
CODES = {403: "AccessDenied", 404: "NoSuchKey", 500: "InternalError", 503: "SlowDown"}
PAGE = 5  # entries of a listing, as S3 has 1,000


class S3Store(HttpStore):
  """Serves `root` as the bucket at `bucket_url` to whoever opens it with `storage_options`.

  Requests have to be signed with KEY; the signature itself is not looked at.
  """

  bucket_url = f"s3://{BUCKET}"

  @property
  def storage_options(self) -> dict:
    return {"key": KEY, "secret": "any", "endpoint_url": self.url}

  def answer(self, to: BaseHTTPRequestHandler, body: bool) -> None:
    signed = re.search(r"Credential=(\w+)/", to.headers.get("Authorization", ""))
    if signed is None or signed[1] != KEY:
      self.send(to, 403, self.error_page(403), {}, body)
      return
    super().answer(to, body)

  def file_of(self, path: str) -> Path:
    bucket, _, key = path.strip("/").partition("/")
    return self.root / (key if bucket == BUCKET else "no such bucket")

  def version_of(self, file: Path) -> dict[str, str]:
    return {"ETag": f'"{hashlib.md5(file.read_bytes()).hexdigest()}"',
            "Last-Modified": formatdate(file.stat().st_mtime, usegmt=True)}

  def error_page(self, status: int) -> bytes:
    return f"<Error><Code>{CODES[status]}</Code><Message>As asked</Message></Error>".encode()

  def send_folder(self, to: BaseHTTPRequestHandler, folder: Path, body: bool) -> None:
    asked = {name: values[0] for name, values in parse_qs(urlsplit(to.path).query).items()}
    if folder != self.root or asked.get("list-type") != "2":
      self.send(to, 404, self.error_page(404), {}, body)  # a folder is no object
      return
    page = self.listing(asked.get("prefix", ""), asked.get("delimiter", ""),
                        unquote(asked.get("continuation-token", "")),
                        min(PAGE, int(asked.get("max-keys", PAGE))))
    self.send(to, 200, page.encode(), {"Content-Type": "application/xml"}, body)

  def listing(self, prefix: str, delimiter: str, after: str, most: int) -> str:
    entries = {}  # the XML of each by its name, in the order of names
    for file in sorted(p for p in self.root.rglob("*") if p.is_file()):
      key = file.relative_to(self.root).as_posix()
      if not key.startswith(prefix):
        continue
      inside, found, _ = key[len(prefix):].partition(delimiter or "\0")
      if delimiter and found:
        name = prefix + inside + delimiter
        entries[name] = f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
        continue
      time = datetime.fromtimestamp(int(file.stat().st_mtime), timezone.utc)
      entries[key] = (f"<Contents><Key>{escape(key)}</Key><Size>{file.stat().st_size}</Size>"
                      f"<ETag>{escape(self.version_of(file)['ETag'])}</ETag>"
                      f"<LastModified>{time:%Y-%m-%dT%H:%M:%S.000Z}</LastModified></Contents>")
    names = [name for name in sorted(entries) if name > after]
    more = len(names) > most
    token = ""
    if more:
      token = f"<NextContinuationToken>{escape(names[most - 1])}</NextContinuationToken>"
    return ("<?xml version='1.0' encoding='UTF-8'?>"
            "<ListBucketResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>"
            f"<Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix>"
            f"<KeyCount>{len(names[:most])}</KeyCount><MaxKeys>{most}</MaxKeys>"
            f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}"
            + "".join(entries[name] for name in names[:most]) + "</ListBucketResult>")
