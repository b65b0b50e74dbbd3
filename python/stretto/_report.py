"""What was measured while a model was optimised."""

from __future__ import annotations

import json
import os
from typing import Any

from stretto import _stretto
from stretto._errors import InvalidArgumentError
from stretto._paths import path_text


def report_path(name: str, path: Any) -> str:
  """The path of a report as text; `name` is the argument's, for the error when it is none."""
  file = path_text(name, path)
  if not file.endswith((".html", ".json")):
    raise InvalidArgumentError(f"{name}: expected a name that ends in .html or .json, got {file!r}")
  return file


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

    Raises:
      InvalidArgumentError: the text is not JSON, or no object.

    Examples:
      >>> model.report.save("report.json")
      >>> stretto.Report.from_json(open("report.json").read()) == model.report
      True
    """
    try:
      content = json.loads(text)
    except (TypeError, ValueError) as error:
      raise InvalidArgumentError(f"text: expected a report as JSON: {error}") from None
    if not isinstance(content, dict):
      raise InvalidArgumentError(
        f"text: expected a report, a JSON object, got a {type(content).__name__}")
    return cls(content)

  def html(self) -> str:
    """The report as one self-contained HTML page, which loads nothing from elsewhere.

    Returns:
      The text of the page.

    Raises:
      InvalidArgumentError: the dictionary holds what JSON has no form for.
    """
    return _stretto.report_html(self._json())

  def save(self, path: str | os.PathLike[str]) -> None:
    """Writes the report in one step.

    Args:
      path: the file: JSON if its name ends in `.json`, a page if it ends in `.html`.

    Raises:
      InvalidArgumentError: the name ends in something else, or as in `html`.
      FormatError: the file cannot be written (an OSError), for example because its folder is
        missing.
    """
    file = report_path("path", path)
    as_json = file.endswith(".json")
    _stretto.write_file(file, self._json(indent=1) + "\n" if as_json else self.html())

  def _json(self, indent: int | None = None) -> str:
    try:
      return json.dumps(self, indent=indent)
    except TypeError as error:
      raise InvalidArgumentError(f"the report holds what JSON has no form for: {error}") from None

  def _repr_html_(self) -> str:
    # A frame of its own, so that the page's style stays out of the notebook's.
    page = self.html().replace("&", "&amp;").replace('"', "&quot;")
    return f'<iframe srcdoc="{page}" style="width:100%;height:640px;border:0"></iframe>'
