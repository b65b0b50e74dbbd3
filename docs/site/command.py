"""Writes the reference pages that the `stretto` command describes itself: its verbs and options."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any


def ask(environment: Mapping[str, str], *words: str) -> Any:
  """What `stretto WORDS --json` prints."""
  done = subprocess.run([sys.executable, "-m", "stretto", *words, "--json"], capture_output=True,
                        text=True, env=dict(environment))
  if done.returncode:
    raise SystemExit(f"docs: stretto {' '.join(words)} --json: {done.stderr.strip()}")
  return json.loads(done.stdout)


def cell(text: str) -> str:
  """Text that may stand in a Markdown table."""
  return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def code(text: str) -> str:
  return f"`{text}`" if text else ""


def table(titles: list[str], rows: list[list[str]]) -> str:
  """A Markdown table, without the columns in which no row has anything."""
  shown = [n for n in range(len(titles)) if any(row[n] for row in rows)]
  titles, rows = [titles[n] for n in shown], [[row[n] for n in shown] for row in rows]
  lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
  return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def option_row(option: dict) -> list[str]:
  value = option["value"]  # a bar inside code does not end a cell, and would keep a backslash
  names = ", ".join(option["names"])
  shown = code(names + (f" {value}" if value and not option["positional"] else ""))
  fallback = code(option["default"])
  return [shown, cell(option["text"]), fallback]


def command_sections(command: dict, level: int) -> list[str]:
  """One command and those below it."""
  out = [f"{'#' * level} {command['name']}", command["summary"] + ".",
         f"```text\n{command['usage']}\n```"]
  groups = dict.fromkeys(option["group"] for option in command["options"])
  for group in sorted(groups, key=lambda name: (name == "General", name != "")):
    options = [option for option in command["options"] if option["group"] == group]
    out.append((f"**{group}**\n\n" if group else "") +
               table(["option" if group else "argument", "meaning", "default"],
                     [option_row(option) for option in options]))
  if command["examples"]:
    out.append("```text\n" + "\n".join(command["examples"]) + "\n```")
  for inner in command["commands"]:
    out += command_sections(inner, min(level + 1, 4))
  return out


def cli_page(command: dict) -> str:
  parts = ["# Command line",
           "This page lists the verbs of the command and their options, as `stretto help` does.",
           *command_sections(command, 2)]
  if command.get("exit_codes"):
    parts += ["## Exit codes", table(["code", "meaning"], [
      [str(row["code"]), cell(row["meaning"])] for row in command["exit_codes"]])]
  return "\n\n".join(parts) + "\n"


def environment_page(variables: list[dict]) -> str:
  parts = ["# Environment", "This page lists the environment variables that Stretto reads, as "
           "`stretto help environment` does. "
           "[Options](../options.md) explains those of the gradient engine."]
  for group in dict.fromkeys(variable["group"] for variable in variables):
    parts += [f"## {group}", table(["variable", "meaning", "default"], [
      [code(v["name"]), cell(v["meaning"]), cell(v["default"])]
      for v in variables if v["group"] == group])]
  return "\n\n".join(parts) + "\n"
