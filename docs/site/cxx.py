"""Writes the reference of the C and C++ headers: Doxygen reads them, its XML becomes Markdown.

The headers have plain `//` and `/* */` comments. As Doxygen's input filter this file turns them
into the kinds that Doxygen takes: python3 docs/site/cxx.py HEADER
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from command import code, table

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
CPP_HEADERS = ("stretto/stretto.h", "stretto/ops.h", "stretto/tensor/tensor.h",
               "stretto/tensor/dtype.h", "stretto/tensor/shape.h", "stretto/tensor/shape_range.h",
               "stretto/base/error.h", "stretto/data.h", "stretto/data/dataset.h",
               "stretto/data/loader.h", "stretto/data/order.h", "stretto/data/remote.h",
               "stretto/data/fetcher.h", "stretto/data/remote_stats.h",
               "stretto/media/operators/operator.h")
C_HEADERS = ("stretto/stretto_c.h",)
SETTINGS = """
INPUT = {inputs}
OUTPUT_DIRECTORY = {output}
INPUT_FILTER = "{python} {script}"
GENERATE_XML = YES
GENERATE_HTML = NO
GENERATE_LATEX = NO
XML_PROGRAMLISTING = NO
EXTRACT_ALL = YES
EXTRACT_LOCAL_CLASSES = NO
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = "STRETTO_API=" "__attribute__(x)="
SORT_MEMBER_DOCS = NO
MARKDOWN_SUPPORT = NO
AUTOLINK_SUPPORT = NO
OPTIMIZE_OUTPUT_FOR_C = {c}
QUIET = YES
WARN_IF_UNDOCUMENTED = NO
WARN_IF_DOC_ERROR = NO
"""


EXAMPLE = re.compile(r"^(?P<mark>\s*(?://|\*)) {3,}(?P<code>\S.*)$")


def with_examples(lines: list[str]) -> list[str]:
  """Indented lines after an empty line of a comment are code."""
  out: list[str] = []
  inside = False
  for line in lines:
    match = EXAMPLE.match(line)
    if match and not inside and out and out[-1].strip() in ("//", "*"):
      out.append(f"{match['mark']} \\verbatim")
      inside = True
    elif not match and inside:
      mark = re.match(r"\s*(//|\*)?", out[-1])[0]
      out.append(f"{mark} \\endverbatim")
      inside = False
    out.append(line)
  return out


def documented(text: str) -> str:
  """A header with its comments as Doxygen's."""
  lines, inside, first = [], False, True
  for line in with_examples(text.splitlines()):
    if re.match(r"^\s*//", line):
      if not inside:
        lines.append(re.match(r"\s*", line)[0] + ("/// \\file" if first else "///"))
      line = re.sub(r"^(\s*)// ?", r"\1/// ", line)
      inside = True
    else:
      line = re.sub(r"([;,{]|= \d+) +// ", r"\1  ///< ", line)
      if re.search(r"\S.*/\* ", line):
        line = line.replace("/* ", "/**< ")
      elif re.match(r"^\s*/\* ", line):
        line = line.replace("/* ", "/** \\file\n" if first else "/** ", 1)
      inside = False
    first = first and not line.startswith("#")
    lines.append(line)
  return "\n".join(lines) + "\n"


def run_doxygen(headers: tuple[str, ...], folder: Path) -> Path:
  """The folder of the XML."""
  settings = SETTINGS.format(inputs=" ".join(str(SOURCE / name) for name in headers), output=folder,
                             python=sys.executable, script=Path(__file__).resolve(),
                             c="YES" if headers == C_HEADERS else "NO")
  done = subprocess.run(["doxygen", "-"], input=settings, capture_output=True, text=True)
  if done.returncode:
    raise SystemExit(f"doxygen: {done.stderr}")
  return folder / "xml"


