"""Reads flight records (docs/formats/flight-record.md) and says which rank lacks which operation:
`stretto run --dump`."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from stretto._comm_report import listed, size

FORMAT = "stretto flight record 1"
# The records of one job are written within seconds; a folder may still hold earlier ones.
OLDER_S = 600.0
SHOWN = 40

Record = dict[str, Any]


def files_of(paths: Iterable[str]) -> list[Path]:
  found: list[Path] = []
  for path in map(Path, paths):
    found += sorted(path.glob("rank-*.json")) if path.is_dir() else [path]
  return found


def read(paths: Sequence[str]) -> list[Record]:
  """One record per rank, the newest, by rank. ValueError says what is wrong with a file."""
  files = files_of(paths)
  if not files:
    raise ValueError(f"{', '.join(paths)}: there is no flight record (rank-*.json)")
  newest: dict[int, Record] = {}
  for file in files:
    try:
      record = json.loads(file.read_text())
    except OSError as error:
      raise ValueError(f"{file}: {error.strerror}") from None
    except ValueError:
      record = None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
      raise ValueError(f"{file}: expected a flight record of this version of Stretto")
    record["file"] = str(file)
    rank = record["rank"]
    if rank not in newest or newest[rank]["time"] < record["time"]:
      newest[rank] = record
  last = max(record["time"] for record in newest.values())
  return [r for _, r in sorted(newest.items()) if last - r["time"] <= OLDER_S]


def key_of(record: Record, operation: dict) -> tuple | None:
  """Equal for what several ranks do together; None if the operation has no number yet."""
  place = operation["group"]
  if place < 0 or operation["sequence"] is None:
    return None
  group = record["groups"][place]
  name = (group["name"], tuple(group["ranks"]), operation["sequence"])
  if operation["kind"] not in ("send", "recv"):
    return (*name, "collective")
  if operation["peer"] < 0:
    return None
  own, peer = record["rank"], group["ranks"][operation["peer"]]
  way = (own, peer) if operation["kind"] == "send" else (peer, own)
  return (*name, way, operation["tag"])


def described(operation: dict) -> str:
  text = operation["kind"]
  if operation["bytes"]:
    text += f" of {size(operation['bytes'])} {operation['dtype']}"
  return text + (f" '{operation['name']}'" if operation["name"] else "")


def merge(records: list[Record]) -> dict[str, Any]:
  """What is not over, with the ranks that are inside, over, or missing; what was over last."""
  by_rank = {record["rank"]: record for record in records}
  seen: dict[tuple, dict[int, dict]] = {}
  alone = []
  for record in records:
    for operation in record["operations"]:
      key = key_of(record, operation)
      if key is not None:
        seen.setdefault(key, {})[record["rank"]] = operation
      elif "age_s" in operation:
        alone.append((record, operation))
  still = [one(key, ranks, by_rank) for key, ranks in seen.items()
           if any("age_s" in operation for operation in ranks.values())]
  for record, operation in alone:
    place = operation["group"]
    group = record["groups"][place]["name"] if place >= 0 else "?"
    still.append({"group": group, "sequence": operation["sequence"],
                  "operation": described(operation), "age_s": operation["age_s"],
                  "inside": [record["rank"]], "over": [], "missing": [], "unknown": [],
                  "awaited": operation["awaited"], "differs": {}})
  still.sort(key=lambda row: -row["age_s"])
  size_of_job = max(record["size"] for record in records)
  return {"size": size_of_job, "ranks": [about(record) for record in records],
          "without_record": sorted(set(range(size_of_job)) - set(by_rank)), "open": still}


def one(key: tuple, ranks: dict[int, dict], by_rank: dict[int, Record]) -> dict[str, Any]:
  """An operation that at least one rank has not ended."""
  name, members, sequence = key[:3]
  taking_part = sorted(key[3]) if key[3] != "collective" else list(members)
  first_rank = min(r for r, operation in ranks.items() if "age_s" in operation)
  first = ranks[first_rank]
  missing, unknown, over = [], [], []
  for rank in taking_part:
    if rank in ranks:
      if "age_s" not in ranks[rank]:
        over.append(rank)
    elif rank not in by_rank:
      unknown.append(rank)
    elif key[3] == "collective" and next_number(by_rank[rank], name, members) > sequence:
      over.append(rank)  # longer ago than its record goes
    else:
      missing.append(rank)
  is_message = key[3] != "collective"
  differs = {} if is_message else {
      str(rank): described(o) for rank, o in sorted(ranks.items())
      if (o["kind"], o["dtype"]) != (first["kind"], first["dtype"]) or (
          o["kind"] == "all_reduce" and o["bytes"] != first["bytes"])}
  awaited = sorted({rank for o in ranks.values() for rank in o.get("awaited", [])})
  return {"group": name, "sequence": sequence, "operation": described(first),
          "age_s": max(o["age_s"] for o in ranks.values() if "age_s" in o),
          "inside": sorted(r for r, o in ranks.items() if "age_s" in o), "over": over,
          "missing": missing, "unknown": unknown, "awaited": awaited, "differs": differs}


def next_number(record: Record, name: str, members: tuple) -> int:
  for group in record["groups"]:
    if group["name"] == name and tuple(group["ranks"]) == members:
      return group["next_sequence"]
  return 0


def about(record: Record) -> dict[str, Any]:
  over = [o for o in record["operations"] if o["state"] == "done"]
  cut_off = [p["rank"] for p in record["peers"] if not p["connected"]]
  return {"rank": record["rank"], "host": record["host"], "pid": record["pid"],
          "time": record["time"], "reason": record["reason"], "submitted": record["submitted"],
          "finished": record["finished"], "failed": record["failed"],
          "last": described(over[-1]) if over else "", "not_connected": cut_off,
          "file": record["file"]}


def text(merged: dict[str, Any]) -> str:
  ranks = merged["ranks"]
  lines = [f"Flight records of {len(ranks)} of {merged['size']} ranks"]
  if merged["without_record"]:
    lines.append(f"No record of rank {listed(merged['without_record'])}: it was killed, or could "
                 "not write one")
  lines += ["", *table(["rank", "host", "pid", "written", "submitted", "over", "failed",
                        "not connected to", "last one over"],
                       [[str(r["rank"]), r["host"], str(r["pid"]), clock(r["time"]),
                         str(r["submitted"]), str(r["finished"]), str(r["failed"]),
                         listed(r["not_connected"]), r["last"]] for r in ranks])]
  reasons: dict[str, list[int]] = {}
  for r in ranks:
    reasons.setdefault(r["reason"], []).append(r["rank"])
  lines += ["", *(f"rank {listed(who)}: {reason}" for reason, who in reasons.items())]
  rows = merged["open"]
  lines.append("")
  if not rows:
    return "\n".join([*lines, "No operation is open."])
  lines += ["Operations that are not over, the oldest first", *table(
      ["age", "group", "number", "operation", "inside", "over on", "missing", "no record",
       "waits for"],
      [[f"{row['age_s']:.1f} s", row["group"],
        "-" if row["sequence"] is None else str(row["sequence"]), row["operation"],
        *(listed(row[name]) for name in ("inside", "over", "missing", "unknown", "awaited"))]
       for row in rows[:SHOWN]])]
  if len(rows) > SHOWN:
    lines.append(f"and {len(rows) - SHOWN} more; --json has all")
  for row in rows:
    lines += [f"number {row['sequence']} of {row['group']} differs on rank {rank}: {other}"
              for rank, other in row["differs"].items()]
  return "\n".join(lines)


def clock(seconds: float) -> str:
  return datetime.datetime.fromtimestamp(seconds).strftime("%H:%M:%S")


def table(head: list[str], rows: list[list[str]]) -> list[str]:
  """Columns that are empty in every row are left out."""
  kept = [i for i in range(len(head)) if any(row[i] for row in rows)]
  widths = [max(len(row[i]) for row in [head, *rows]) for i in kept]
  return ["  ".join(row[i].ljust(width) for i, width in zip(kept, widths)).rstrip()
          for row in [head, *rows]]


def show(paths: Sequence[str], as_json: bool) -> None:
  merged = merge(read(paths))
  print(json.dumps(merged, indent=1) if as_json else text(merged))


def any_in(folder: str) -> bool:
  return os.path.isdir(folder) and any(Path(folder).glob("rank-*.json"))


def show_as_asked(words: list[str]) -> int:
  """`stretto run --dump FILE... [--json]`: runs nothing."""
  p = argparse.ArgumentParser(prog="stretto run", allow_abbrev=False)
  p.add_argument("--dump", nargs="+", required=True, metavar="FILE")
  for names in (["--json"], ["-q", "--quiet"], ["-v", "--verbose"]):
    p.add_argument(*names, action="store_true")
  args = p.parse_args(words)
  try:
    show(args.dump, args.json)
  except ValueError as error:
    print(f"stretto run: {error}", file=sys.stderr)
    return 2
  return 0


def asked_for(words: list[str]) -> bool:
  """--dump comes before any word that is no flag."""
  before = next((i for i, word in enumerate(words) if word.split("=")[0] == "--dump"), -1)
  return before >= 0 and all(word in ("--json", "-q", "--quiet", "-v", "--verbose")
                             for word in words[:before])
