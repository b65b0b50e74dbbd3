"""What was measured while a model was optimised."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from stretto import _stretto
from stretto._errors import format_error


class Report(dict[str, Any]):
  """How a model was made and what was measured, as a dictionary that can be shown as a page.

  docs/formats/report.md lists the keys. Times are in milliseconds (`_ms`) or seconds (`_s`), sizes
  in bytes (`_bytes`). A notebook shows the page.

  Examples:
    >>> model = stretto.optimize("cnn.onnx", tuning="off")
    >>> model.report["latency"]["after"]["median_ms"] > 0
    True
    >>> model.report.save("report.html")
  """

  @classmethod
  def from_json(cls, text: str) -> Report:
    """Reads a report that `save` wrote as JSON.

    Args:
      text: the JSON text.

    Returns:
      The report.

    Examples:
      >>> model.report.save("report.json")
      >>> stretto.Report.from_json(open("report.json").read()) == model.report
      True
    """
    return cls(json.loads(text))

  def html(self) -> str:
    """The report as one self-contained HTML page, which loads nothing from elsewhere.

    Returns:
      The text of the page.
    """
    return _stretto.report_html(json.dumps(self))

  def save(self, path: str | os.PathLike[str]) -> None:
    """Writes the report. Folders that are missing are made.

    Args:
      path: the file: JSON if its name ends in `.json`, an HTML page otherwise.

    Raises:
      FormatError: the file cannot be written (an OSError).
    """
    path = Path(path)
    as_json = path.suffix == ".json"
    with contextlib.suppress(OSError):  # the write that follows says what is wrong
      path.parent.mkdir(parents=True, exist_ok=True)
    try:
      path.write_text(json.dumps(self, indent=1) + "\n" if as_json else self.html(), "utf-8")
    except OSError as error:
      raise format_error(f"{path}: cannot write the report: {error.strerror}", str(path),
                         code=error.errno or 0) from None

  def _repr_html_(self) -> str:
    # A frame of its own, so that the page's style stays out of the notebook's.
    page = self.html().replace("&", "&amp;").replace('"', "&quot;")
    return f'<iframe srcdoc="{page}" style="width:100%;height:640px;border:0"></iframe>'