def text_of(element: ElementTree.Element | None) -> str:
  """A description as Markdown."""
  if element is None:
    return ""
  out = element.text or ""
  for child in element:
    if child.tag in ("computeroutput", "ref", "bold", "emphasis"):
      inner = text_of(child)
      out += f"`{inner}`" if child.tag == "computeroutput" else inner
    elif child.tag in ("verbatim", "preformatted"):
      code = re.sub(r"(?m)^\s*(///|\*) ?", "", "".join(child.itertext()))
      out += f"\n\n```\n{textwrap.dedent(code).strip()}\n```\n\n"
    elif child.tag == "para":
      out += "\n\n" + text_of(child)
    elif child.tag != "simplesect":
      out += text_of(child)
    out += child.tail or ""
  parts = re.split(r"(```.*?```)", out, flags=re.S)
  return "".join(part if n % 2 else re.sub(r"[ \t]*\n[ \t]*", "\n", part)
                 for n, part in enumerate(parts)).strip()


def escaped(text: str) -> str:
  """Words of a comment, with nothing outside code that Markdown or HTML would take for markup."""
  parts = re.split(r"(```.*?```|`[^`\n]*`)", text, flags=re.S)
  return "".join(part if n % 2 else re.sub(r"([<>*_|])", r"\\\1", part)
                 for n, part in enumerate(parts))


def described(element: ElementTree.Element) -> str:
  parts = [text_of(element.find(tag)) for tag in ("briefdescription", "detaileddescription",
                                                  "inbodydescription")]
  return escaped("\n\n".join(part for part in parts if part))


def signature(member: ElementTree.Element) -> str:
  """The declaration as a line of code, broken after commas where it is long."""
  type_name = text_of(member.find("type"))
  name = member.findtext("name")
  template = member.find("templateparamlist")
  words = f"{type_name} {name}".strip()
  if member.get("kind") == "function":
    words += member.findtext("argsstring") or "()"
  elif member.get("kind") == "define":
    names = [p.findtext("defname") or "" for p in member.findall("param")]
    value = text_of(member.find("initializer"))
    return f"#define {name}({', '.join(names)})" if names else f"#define {name} {value}"
  elif member.get("kind") == "typedef":
    words = f"{member.findtext('definition')}{member.findtext('argsstring') or ''}"
    words = words.replace(" = typedef ", " = ").replace("using stretto::comm::", "using ")
  else:
    words += (" " + text_of(member.find("initializer"))).rstrip()
  words = re.sub(r"< | (?=>)", lambda m: m[0].strip(), words)
  if member.get("static") == "yes" and not words.startswith("static"):
    words = "static " + words
  if template is not None:
    names = ", ".join(text_of(p.find("type")) for p in template)
    words = f"template <{names}>\n{words}"
  if len(words) > 88:
    words = words.replace(", ", ",\n    ").replace("(", "(\n    ", 1)
  return words


def member_text(member: ElementTree.Element, level: int) -> list[str]:
  name = member.findtext("name")
  if member.get("kind") == "enum":
    rows = [[code(v.findtext("name")), described(v).replace("\n", " ")]
            for v in member.findall("enumvalue")]
    return [f"{'#' * level} {name}", described(member), table(["value", "meaning"], rows)]
  return [f"{'#' * level} {name}", f"```cpp\n{signature(member)}\n```", described(member)]


def is_shown(member: ElementTree.Element) -> bool:
  name = member.findtext("name") or ""
  private = member.get("prot") == "private" or name.startswith("~") or name.startswith("@")
  internal = name.endswith("_H") or name.startswith(("operator", "STRETTO_API", "check_failed"))
  takes_state = "State" in (member.findtext("argsstring") or "") or name == "state"
  return not (private or internal or takes_state or member.get("kind") == "friend")


def grouped(members: list[ElementTree.Element], level: int) -> list[str]:
  """Overloads and undocumented neighbours share the description of the first."""
  out: list[str] = []
  seen: set[str] = set()
  for member in members:
    if member.get("id") in seen or not is_shown(member):
      continue
    seen.add(member.get("id"))
    out += member_text(member, level)
  return [part for part in out if part]


