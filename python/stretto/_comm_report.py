"""Writes one self-contained HTML page about what the engines of a job sent and measured."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from stretto import _stretto

# This page uses the style of a model's report, which _stretto.report_style() returns, and adds:
STYLE = """th{cursor:default}td:not(:first-child),th:not(:first-child){text-align:right}
.links td:nth-child(2),.links th:nth-child(2){text-align:left}
.sent{background:var(--accent);height:9px;display:inline-block;border-radius:3px;min-width:1px}
.won{color:var(--accent)}pre{font-size:13px;margin:12px 0 0;overflow:auto}
svg{width:100%;background:var(--paper);border:1px solid var(--line);border-radius:8px}
svg text{font:11px system-ui,sans-serif;fill:var(--soft)}
.queue{fill:var(--before)}.wire{fill:var(--c1)}.sum{fill:var(--c2)}
i.queue,i.wire,i.sum{display:inline-block;width:10px;height:10px;border-radius:3px;
margin:0 5px 0 12px}i.queue{background:var(--before)}i.wire{background:var(--c1)}
i.sum{background:var(--c2)}"""

# The timeline shows the end of the run, where settings have settled.
TIMELINE_S = 0.25
TIMELINE_EVENTS = 3000
SHOWN_REPORTS = 100  # of NaN
LANE_HEIGHT = 9
# What LinkStatistics.no_rdma says where nobody asked for more.
EXPECTED_WITHOUT_RDMA = ("", "STRETTO_RDMA is off", "on the same host")


def page(title: str, ranks: list[dict], validated: Sequence[dict] = ()) -> str:
  """The page. `ranks` holds, for each rank, what Engine.close leaves in STRETTO_RUN_FOLDER
  (stretto._account); `validated` the results of --validate."""
  name = html.escape(title)
  sections = [lacking(ranks), non_finite(ranks), validation(validated), steps(ranks),
              streams(ranks), *tuning(ranks), segments(ranks), shares(ranks), timeline(ranks),
              operations(ranks)]
  return "\n".join([
      "<!doctype html><html lang=en><meta charset=utf-8>"
      "<meta name=viewport content='width=device-width, initial-scale=1'>"
      f"<title>{name}</title><style>{_stretto.report_style()}{STYLE}</style><main>",
      f"<header><div class=brand>Stretto training report</div><h1>{name}</h1></header>",
      cards(ranks), *(part for part in sections if part), "</main></html>"]) + "\n"


def section(heading: str, note: str, *parts: str) -> str:
  return (f"<section><h2>{heading}</h2>" + (f"<p class=note>{note}</p>" if note else "") +
          "".join(parts) + "</section>")


def missing(ranks: list[dict]) -> list[int]:
  """Ranks of the job of which there is no account."""
  size = max((r.get("size", r["rank"] + 1) for r in ranks), default=0)
  return sorted(set(range(size)) - {r["rank"] for r in ranks})


def lacking(ranks: list[dict]) -> str:
  absent = missing(ranks)
  if ranks and not absent:
    return ""
  which = f"Rank{'s' if len(absent) > 1 else ''} {listed(absent)}" if ranks else "Every rank"
  return section("<span class=bad>This page is incomplete</span>", "",
                 f"<p>{which} left no account: it ended before its engine was closed, or was not "
                 "connected to rank 0 at its end. Programs in C leave none.</p>")


def listed(ranks: list[int]) -> str:
  """ "0, 2-5", for jobs of many ranks."""
  runs: list[list[int]] = []
  for rank in ranks:
    if runs and rank == runs[-1][1] + 1:
      runs[-1][1] = rank
    else:
      runs.append([rank, rank])
  return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def cards(ranks: list[dict]) -> str:
  """The most important figures."""
  all_of = [r["statistics"] for r in ranks]
  absent = missing(ranks)
  count = f"{len(ranks)} of {len(ranks) + len(absent)}" if absent else str(len(ranks))
  shown = [("Ranks", count, hosts(ranks)),
           ("Operations", str(max((s["operations"] for s in all_of), default=0)), "of a rank"),
           ("Sent", size(sum(s["payload_bytes"] for s in all_of)), "by all ranks together")]
  for _, group in groups(ranks)[:1]:
    if group["steps"]:
      count, busy, exposed = group["steps"], group["busy_s"], group["exposed_s"]
      shown += [("Step", milliseconds(group["seconds"] / count), f"mean of {count}"),
                ("Tail", milliseconds(exposed / count), "communication nothing hides"),
                ("Overlap", f"{1 - exposed / busy:.0%}" if busy > 0 else "-",
                 "of communication behind computing")]
  return "<div class=cards>" + "".join(
      f"<div class=card><div class=name>{name}</div><div class=value>{value}</div>"
      f"<div class=detail>{detail}</div></div>" for name, value, detail in shown) + "</div>"


def hosts(ranks: list[dict]) -> str:
  count = len({link["host"] for r in ranks for link in r["statistics"]["links"]})
  return "on this host" if count <= 1 else f"on {count} hosts"


def operations(ranks: list[dict]) -> str:
  return section("Ranks", "", table(
      ["rank", "operations", "payload sent", "time adding", "resent chunks"],
      [[str(r["rank"]), str(s["operations"]), size(s["payload_bytes"]), f"{s['sum_s']:.2f} s",
        str(s["resent_chunks"])]
       for r in ranks for s in [r["statistics"]]]))


def streams(ranks: list[dict]) -> str:
  found = [(r["rank"], link["rank"], stream) for r in ranks
           for link in r["statistics"]["links"] for stream in link["streams"]]
  if not found:
    return ""
  most = max(s["sent_bytes"] for _, _, s in found)
  without = [f"<p class=note>{r['rank']} &rarr; {link['rank']}: no RDMA: "
             f"{html.escape(link['no_rdma'])}</p>"
             for r in ranks for link in r["statistics"]["links"]
             if link.get("no_rdma", "") not in EXPECTED_WITHOUT_RDMA]
  return section("Streams", "Bytes with headers, from each rank's side. Streams in reserve were "
                 "not in use at the end: more of them did not pay.", table(
      ["from, to", "stream", "sent", "", "received"],
      [[f"{a} &rarr; {b}", stream_name(s), size(s["sent_bytes"]), bar(s["sent_bytes"], most),
        size(s["received_bytes"])] for a, b, s in found], "links"), *without)


def non_finite(ranks: list[dict]) -> str:
  found = [(r["rank"], f) for r in ranks for f in r["non_finite"]]
  if not found:
    return ""
  shown, all_ = found[:SHOWN_REPORTS], sum(1 + f.get("more", 0) for _, f in found)
  note = f"The first {len(shown)} of {all_} reports." if all_ > len(shown) else ""
  return section("<span class=bad>NaN or infinity</span>", note, table(
      ["rank", "gradient", "values", "operation"],
      [[str(rank), html.escape(f["name"] or "?"), str(f["count"]), str(f["sequence"])]
       for rank, f in shown]))


def stream_name(stream: dict) -> str:
  state = ("" if stream["used"] else " (in reserve)") if stream["alive"] else \
      " <span class=bad>lost</span> "
  return html.escape(stream["name"]) + state + html.escape(stream.get("reason", ""))


def groups(ranks: list[dict]) -> list[tuple[int, dict]]:
  return [(r["rank"], group) for r in ranks for group in r["statistics"].get("tuning", [])]


def steps(ranks: list[dict]) -> str:
  """How much communication overlapped with computing, if the engine recognised training steps."""
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
    return ""
  return section("Steps", "Means. Tail: communication after the last operation of a step was "
                 "submitted, or while somebody waited for it. Overlap: the rest of it.",
                 table(["rank", "group", "a step", "steps", "step", "gradients", "communication",
                        "tail", "overlap"], rows))


def tuning(ranks: list[dict]) -> list[str]:
  """The settings that were tried: the same on all ranks, so those of the first rank."""
  parts, seen = [], set()
  for _, group in groups(ranks):
    if group["group"] in seen:
      continue
    seen.add(group["group"])
    state = "from the tuning cache" if group["recalled"] and not group["tried"] else (
        "settled" if group["settled"] else "still trying")
    tried = table(
        ["tried", "step", "against", "", "outcome"],
        [[html.escape(t["setting"]), milliseconds(t["seconds"]),
          milliseconds(t["against_seconds"]),
          f"{t['against_seconds'] / t['seconds']:.2f}x" if t["seconds"] > 0 else "-",
          "<span class=won>won</span>" if t["won"] else "lost"] for t in group["tried"]])
    parts.append(section(f"Settings of group {html.escape(group['group'])}",
                         f"In use: <b>{html.escape(group['setting'])}</b> ({state}).",
                         tried if group["tried"] else ""))
  return parts


def shares(ranks: list[dict]) -> str:
  """How stretto.torch.Shares divided batches, which is the same on every rank."""
  found = [entry for r in ranks[:1] for entry in r.get("shares", [])]
  if not found:
    return ""
  return section("Shares of unlike chips", "Samples of each rank in a global batch.", table(
      ["from batch", "samples of each rank", "samples/s of each rank", "why"],
      [[str(e["batch"]), ", ".join(map(str, e["shares"])),
        ", ".join(f"{speed:.4g}" for speed in e["speeds"]) or "-", html.escape(e["reason"])]
       for e in found]))


def segments(ranks: list[dict]) -> str:
  """The ways to cut buckets that attach() tried, and the sizes that it proposes for DDP."""
  found = [note for r in ranks[:1] for note in r.get("segments", [])]
  if not found:
    return ""
  parts = []
  tried = [n for n in found if "parts" in n]
  if tried:
    parts.append(table(["parts of buckets", "step", "expected tail", "outcome"],
                       [[str(n["parts"]), milliseconds(n["step_s"]),
                         milliseconds(n["expected_tail_s"]) if n["expected_tail_s"] else "-",
                         "<span class=won>chosen</span>" if n["chosen"] else ""] for n in tried]))
  parts += [f"<p>Whole buckets: {html.escape(n['whole_buckets'])}.</p>" for n in found
            if "whole_buckets" in n]
  parts += [f"<pre>{html.escape(n['plan'])}</pre>" for n in found if "plan" in n]
  return section("Segments of gradients", "", *parts)


def timeline(ranks: list[dict]) -> str:
  """A picture of the last operations, if there is a trace."""
  spans = [(r["rank"], e) for r in ranks for e in r["trace"] if e.get("ph") == "X"]
  if not spans:
    return ""
  end = max(e["ts"] + e["dur"] for _, e in spans)
  begin = max(min(e["ts"] for _, e in spans), end - TIMELINE_S * 1e6)
  shown = [(rank, e) for rank, e in spans if e["ts"] + e["dur"] > begin][-TIMELINE_EVENTS:]
  lanes = {lane: y for y, lane in enumerate(sorted({(rank, e["tid"]) for rank, e in shown}))}
  shapes, labelled = [], set()
  for (rank, _), y in lanes.items():
    if rank not in labelled:
      labelled.add(rank)
      shapes.append(f"<text x=4 y={(y + 1) * LANE_HEIGHT + 1}>rank {rank}</text>")
  for rank, e in shown:
    x = 60 + 940 * (max(e["ts"], begin) - begin) / (end - begin)
    width = max(940 * (e["ts"] + e["dur"] - max(e["ts"], begin)) / (end - begin), 0.5)
    shapes.append(f"<rect class={e['cat']} x={x:.1f} y={lanes[rank, e['tid']] * LANE_HEIGHT + 1} "
                  f"width={width:.1f} height={LANE_HEIGHT - 2}><title>{html.escape(e['cat'])}: "
                  f"{html.escape(e['name'])}, {e['dur'] / 1e3:.2f} ms</title></rect>")
  height = (len(lanes) + 1) * LANE_HEIGHT
  return section(
      f"The last {(end - begin) / 1e3:.0f} ms",
      "<i class=queue></i>queued<i class=wire></i>on the wire<i class=sum></i>being added. "
      "--trace writes all of it.",
      f"<svg viewBox='0 0 1000 {height}'>{''.join(shapes)}</svg>")


def validation(rows: Sequence[dict]) -> str:
  """A curve of each number that validations printed, and a table."""
  if not rows:
    return ""
  began = rows[0]["written_s"]
  curves: dict[str, list[tuple[float, float]]] = {}
  for row in rows:
    for name, value in (row["result"] or {}).items():
      if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        curves.setdefault(name, []).append((row["written_s"] - began, value))
  parts = [curve(name, points) for name, points in curves.items() if len(points) > 1]
  return section("Validation", "By the time at which the checkpoints were written.", *parts, table(
      ["checkpoint", "written after", "outcome", "took", "result"],
      [[html.escape(row["checkpoint"]), f"{row['written_s'] - began:.1f} s",
        row["outcome"] if row["outcome"] == "ok" else f"<span class=bad>{row['outcome']}</span>",
        f"{row['seconds']:.1f} s",
        html.escape(", ".join(f"{k} {v}" for k, v in (row["result"] or {}).items()))]
       for row in rows]))


def curve(name: str, points: list[tuple[float, float]]) -> str:
  end = max(x for x, _ in points) or 1.0
  low, high = min(y for _, y in points), max(y for _, y in points)
  drawn = " ".join(f"{70 + 920 * x / end:.1f},{110 - 90 * (y - low) / ((high - low) or 1.0):.1f}"
                   for x, y in points)
  return (f"<svg viewBox='0 0 1000 130'><text x=4 y=14>{html.escape(name)}</text>"
          f"<text x=4 y=30>{high:.4g}</text><text x=4 y=112>{low:.4g}</text>"
          f"<polyline points='{drawn}' fill=none stroke='var(--accent)' stroke-width=2 /></svg>")


def milliseconds(seconds: float) -> str:
  return f"{seconds * 1e3:.3g} ms"


def table(head: list[str], rows: list[list[str]], kind: str = "") -> str:
  lines = ["".join(f"<th>{h}</th>" for h in head)]
  lines += ["".join(f"<td>{cell}</td>" for cell in row) for row in rows]
  return f"<table class='{kind}'>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def bar(value: int, most: int) -> str:
  return f"<span class=sent style='width:{8 * value / most if most else 0:.2f}rem'></span>"


def size(count: float) -> str:
  for unit in ("B", "kB", "MB", "GB"):
    if count < 1000 or unit == "GB":
      return f"{count:.3g} {unit}"
    count /= 1000
  raise AssertionError("the last unit takes everything")
