"""One self-contained HTML page about what a job's engines have sent."""

from __future__ import annotations

import html

kStyle = """body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .75rem;text-align:right;
border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}
.bar{background:#4a7ab5;height:.7rem;display:inline-block;vertical-align:middle}
.bad{color:#b00020}"""


def page(title: str, ranks: list[dict]) -> str:
  """`ranks`: what Engine.close leaves in STRETTO_RUN_FOLDER, one per rank."""
  parts = [f"<!doctype html><meta charset=utf-8><title>{html.escape(title)}</title>"
           f"<style>{kStyle}</style><h1>{html.escape(title)}</h1>"]
  parts.append(table(
      ["rank", "operations", "payload sent", "time adding", "resent chunks"],
      [[str(r["rank"]), str(s["operations"]), size(s["payload_bytes"]), f"{s['sum_s']:.2f} s",
        str(s["resent_chunks"])]
       for r in ranks for s in [r["statistics"]]]))
  streams = [(r["rank"], peer["rank"], stream) for r in ranks
             for peer in r["statistics"]["peers"] for stream in peer["streams"]]
  most = max((s["sent_bytes"] for _, _, s in streams), default=0)
  parts.append("<h2>Streams</h2>")
  parts.append(table(
      ["from, to", "link", "sent", "", "received"],
      [[f"{a} &rarr; {b}", html.escape(s["link"]) + ("" if s["alive"] else
                                                     " <span class=bad>lost</span>"),
        size(s["sent_bytes"]), bar(s["sent_bytes"], most), size(s["received_bytes"])]
       for a, b, s in streams]))
  found = [(r["rank"], f) for r in ranks for f in r["non_finite"]]
  if found:
    parts.append("<h2 class=bad>NaN or infinity</h2>")
    parts.append(table(["rank", "gradient", "values", "operation"],
                       [[str(rank), html.escape(f["name"] or "?"), str(f["count"]),
                         str(f["sequence"])] for rank, f in found[:100]]))
  return "\n".join(parts) + "\n"


def table(head: list[str], rows: list[list[str]]) -> str:
  lines = ["".join(f"<th>{h}</th>" for h in head)]
  lines += ["".join(f"<td>{cell}</td>" for cell in row) for row in rows]
  return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def bar(value: int, most: int) -> str:
  return f"<span class=bar style='width:{8 * value / most if most else 0:.2f}rem'></span>"


def size(count: float) -> str:
  for unit in ("B", "kB", "MB", "GB"):
    if count < 1000 or unit == "GB":
      return f"{count:.3g} {unit}"
    count /= 1000
  raise AssertionError("the last unit takes everything")
