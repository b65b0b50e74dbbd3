"""One self-contained HTML page about what a job's engines have sent, and what they found out."""

from __future__ import annotations

import html

kStyle = """body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .75rem;text-align:right;
border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}
.bar{background:#4a7ab5;height:.7rem;display:inline-block;vertical-align:middle}
.bad{color:#b00020}.won{color:#2e7d32}.note{color:#666}
svg{width:100%;background:#fafafa;border:1px solid #eee}svg text{font:11px system-ui,sans-serif}
.queue{fill:#d8d8d8}.wire{fill:#4a7ab5}.sum{fill:#e08a2e}"""

# The timeline shows the end of the run, where settings have settled.
kTimelineS = 0.25
kTimelineEvents = 3000
kLaneHeight = 9
# What PeerStatistics.no_rdma says where nobody asked for more.
kExpectedWithoutRdma = ("", "STRETTO_RDMA is off", "on the same host")


def page(title: str, ranks: list[dict]) -> str:
  """`ranks`: what Engine.close leaves in STRETTO_RUN_FOLDER, one per rank."""
  parts = [f"<!doctype html><meta charset=utf-8><title>{html.escape(title)}</title>"
           f"<style>{kStyle}</style><h1>{html.escape(title)}</h1>"]
  parts.append(table(
      ["rank", "operations", "payload sent", "time adding", "resent chunks"],
      [[str(r["rank"]), str(s["operations"]), size(s["payload_bytes"]), f"{s['sum_s']:.2f} s",
        str(s["resent_chunks"])]
       for r in ranks for s in [r["statistics"]]]))
  parts += steps(ranks)
  streams = [(r["rank"], peer["rank"], stream) for r in ranks
             for peer in r["statistics"]["peers"] for stream in peer["streams"]]
  most = max((s["sent_bytes"] for _, _, s in streams), default=0)
  parts.append("<h2>Streams</h2>")
  parts.append(table(
      ["from, to", "link", "sent", "", "received"],
      [[f"{a} &rarr; {b}", link(s), size(s["sent_bytes"]), bar(s["sent_bytes"], most),
        size(s["received_bytes"])] for a, b, s in streams]))
  parts += [f"<p>{r['rank']} &rarr; {peer['rank']}: no RDMA: {html.escape(peer['no_rdma'])}"
            for r in ranks for peer in r["statistics"]["peers"]
            if peer.get("no_rdma", "") not in kExpectedWithoutRdma]
  parts += tuning(ranks)
  parts += segments(ranks)
  parts += timeline(ranks)
  found = [(r["rank"], f) for r in ranks for f in r["non_finite"]]
  if found:
    parts.append("<h2 class=bad>NaN or infinity</h2>")
    parts.append(table(["rank", "gradient", "values", "operation"],
                       [[str(rank), html.escape(f["name"] or "?"), str(f["count"]),
                         str(f["sequence"])] for rank, f in found[:100]]))
  return "\n".join(parts) + "\n"


def link(stream: dict) -> str:
  lost = "" if stream["alive"] else " <span class=bad>lost</span> "
  return html.escape(stream["link"]) + lost + html.escape(stream.get("reason", ""))


def groups(ranks: list[dict]) -> list[tuple[int, dict]]:
  return [(r["rank"], group) for r in ranks for group in r["statistics"].get("tuning", [])]


def steps(ranks: list[dict]) -> list[str]:
  """Where steps could be told apart: how much of the communication was hidden behind computing."""
  rows = []
  for rank, group in groups(ranks):
    count = group["steps"]
    if not count:
      continue
    busy, exposed = group["busy_s"] / count, group["exposed_s"] / count
    rows.append([str(rank), html.escape(group["group"]), html.escape(group["model"]), str(count),
                 milliseconds(group["seconds"] / count), size(group["bytes"] / count),
                 milliseconds(busy), milliseconds(exposed),
                 f"{1 - exposed / busy:.0%}" if busy > 0 else "-"])
  if not rows:
    return []
  return ["<h2>Steps</h2>",
          table(["rank", "group", "a step", "steps", "step", "gradients", "communication", "tail",
                 "overlap"], rows),
          "<p class=note>Means. Tail: communication after the last operation of a step was "
          "submitted, or while somebody waited for it. Overlap: the rest of it.</p>"]


