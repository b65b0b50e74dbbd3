"""Hugging Face decoders generate the tokens that their own generate() makes."""

import importlib.util

import pytest

import stretto

torch = pytest.importorskip("torch")
MISSING = [p for p in ("transformers", "onnxscript") if importlib.util.find_spec(p) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"{''.join(MISSING[:1])} is not installed")
if not MISSING:
  import transformers

PROMPTS = [[3, 1, 4, 1, 5], [7], [2, 7, 1, 8, 2, 8, 1, 8]]
COMMON = {"vocab_size": 300, "initializer_range": 0.3, "bos_token_id": None, "eos_token_id": None}
GROUPED = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
           "num_key_value_heads": 2, "intermediate_size": 128, **COMMON}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name, options", [
  ("GPT2LMHeadModel", {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 256, **COMMON}),
  ("LlamaForCausalLM", GROUPED),
])
def test_greedy_tokens_are_those_of_the_module(name, options):
  torch.manual_seed(1)
  make = getattr(transformers, name)
  module = make(make.config_class(**options)).eval()
  got = stretto.generate(module, PROMPTS, 80)
  for prompt, tokens in zip(PROMPTS, got):
    row = torch.tensor([prompt])
    expected = module.generate(row, attention_mask=torch.ones_like(row), max_new_tokens=80,
                               do_sample=False, eos_token_id=None, pad_token_id=0)
    assert tokens.tolist() == expected[0, len(prompt):].tolist()
  assert len(set(got[0].tolist())) > 5
  # Nothing is exported again.
  assert stretto.generate(module, PROMPTS[0], 3).tolist() == got[0][:3].tolist()


def test_other_modules_are_refused():
  with pytest.raises(stretto.InvalidArgumentError, match="no Hugging Face module"):
    stretto.generate(torch.nn.Linear(2, 2).eval(), [1], 3)
