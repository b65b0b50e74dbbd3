"""place() in a job of one process; place_checks.py has what several ranks do."""

import pytest
import torch
from stretto.torch import place
from stretto.torch._messages import ANSWER, REQUEST, flatten, unflatten
from stretto.torch._remote_call import tag
from torch import nn

import stretto


def net():
  torch.manual_seed(1)
  return nn.ModuleDict({"body": nn.Linear(3, 4), "head": nn.Linear(4, 2)})


class Model(nn.Module):
  def __init__(self, parts):
    super().__init__()
    self.body, self.head = parts["body"], parts["head"]

  def forward(self, x):
    return self.head(self.body(x))


def test_parts_lie_on_devices_of_the_process():
  x = torch.ones(2, 3)
  model = place(Model(net()), {"head": "cpu"})
  assert model.holds == [] and model.group is None
  with model:
    model(x).sum().backward()
  want = Model(net())
  want(x).sum().backward()
  for mine, theirs in zip(model.parameters(), want.parameters()):
    assert torch.equal(mine, theirs) and torch.equal(mine.grad, theirs.grad)
  assert set(model.full_state_dict()) == set(want.state_dict())
  model.load_full_state_dict({name: t + 1 for name, t in want.state_dict().items()})
  assert torch.equal(model.module.head.bias, want.head.bias + 1)
  with pytest.raises(stretto.InvalidArgumentError, match="holds no part"):
    model.serve()


def test_rows_of_a_layer_lie_on_devices_of_the_process():
  x = torch.ones(2, 3)
  model = place(Model(net()), {"head": ["cpu", "cpu"]})
  want = Model(net())
  torch.testing.assert_close(model(x), want(x))
  state = model.full_state_dict()
  assert list(state) == list(want.state_dict())
  assert all(torch.equal(state[name], value) for name, value in want.state_dict().items())
  model.load_full_state_dict({name: t + 1 for name, t in want.state_dict().items()})
  assert torch.equal(model.module.head.get_submodule("1").bias, want.head.bias[1:] + 1)
  frozen = Model(net())
  frozen.head.requires_grad_(False)
  assert not any(p.requires_grad for name, p in place(frozen, {"head": ["cpu", "cpu"]})
                 .named_parameters() if "head" in name)
  with torch.device("meta"):
    empty = Model(net())
  assert place(empty, {"head": ["cpu", "cpu"]})(x).isfinite().all()


def test_arguments_and_results_move():
  """There is one real device here, so the part only records where its argument was."""
  seen = []

  class Part(nn.Module):
    def forward(self, x, more):
      seen.extend([x.device.type, more["y"][0].device.type])
      return x.new_empty(2), "kept"

  model = place(nn.Sequential(Part()), {"0": "meta"})
  with pytest.raises(NotImplementedError):  # of a meta tensor nothing can come back
    model.module[0](torch.ones(2), {"y": [torch.ones(1)]})
  assert seen == ["meta", "meta"]


def test_the_meta_device_is_left_for_modules_that_can_begin():
  with torch.device("meta"):
    model = Model(net())
  placed = place(model, {"head": "cpu"})
  assert placed(torch.ones(1, 3)).isfinite().all()
  with torch.device("meta"):
    model = Model(net())
    model.head = nn.ParameterList([nn.Parameter(torch.ones(2))])
  with pytest.raises(stretto.InvalidArgumentError, match="ParameterList in head .*on the CPU"):
    place(model, {"head": "cpu"})


def test_wrong_places_are_named():
  for model, parts, text in ((Model(net()), {"head": "nowhere"}, "'nowhere' is no device"),
                             (Model(net()), {"hed": "cpu"}, "no rank can hold 'hed'.* has head"),
                             (Model(net()), {"head": 3}, "place: head: expected a place"),
                             (Model(net()), {"": "cpu"}, "no such module"),
                             (3, {"head": "cpu"}, "place: model"), (Model(net()), [], "parts")):
    with pytest.raises(stretto.InvalidArgumentError, match=text):
      place(model, parts)


def test_what_crosses_between_ranks_keeps_its_form():
  tensors = []
  value = [(torch.ones(1), None), {"a": [True, 2, 0.5, "x", torch.zeros(2)]}, ()]
  form = flatten(value, tensors, "head")
  assert len(tensors) == 2 and repr(unflatten(form, tensors)) == repr(value)
  for bad, text in ((object(), "head: a object cannot be sent"), ({1: 2}, "a dict cannot be sent"),
                    (torch.ones(1).to(torch.float8_e4m3fn), "float8_e4m3fn cannot be sent")):
    with pytest.raises(stretto.InvalidArgumentError, match=text):
      flatten(bad, [], "head")


def test_answers_have_tags_of_their_own_and_not_more_and_more():
  """Both ranks keep a count for every tag that was ever used."""
  tags = [tag(number, phase) for number in range(200_000) for phase in (0, 1)]
  assert len(set(tags)) <= 1 << 16
  assert len(set(tags[:60_000])) == 60_000, "30,000 calls may be in flight"
  assert not {ANSWER, REQUEST} & set(tags)
