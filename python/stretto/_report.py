"""What was measured while a model was optimised."""

from __future__ import annotations

import json
import os
from pathlib import Path

from stretto import _stretto


class Report(dict):
  """The report as a dictionary (docs/formats/report.md), which also knows how to be a page.

  report["latency"]["after"]["median_ms"] is a number; report.html() is one self-contained page;
  report.save("r.html") and report.save("r.json") write it. Notebooks show the page.
  """

  def html(self) -> str:
    return _stretto.report_html(json.dumps(self))

  def save(self, path: str | os.PathLike) -> None:
    """Writes a page, or JSON when `path` ends in .json."""
    path = Path(path)
    as_json = path.suffix == ".json"
    path.write_text(json.dumps(self, indent=1) + "\n" if as_json else self.html(), "utf-8")

  def _repr_html_(self) -> str:
    # A frame of its own, so that the page's style stays out of the notebook's.
    page = self.html().replace("&", "&amp;").replace('"', "&quot;")
    return f'<iframe srcdoc="{page}" style="width:100%;height:640px;border:0"></iframe>'
