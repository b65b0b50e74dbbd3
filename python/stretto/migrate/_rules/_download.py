from __future__ import annotations

import libcst as cst

from stretto.migrate._edits import Edits
from stretto.migrate._facts import argument, last
from stretto.migrate._rule import Rule, Script

HEAD = "with first_on_host():"
DOWNLOADS = ("urlretrieve", "load_dataset", "snapshot_download", "hf_hub_download",
             "from_pretrained", "load_state_dict_from_url", "download_url",
             "download_and_extract_archive", "fetch_openml")


def downloads(script: Script, call: cst.Call) -> bool:
  facts = script.facts
  name = facts.called(call)
  if last(name) in DOWNLOADS or name in ("torch.hub.load", "os.system", "subprocess.run"):
    return True
  if (flag := argument(call, "download")) is not None:
    return facts.code(flag) != "False"
  weights = argument(call, "weights") or argument(call, "pretrained")
  return weights is not None and facts.code(weights) not in ("None", "False") and (
      name.startswith(("torchvision.", "timm.")))


def run(script: Script, edits: Edits) -> None:
  facts = script.facts
  for call in facts.all(cst.Call):
    if not downloads(script, call):
      continue
    statement = facts.statement(call)
    plain = isinstance(statement, cst.SimpleStatementLine)
    if not plain or script.training.in_training(call) or not edits.put_under(
        call, HEAD, "first_on_host"):
      edits.leave(call, "all ranks may download here at once: put it under first_on_host()")
    else:
      edits.did(call, "the first rank of each host downloads, then the others read the files")


RULE = Rule("download", "download=True, torch.hub.load(), pretrained weights, load_dataset()",
            "lets the first rank of each host run the statement before the others",
            "downloads inside of other statements", run)
