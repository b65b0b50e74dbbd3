"""Hugging Face encoders work on real tokens only, as modules and as either exporter writes them."""

import importlib.util

import numpy as np
import pytest

import stretto

torch = pytest.importorskip("torch")
MISSING = [p for p in ("transformers", "onnxscript") if importlib.util.find_spec(p) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"{''.join(MISSING[:1])} is not installed")
if not MISSING:
  import transformers

LENGTHS, LENGTH = [32, 9, 17, 5], 32
NAMES = ["input_ids", "attention_mask"]
BERT = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
        "intermediate_size": 128, "vocab_size": 500}


class LastHidden(torch.nn.Module):
  def __init__(self, inner):
    super().__init__()
    self.inner = inner

  def forward(self, input_ids, attention_mask):
    return self.inner(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


def optimized(module, example, how, tmp_path):
  options = {"lengths": "attention_mask", "tuning": "off", "threads": 1}
  if how == "module":
    return stretto.optimize(module, example, **options)
  path = str(tmp_path / "encoder.onnx")
  if how == "dynamo":
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=128)}
    shapes = {"dynamo": True, "dynamic_shapes": dict.fromkeys(NAMES, sizes)}
  else:
    shapes = {"dynamo": False,
              "dynamic_axes": {name: {0: "batch", 1: "length"} for name in NAMES}}
  torch.onnx.export(module, example, path, input_names=NAMES, output_names=["hidden"], **shapes)
  return stretto.optimize(path, **options)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("how", ["module", "script", "dynamo"])
@pytest.mark.parametrize("name, options", [
  ("BertModel", BERT),
  ("RobertaModel", BERT),
  ("DistilBertModel", {"n_layers": 2, "dim": 64, "n_heads": 4, "hidden_dim": 128}),
])
def test_encoders_work_on_real_tokens_only(name, options, how, tmp_path):
  torch.manual_seed(0)
  make = getattr(transformers, name)
  module = LastHidden(make(make.config_class(**options))).eval()
  ids = torch.randint(5, 400, (len(LENGTHS), LENGTH))
  mask = (torch.arange(LENGTH) < torch.tensor(LENGTHS)[:, None]).long()
  ids[mask == 0] = 1
  model = optimized(module, (ids, mask), how, tmp_path)
  notes = [note for note in model.notes if note.startswith("lengths by")]
  assert notes == ["lengths by attention_mask: 2 of 2 attentions work on real tokens only"]
  with torch.no_grad():
    expected = module(ids, mask).numpy()
  got = np.asarray(model(ids, mask) if how == "module" else model(ids.numpy(), mask.numpy()))
  real = mask.numpy() == 1
  np.testing.assert_allclose(got[real], expected[real], atol=2e-5)