def tuning(ranks: list[dict]) -> list[str]:
  """All ranks try the same, so the first one speaks for its group."""
  parts, seen = [], set()
  for _, group in groups(ranks):
    if group["group"] in seen:
      continue
    seen.add(group["group"])
    state = "from the record" if group["recalled"] and not group["tried"] else (
        "settled" if group["settled"] else "still trying")
    parts.append(f"<h2>Settings of group {html.escape(group['group'])}</h2><p>In use: "
                 f"<b>{html.escape(group['setting'])}</b> ({state}).</p>")
    if group["tried"]:
      parts.append(table(
          ["tried", "step", "against", "", "outcome"],
          [[html.escape(t["setting"]), milliseconds(t["seconds"]),
            milliseconds(t["against_seconds"]),
            f"{t['against_seconds'] / t['seconds']:.2f}x" if t["seconds"] > 0 else "-",
            "<span class=won>won</span>" if t["won"] else "lost"] for t in group["tried"]]))
  return parts


def segments(ranks: list[dict]) -> list[str]:
  """What attach() tried of cutting buckets, and its plan for DDP's own."""
  found = [note for r in ranks[:1] for note in r.get("segments", [])]
  if not found:
    return []
  parts = ["<h2>Segments of gradients</h2>"]
  tried = [n for n in found if "parts" in n]
  if tried:
    parts.append(table(["parts of buckets", "step", "expected tail", "outcome"],
                       [[str(n["parts"]), milliseconds(n["step_s"]),
                         milliseconds(n["expected_tail_s"]) if n["expected_tail_s"] else "-",
                         "<span class=won>chosen</span>" if n["chosen"] else ""] for n in tried]))
  parts += [f"<p>Whole buckets: {html.escape(n['whole_buckets'])}.</p>" for n in found
            if "whole_buckets" in n]
  parts += [f"<pre>{html.escape(n['plan'])}</pre>" for n in found if "plan" in n]
  return parts


def timeline(ranks: list[dict]) -> list[str]:
  """The end of the run as a picture, when there is a trace."""
  spans = [(r["rank"], e) for r in ranks for e in r["trace"] if e.get("ph") == "X"]
  if not spans:
    return []
  end = max(e["ts"] + e["dur"] for _, e in spans)
  begin = max(min(e["ts"] for _, e in spans), end - kTimelineS * 1e6)
  shown = [(rank, e) for rank, e in spans if e["ts"] + e["dur"] > begin][-kTimelineEvents:]
  lanes = {lane: y for y, lane in enumerate(sorted({(rank, e["tid"]) for rank, e in shown}))}
  shapes, labelled = [], set()
  for (rank, _), y in lanes.items():
    if rank not in labelled:
      labelled.add(rank)
      shapes.append(f"<text x=2 y={(y + 1) * kLaneHeight}>rank {rank}</text>")
  for rank, e in shown:
    x = 60 + 940 * (max(e["ts"], begin) - begin) / (end - begin)
    width = max(940 * (e["ts"] + e["dur"] - max(e["ts"], begin)) / (end - begin), 0.5)
    shapes.append(f"<rect class={e['cat']} x={x:.1f} y={lanes[rank, e['tid']] * kLaneHeight + 1} "
                  f"width={width:.1f} height={kLaneHeight - 2}><title>{html.escape(e['cat'])}: "
                  f"{html.escape(e['name'])}, {e['dur'] / 1e3:.2f} ms</title></rect>")
  height = (len(lanes) + 1) * kLaneHeight
  return [f"<h2>The last {(end - begin) / 1e3:.0f} ms</h2>"
          f"<svg viewBox='0 0 1000 {height}'>{''.join(shapes)}</svg>"
          "<p class=note>Grey: queued. Blue: on the wire. Orange: sums. --trace writes all of it."
          "</p>"]


def milliseconds(seconds: float) -> str:
  return f"{seconds * 1e3:.3g} ms"


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
