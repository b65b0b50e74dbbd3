from __future__ import annotations

import libcst as cst

from stretto.migrate._edits import Edits
from stretto.migrate._facts import argument, last
from stretto.migrate._rule import Rule, Script

PLACES = ("dataset", "batch_size", "shuffle")


def is_stream(script: Script, dataset: cst.BaseExpression) -> bool:
  """Whether it is made as an IterableDataset."""
  facts = script.facts
  for call in facts.all(cst.Call):
    if id(call) in facts.held(dataset):
      name = last(facts.called(call))
      streaming = argument(call, "streaming")
      if facts.inherits(name, "IterableDataset") or name in ("WebDataset", "IterableDataset",
                                                            "ChainDataset", "Shuffler"):
        return True
      if streaming is not None and facts.code(streaming) != "False":
        return True
  return False


def name_for(script: Script, call: cst.Call) -> str:
  """Of a dataset that has none: train_samples for train_loader."""
  statement = script.facts.statement(call)
  for node in script.facts.within(statement, cst.AssignTarget):
    if isinstance(node.target, cst.Name):
      base = node.target.value.replace("_loader", "").replace("loader", "").replace("_dl", "")
      return f"{base}_samples" if base else "samples"
  return "samples"


def option(name: str, value: cst.BaseExpression) -> cst.Arg:
  return cst.Arg(value, keyword=cst.Name(name), equal=cst.AssignEqual(
      cst.SimpleWhitespace(""), cst.SimpleWhitespace("")))


def share(script: Script, edits: Edits, call: cst.Call) -> None:
  facts = script.facts
  named = {arg.keyword.value for arg in call.args if arg.keyword is not None}
  dataset = argument(call, "dataset", 0)
  if named & {"sampler", "batch_sampler"}:
    edits.leave(call, "this loader has a sampler of its own: make one that gives each rank its "
                "share, such as DistributedSampler, and call its set_epoch()")
    return
  positional = sum(arg.keyword is None and not arg.star for arg in call.args)
  if dataset is None or positional > len(PLACES) or any(arg.star == "*" for arg in call.args):
    edits.leave(call, "write the arguments of this loader by name, and run stretto migrate again")
    return
  if is_stream(script, dataset):
    edits.call(dataset, "ShareOfStream")
    edits.did(call, "each rank takes its share of the stream")
    edits.note(call, "every rank reads the whole stream and keeps its share; up to one sample per "
               "rank is dropped at the end")
    return
  helper = "sampling_if_shuffled" if id(call) in script.training.mixed else "sampling"
  simple = facts.key(dataset) is not None or isinstance(dataset, cst.Name)
  name = facts.code(dataset) if simple else name_for(script, call)

  def change(current: cst.Call) -> cst.Call:
    kept: list[cst.Arg] = []
    moved = [cst.Arg(cst.parse_expression(name))]
    place_of_options = None
    for place, arg in enumerate(current.args):
      keyword = arg.keyword.value if arg.keyword is not None else (
          PLACES[place] if not arg.star else "")
      if keyword == "dataset" and not simple:
        value = cst.NamedExpr(cst.Name(name), arg.value)
        if arg.keyword is not None:
          value = value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        arg = arg.with_changes(value=value)
      if keyword not in ("shuffle", "drop_last") and arg.star != "**":
        kept.append(arg)
        continue
      moved.append(option(keyword, arg.value) if keyword else cst.Arg(arg.value, star="**"))
      if place_of_options is None:
        place_of_options = len(kept)
        kept.append(arg)
    options = cst.Arg(cst.Call(cst.Name(helper), moved), star="**")
    if place_of_options is None:
      return current.with_changes(args=[*kept, options])
    gone = kept[place_of_options]
    kept[place_of_options] = options.with_changes(
        comma=gone.comma, whitespace_after_arg=gone.whitespace_after_arg)
    if len(kept) < len(current.args):  # the last one has gone: what was before it ends the call
      kept[-1] = kept[-1].with_changes(
          comma=current.args[-1].comma,
          whitespace_after_arg=current.args[-1].whitespace_after_arg)
    return current.with_changes(args=kept)

  edits.change(call, change, helper)
  edits.did(call, "each rank gets its share of the samples (DistributedSampler)" + (
      "" if helper == "sampling" else ", where they are shuffled; other loaders stay whole"))


def run(script: Script, edits: Edits) -> None:
  training = script.training
  for number, call in training.loaders.items():
    if number in training.fed:
      share(script, edits, call)
      if number in training.mixed:
        edits.note(call, "loaders that do not shuffle count as those of evaluation: every rank "
                   "reads all of their samples")
    elif (mixed := argument(call, "shuffle", 2)) is not None and \
        script.facts.code(mixed) not in ("False", "None"):
      edits.leave(call, "ranks go through this loader of evaluation in different orders, and may "
                  "come to results that differ a little, by which they would stop, keep the best "
                  "or set learning rates differently: use shuffle=False, or share rank 0's result")
    else:
      edits.note(call, "every rank reads all samples of this loader; what is measured on them is "
                 "the same on all ranks unless it draws random numbers")
  if not training.loaders and training.points:
    edits.leave(training.points[0], "there is no DataLoader here: where another file makes it, "
                "give it a DistributedSampler there; where there is none, give each rank its "
                "share, such as samples[dist.get_rank()::dist.get_world_size()], and add up "
                "what is shown of its losses by dist.all_reduce(). Batches that are drawn at "
                "random differ between ranks already")


RULE = Rule("sampler", "DataLoader of a training loop",
            "gives each rank its share of the samples by DistributedSampler, or of a stream",
            "loaders with a sampler of their own; data that comes from elsewhere", run)
