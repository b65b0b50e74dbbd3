"""stretto.torch.explain: what torch.compile(backend="stretto") runs where."""

import json

import pytest

torch = pytest.importorskip("torch")

from stretto.aten._explain import Explanation, explain  # noqa: E402
from torch import nn  # noqa: E402

import stretto  # noqa: E402

SEED = 20261128
OPTIONS = {"tuning": "off", "tuning_cache": "none", "threads": 1, "verify": False}


@pytest.fixture(autouse=True)
def fresh():
  print("seed", SEED)
  torch.manual_seed(SEED)
  torch._dynamo.reset()


def explained(module, *inputs, **more) -> Explanation:
  return explain(module.eval(), *inputs, options=OPTIONS, runs=3, **more)


def test_a_module_that_stretto_runs():
  found = explained(nn.Sequential(nn.Linear(8, 16), nn.ReLU()), torch.randn(4, 8))
  program, = found.programs
  assert (program.runs, program.reason, program.ends) == ("stretto", None, None)
  assert program.made == ["first call"] and program.left == []
  part, = program.parts
  assert part.operators == ["aten.linear.default", "aten.relu.default"]
  assert (part.bytes_in, part.bytes_out, part.bytes_copied) == (4 * 8 * 4, 4 * 16 * 4, 0)
  assert 0 < part.border_us <= part.us
  assert 0 < program.us and 0 <= found.between_us < found.us


class Mixed(nn.Module):
  def __init__(self):
    super().__init__()
    self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

  def forward(self, x):
    y = torch.relu(self.first(x))
    z = torch.linalg.svdvals(y)
    return torch.relu(self.second(z)) + y


def test_operators_that_pytorch_runs_have_a_place_and_a_reason():
  found = explained(Mixed(), torch.randn(8, 8))
  program, = found.programs
  assert program.runs == "mixed" and len(program.parts) == 2
  missing = [entry for entry in program.left if entry.reason == "Stretto has no such operator"]
  assert missing and all("linalg" in entry.operator for entry in missing)
  assert all("test_aten_explain.py:" in entry.place for entry in missing)
  # relu(first(x)) goes into the second part too.
  assert program.parts[1].bytes_in >= program.parts[0].bytes_out == 8 * 8 * 4


class Broken(nn.Module):
  def __init__(self):
    super().__init__()
    self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

  def forward(self, x):
    y = self.first(x).relu()
    torch._dynamo.graph_break()
    return self.second(y).relu()


def test_breaks_of_the_trace():
  found = explained(Broken(), torch.randn(2, 4))
  assert [program.runs for program in found.programs] == ["stretto", "stretto"]
  assert "graph_break" in found.programs[0].ends and found.programs[1].ends is None


def test_other_shapes_are_made_again():
  found = explained(nn.Linear(4, 4), torch.randn(2, 4), torch.randn(3, 4), torch.randn(5, 4))
  made = [reason for program in found.programs for reason in program.made]
  assert len(made) == 3 and set(made) == {"first call", "new shapes"}
  assert sum(program.calls for program in found.programs) == 3
  # Bytes are those of the last inputs.
  assert [p.bytes_in for program in found.programs for p in program.parts][-1] == 5 * 4 * 4


def test_a_program_that_pytorch_runs_says_why():
  class Views(nn.Module):
    def forward(self, x):
      return x.view(-1), x * 2

  program, = explained(Views(), torch.ones(2, 3)).programs
  assert program.runs == "pytorch" and program.parts == []
  assert "share memory" in program.reason


def test_conversions_are_counted():
  module = nn.Linear(8, 4).bfloat16()
  program, = explained(module, torch.randn(2, 8).bfloat16()).programs
  part, = program.parts
  assert (part.bytes_in, part.bytes_out) == (2 * 8 * 2, 2 * 4 * 2)
  assert part.bytes_copied == 2 * 8 * 4 + 2 * 4 * 4  # to float32 and from it


def test_text_and_plain_data():
  found = explained(Mixed(), torch.randn(8, 8))
  text = str(found)
  assert "Stretto and PyTorch" in text and "Stretto has no such operator" in text
  assert "border us" in text and "made: first call" in text
  plain = json.loads(json.dumps(found.as_dict()))
  assert plain["programs"][0]["parts"][0]["operators"][0] == "aten.linear.default"


def test_by_its_public_name():
  distributed = pytest.importorskip("stretto.torch")
  found = distributed.explain(nn.Linear(2, 2).eval(), torch.zeros(1, 2), options=OPTIONS, runs=1)
  assert found.programs[0].runs == "stretto"


@pytest.mark.parametrize("more, text", [({"runs": 0}, "runs: expected at least 1"),
                                        ({"options": {"speed": 9}}, "options: speed is unknown")])
def test_bad_arguments(more, text):
  with pytest.raises(stretto.InvalidArgumentError, match=text):
    explain(nn.Linear(2, 2).eval(), torch.zeros(1, 2), **more)