def compound(path: Path) -> ElementTree.Element:
  return ElementTree.parse(path).getroot().find("compounddef")


def class_text(definition: ElementTree.Element) -> list[str]:
  name = re.sub(r"^stretto::(comm::|runtime::)?", "", definition.findtext("compoundname"))
  if "::State" in name or "internal" in name:
    return []
  bases = ", ".join(b.text for b in definition.findall("basecompoundref"))
  kind = definition.get("kind")
  head = f"```cpp\n{kind} {name}{f' : public {bases}' if bases else ''}\n```"
  members = [m for s in definition.findall("sectiondef") for m in s.findall("memberdef")]
  fields = [m for m in members if m.get("kind") == "variable" and is_shown(m)]
  functions = [m for m in members if m.get("kind") == "function"]
  rows = [[code(m.findtext("name")), code(field_type(m)), described(m).replace("\n", " ")]
          for m in fields]
  fields_table = [table(["field", "type", "meaning"], rows)] if rows else []
  return [f"## {name}", head, described(definition), *fields_table, *grouped(functions, 3)]


def without_functions(definition: ElementTree.Element) -> ElementTree.Element:
  """For pages about data: what the code does with it is left out."""
  for section in definition.findall("sectiondef"):
    for member in section.findall("memberdef[@kind='function']"):
      section.remove(member)
  return definition


def field_type(member: ElementTree.Element) -> str:
  value = text_of(member.find("initializer"))
  words = text_of(member.find("type")) + (f" {value}" if value else "")
  return re.sub(r"< | (?=>)", lambda m: m[0].strip(), words).replace("|", "\\|")


def header_text(xml: Path, header: str, functions: bool) -> list[str]:
  """Heading, classes and functions of one header, in its order."""
  definition = compound if functions else lambda path: without_functions(compound(path))
  index = ElementTree.parse(xml / "index.xml").getroot()
  file = next(definition(xml / f"{c.get('refid')}.xml") for c in index.iter("compound")
              if c.get("kind") == "file" and header.endswith(c.findtext("name")))
  out = [f"# {header}", described(file)]
  for inner in file.findall("innerclass"):
    out += class_text(definition(xml / f"{inner.get('refid')}.xml"))
  members = [m for s in file.findall("sectiondef") for m in s.findall("memberdef")]
  for namespace in file.findall("innernamespace"):
    if namespace.text.split("::")[0] == "stretto" and not namespace.text.endswith("internal"):
      whole = definition(xml / f"{namespace.get('refid')}.xml")
      members += [m for s in whole.findall("sectiondef") for m in s.findall("memberdef")
                  if m.find("location").get("file").endswith(header)]
  # `typedef struct x x;` says nothing where x itself is described.
  described_names = {c.text for c in file.findall("innerclass")} | \
      {m.findtext("name") for m in members if m.get("kind") == "enum"}
  members = [m for m in members
             if m.get("kind") != "typedef" or m.findtext("name") not in described_names]
  return out + grouped(members, 2)


def page(title: str, headers: tuple[str, ...], text: str = "", functions: bool = True) -> str:
  """The Markdown of some headers, below `text`."""
  if not shutil.which("doxygen"):
    raise SystemExit("docs: doxygen is missing. On Debian or Ubuntu: apt-get install doxygen")
  with tempfile.TemporaryDirectory() as folder:
    xml = run_doxygen(headers, Path(folder))
    subject = f"{title} header declares" if len(headers) == 1 else f"{title} headers declare"
    parts = [f"# {title}", text or f"This page lists what the {subject}."]
    for header in headers:
      # One title per page: a header is a section, what it declares is below.
      parts += [re.sub(r"^#", "##", part) for part in header_text(xml, header, functions)]
  return "\n\n".join(part for part in parts if part) + "\n"


if __name__ == "__main__":
  sys.stdout.write(documented(Path(sys.argv[1]).read_text()))
