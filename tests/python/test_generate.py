"""Decoding with the past in a context, against the same modules run by PyTorch over all tokens."""

import threading

import numpy as np
import pytest
from stretto._sampling import Sampler

import stretto

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")  # of the exporter
import decoder_models  # noqa: E402
from decoder_models import LAYERS, SIZE, VOCABULARY  # noqa: E402

PROMPTS = [[3, 1, 4, 1, 5], [7], [2, 7, 1, 8, 2, 8, 1, 8, 2, 8]]


@pytest.fixture(scope="module", params=["gpt", "llama"])
def made(request):
  module = decoder_models.Decoder(request.param)
  model = stretto.optimize(decoder_models.onnx_bytes(module), threads=2, tuning="off",
                           tuning_cache="none", progress=False)
  return module, model


def test_greedy_tokens_are_those_of_pytorch(made):
  module, model = made
  # Past the first capacity of 64 places, so that memory moves and grows.
  expected = module.greedy(PROMPTS[0], 150)
  assert len(set(expected)) > 5
  assert stretto.generate(model, PROMPTS[0], 150).tolist() == expected


def test_prompts_of_different_lengths_give_the_same_tokens_as_each_alone(made):
  module, model = made
  expected = [module.greedy(prompt, 80) for prompt in PROMPTS]
  assert stretto.generate(model, PROMPTS, 80).tolist() == expected
  # Padded on the right, as tokenizers do, with something in the padding.
  longest = max(map(len, PROMPTS))
  ids = np.array([p + [9] * (longest - len(p)) for p in PROMPTS])
  mask = np.array([[1] * len(p) + [0] * (longest - len(p)) for p in PROMPTS])
  assert stretto.generate(model, ids, 80, attention_mask=mask).tolist() == expected


def test_a_context_gives_the_logits_of_all_tokens_at_once(made):
  module, model = made
  tokens = np.random.default_rng(1).integers(0, VOCABULARY, 150).tolist()
  expected = module.logits(tokens).numpy()
  context = model.context()
  at = 0
  for count in (7, 1, 1, 30, 2, 4, 1, 100, 4):  # prompts in pieces, and steps
    got = model([tokens[at:at + count]], context=context)
    # Rounding only: logits are of order 10.
    np.testing.assert_allclose(got[0], expected[at:at + count], atol=2e-4)
    at += count
  assert context.length == at == 150
  assert model.run({"input_ids": [[5]]}, context=context).keys() == {"logits"}


def test_contexts_fork_and_are_saved(made):
  _, model = made
  context = model.context(batch=2)
  model([[3, 1, 4], [1, 5, 9]], context=context)
  other = context.fork()
  a, b = model([[2], [6]], context=context), model([[2], [6]], context=other)
  np.testing.assert_array_equal(a, b)
  saved = other.save()
  assert saved["past_key_values.0.key"].shape[2] == 4
  assert saved["attention_mask"].tolist() == [[1] * 4] * 2
  again = model.context(batch=2)
  again.restore(saved)
  np.testing.assert_allclose(model([[5], [3]], context=again), model([[5], [3]], context=other),
                             atol=1e-5)
  # After a swap of the samples their logits are swapped.
  straight = model([[7], [8]], context=again.fork())
  again.reorder([1, 0])
  np.testing.assert_allclose(model([[8], [7]], context=again), straight[::-1], atol=1e-5)
  again.reset()
  assert again.length == 0 and again.lengths == [0, 0]
  np.testing.assert_allclose(model([[3, 1, 4, 2], [1, 5, 9, 6]], context=again)[:, -1:], a,
                             atol=1e-4)


def test_without_a_context_the_model_runs_as_before(made):
  module, model = made
  rng = np.random.default_rng(2)
  shape = model.inputs[3].shape
  past = [rng.standard_normal((2, shape[1], 9, SIZE)).astype(np.float32)
          for _ in range(2 * LAYERS)]
  ids, positions = rng.integers(0, VOCABULARY, (2, 1)), np.full((2, 1), 9)
  before = [p.copy() for p in past]
  got = model(ids, np.ones((2, 10), np.int64), positions, *past)
  with torch.no_grad():
    expected = module(torch.tensor(ids), torch.ones(2, 10, dtype=torch.long),
                      torch.tensor(positions), *map(torch.tensor, past))
  for g, e in zip(got, expected):
    np.testing.assert_allclose(g, e.numpy(), atol=1e-4)
  for p, b in zip(past, before):
    np.testing.assert_array_equal(p, b)


def test_two_threads_generate_independently(made):
  module, model = made
  got = {}

  def work(i):
    got[i] = stretto.generate(model, PROMPTS[i], 100).tolist()

  threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert got == {i: module.greedy(PROMPTS[i], 100) for i in range(3)}


def test_an_artefact_generates(made, tmp_path):
  module, model = made
  model.save(tmp_path / "decoder.stretto")
  expected = module.greedy(PROMPTS[0], 20)
  assert stretto.generate(tmp_path / "decoder.stretto", PROMPTS[0], 20).tolist() == expected


def test_sampling_is_the_same_for_one_seed_and_for_one_prompt(made):
  _, model = made
  options = {"temperature": 1.0, "top_k": 20, "top_p": 0.95}
  a = stretto.generate(model, PROMPTS, 30, seed=5, **options)
  np.testing.assert_array_equal(a, stretto.generate(model, PROMPTS, 30, seed=5, **options))
  assert not np.array_equal(a, stretto.generate(model, PROMPTS, 30, seed=6, **options))
  np.testing.assert_array_equal(a[0], stretto.generate(model, PROMPTS[0], 30, seed=5, **options))


def test_samples_have_the_distribution_of_the_logits():
  logits = np.array([[2.0, 1.0, 0.5, -1.0, 0.0]])
  count = 20000

  def shares(**options):
    sampler = Sampler(1, **{"temperature": 1.0, "top_k": 0, "top_p": 1.0, "seed": 3, **options})
    return np.bincount([sampler.draw(logits)[0] for _ in range(count)], minlength=5) / count

  def expected(kept, temperature):
    weights = np.where(kept, np.exp(logits[0] / temperature), 0)
    return weights / weights.sum()

  # Five standard deviations of a share of a half, with seed 3.
  bound = 5 * 0.5 / count**0.5
  everything = np.ones(5, bool)
  for options, kept in [({}, everything), ({"temperature": 0.5}, everything),
                        ({"top_k": 2}, logits[0] > 0.9), ({"top_k": 99}, everything),
                        # The probabilities are 0.53, 0.19, 0.12, 0.07 and 0.03 in order of size.
                        ({"top_p": 0.5}, logits[0] > 1.9), ({"top_p": 0.6}, logits[0] > 0.9),
                        ({"top_p": 0.8}, logits[0] > 0.4)]:
    want = expected(kept, options.get("temperature", 1.0))
    got = shares(**options)
    assert np.all(got[~kept] == 0), options
    assert np.abs(got - want).max() < bound, options


def test_streams_callbacks_and_ends(made):
  module, model = made
  expected = module.greedy(PROMPTS[0], 12)
  assert [int(t) for t in stretto.stream(model, PROMPTS[0], 12)] == expected
  seen = []
  stretto.generate(model, PROMPTS[0], 12, callback=lambda tokens: seen.append(int(tokens)))
  assert seen == expected
  end = expected[5]
  first = expected.index(end)
  assert stretto.generate(model, PROMPTS[0], 12, eos=end).tolist() == expected[:first + 1]
  # The others go on, and the one that ended repeats its last token.
  both = stretto.generate(model, PROMPTS[:2], 12, eos=[end, 10**6])
  assert both[0].tolist()[first:] == [end] * (both.shape[1] - first)
  assert stretto.generate(model, PROMPTS[0], 0).shape == (0,)


def test_the_last_place_alone_has_the_logits_that_it_has_among_all(made):
  _, model = made
  ids = np.random.default_rng(3).integers(0, VOCABULARY, (2, 6))
  mask = np.array([[1] * 6, [0, 0, 1, 1, 1, 0]])
  for seen, last in [(np.ones_like(mask), [5, 5]), (mask, [5, 4])]:
    arrays = {"input_ids": ids, "attention_mask": seen}
    everywhere = model(arrays, context=model.context(batch=2))
    alone, = model._run_on((arrays,), {"context": model.context(batch=2)}, "logits")
    assert alone.shape == (2, 1, VOCABULARY)
    # Rounding only: logits are of order 10.
    np.testing.assert_allclose(alone[:, 0], everywhere[[0, 1], last], atol=1e-4)
  with pytest.raises(stretto.InvalidArgumentError, match="last place of nothing"):
    model._run_on((arrays,), {"context": model.context(batch=2)}, "nothing")


def test_a_sample_that_has_ended_gets_no_more_places(made):
  module, model = made
  alone = module.greedy(PROMPTS[0], 12)
  end = alone[4]
  kept = alone[:alone.index(end)]  # in the context; the end itself has not run
  context = model.context(batch=2)
  both = stretto.generate(model, PROMPTS[:2], 12, eos=[end], context=context)
  other = both[1].tolist()
  assert context.lengths == [len(PROMPTS[0]) + len(kept), len(PROMPTS[1]) + len(other) - 1]
  got = stretto.generate(model, [[end, 11], [other[-1], 11]], 6, context=context).tolist()
  assert got == [module.greedy([*PROMPTS[0], *kept, end, 11], 6),
                 module.greedy([*PROMPTS[1], *other, 11], 6)]


def test_a_context_goes_on_from_earlier_tokens(made):
  module, model = made
  context = model.context()
  reply = stretto.generate(model, PROMPTS[0], 6, context=context).tolist()
  # The last token has not run yet, so it comes first in what follows.
  follows = [reply[-1], 11, 12]
  got = stretto.generate(model, follows, 6, context=context).tolist()
  assert got == module.greedy([*PROMPTS[0], *reply[:-1], *follows], 6)


def test_mistakes_are_named(made):
  _, model = made
  error = stretto.InvalidArgumentError
  with pytest.raises(error, match="at least one token"):
    stretto.generate(model, [[1], []], 3)
  with pytest.raises(error, match="integers"):
    stretto.generate(model, [1.5, 2.5], 3)
  with pytest.raises(error, match="temperature"):
    stretto.generate(model, [1], 3, temperature=-1)
  with pytest.raises(error, match="top_p"):
    stretto.generate(model, [1], 3, top_p=0)
  with pytest.raises(error, match="batch of 2"):
    stretto.generate(model, [1], 3, context=model.context(batch=2))
  with pytest.raises(error, match="max_length is 4"):
    model([[1, 2, 3, 4, 5]], context=model.context(max_length=4))
  with pytest.raises(error, match="no such output"):
    model.context(state={"past_key_values.0.key": "nothing"})
  with pytest.raises(error, match="stretto.Model or a path"):
    stretto.generate(7, [1], 3)
  with pytest.raises(error, match="context: expected what Model.context returned, got int"):
    stretto.generate(model, [1], 3, context=3)
  with pytest.raises(error, match="context: expected what Model.context returned, got int"):
    model([[1]], context=3)
  with pytest.raises(error, match="eos: expected a token or several, got 1.5"):
    stretto.generate(model, [1], 3, eos=1.5)
  with pytest.raises(error, match="eos: expected a token or several"):
    stretto.generate(model, [1], 3, eos=[1, "2"])
  for batch in (10**15, 2**62):
    with pytest.raises(stretto.UnsupportedError, match="batch: .* more memory than this machine"):
      model.context(batch=batch)
  assert model.context(max_length=2**62).capacity == 0


def test_no_context_is_a_call_as_any(made):
  _, model = made
  arrays = {spec.name: np.zeros(spec.shape, spec.dtype) for spec in model.inputs}
  assert model.run(arrays, context=None).keys() == model.run(arrays).keys()
  for got, want in zip(model(arrays, context=None), model(arrays)):
    np.testing.assert_array_equal(got, want)


def test_a_context_is_for_one_call_at_a_time(made):
  _, model = made
  context = model.context()
  model([[1, 2, 3]], context=context)
  errors, done = [], []

  def run():
    for _ in range(20):
      try:
        model([[4]], context=context)
        done.append(1)
      except stretto.InvalidArgumentError as error:
        errors.append(str(error))

  threads = [threading.Thread(target=run) for _ in range(4)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert context.length == 3 + len(done) and len(done) + len(errors) == 80
  assert all("another call is running with it" in error for error in errors)


def test_a_context_sees_few_more_places_than_it_may_get(made):
  _, model = made
  context = model.context(max_length=150)
  for count in (130, 1, 19):
    model([[1] * count], context=context)
    assert context.length <= context.capacity + 1 <= 192  # not the next power of two, 256
  with pytest.raises(stretto.InvalidArgumentError, match="max_length is 150"):
    model([[1]], context=context)


def test_outputs_that_cannot_be_put_together_are_refused():
  from onnx import TensorProto, helper
  real, whole = TensorProto.FLOAT, TensorProto.INT64
  nodes = [helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
           helper.make_node("Unsqueeze", ["rows", "one"], ["new"]),
           helper.make_node("Concat", ["past_key_values.0.key", "new"], ["present.0.key"], axis=2),
           helper.make_node("Transpose", ["present.0.key"], ["keys"], perm=[0, 1, 3, 2]),
           helper.make_node("MatMul", ["new", "keys"], ["scores"]),
           helper.make_node("Unsqueeze", ["attention_mask", "axes"], ["mask"]),
           helper.make_node("Cast", ["mask"], ["seen"], to=real),
           helper.make_node("Mul", ["scores", "seen"], ["attention"])]
  graph = helper.make_graph(nodes, "net", [
      helper.make_tensor_value_info("input_ids", whole, ["b", "n"]),
      helper.make_tensor_value_info("attention_mask", whole, ["b", "t"]),
      helper.make_tensor_value_info("past_key_values.0.key", real, ["b", 1, "p", 4])], [
      helper.make_tensor_value_info("attention", real, ["b", 1, "n", "t"]),
      helper.make_tensor_value_info("present.0.key", real, ["b", 1, "t", 4])], [
      helper.make_tensor("table", real, [8, 4], np.arange(32.0)),
      helper.make_tensor("one", whole, [1], [1]), helper.make_tensor("axes", whole, [2], [1, 2])])
  content = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
  model = stretto.optimize(content.SerializeToString(), tuning="off", tuning_cache="none",
                           progress=False)
  context = model.context(batch=2)
  ids, mask = np.ones((2, 60), np.int64), np.ones((2, 60), np.int64)
  mask[0, :59] = 0
  with pytest.raises(stretto.InvalidArgumentError, match="output attention: .* do not go together"):
    model({"input_ids": ids, "attention_mask": mask}, context=context)
  assert context.length == 0
  assert model({"input_ids": ids}, context=context).shape == (2, 1, 60, 60)


def test_models_without_a_past_run_over_all_tokens(made, tmp_path):
  module, _ = made

  class Plain(torch.nn.Module):
    def __init__(self):
      super().__init__()
      self.inner = module

    def forward(self, input_ids):
      empty = [torch.zeros(input_ids.shape[0], module.kv_heads, 0, SIZE)] * (2 * LAYERS)
      positions = torch.arange(input_ids.shape[1])[None]
      return self.inner(input_ids, torch.ones_like(input_ids), positions, *empty)[0]

  path = tmp_path / "plain.onnx"
  torch.onnx.export(Plain().eval(), (torch.ones(1, 4, dtype=torch.long),), str(path),
                    input_names=["input_ids"], output_names=["logits"],
                    dynamic_axes={"input_ids": {0: "batch", 1: "length"}}, dynamo=False)
  plain = stretto.optimize(path, tuning="off", progress=False)
  got = stretto.generate(plain, PROMPTS, 10)
  assert got.tolist() == [module.greedy(prompt, 10) for prompt in PROMPTS]
  with pytest.raises(stretto.InvalidArgumentError, match="name the pairs"):
    plain.context()


@pytest.mark.parametrize("by_mask", [True, False])
def test_without_position_ids_positions_have_to_come_from_the_mask(by_mask):
  module = decoder_models.Decoder("gpt")
  forward = module.forward

  def without_positions(input_ids, attention_mask, *past):
    if by_mask:
      positions = (attention_mask.cumsum(1) - 1).clamp(min=0)[:, past[0].shape[2]:]
    else:
      positions = (torch.arange(input_ids.shape[1]) + past[0].shape[2])[None]
    return forward(input_ids, attention_mask, positions, *past)

  module.forward = without_positions
  model = stretto.optimize(decoder_models.onnx_bytes(module, positions=False), tuning="off",
                           progress=False)
  module.forward = forward
  if by_mask:
    expected = [module.greedy(prompt, 70) for prompt in PROMPTS]
    assert stretto.generate(model, PROMPTS, 70).tolist() == expected
  else:
    with pytest.raises(stretto.InvalidArgumentError, match="export it with position_ids"):
      stretto.generate(model, PROMPTS[0], 5)
    with pytest.raises(stretto.InvalidArgumentError, match="export it with position_ids"):
      model.context()


def test_recurrent_state_by_name(tmp_path):
  class Net(torch.nn.Module):
    def __init__(self):
      super().__init__()
      self.lstm = torch.nn.LSTM(6, 8, batch_first=True)

    def forward(self, x, h0, c0):
      y, (hn, cn) = self.lstm(x, (h0, c0))
      return y, hn, cn

  torch.manual_seed(0)
  net = Net().eval()
  zeros = torch.zeros(1, 2, 8)
  path = tmp_path / "lstm.onnx"
  torch.onnx.export(net, (torch.zeros(2, 1, 6), zeros, zeros), str(path), dynamo=False,
                    input_names=["x", "h0", "c0"], output_names=["y", "hn", "cn"])
  model = stretto.optimize(path, tuning="off", progress=False)
  x = np.random.default_rng(0).standard_normal((2, 9, 6)).astype(np.float32)
  with torch.no_grad():
    expected, *_ = net(torch.tensor(x), zeros, zeros)
  for state in (None, {"h0": "hn", "c0": "cn"}):
    context = model.context(batch=2, state=state)
    got = [model(x[:, i:i + 1], context=context) for i in range(9)]
    # Errors of float32 sums of 14 products, through nine steps.
    np.testing.assert_allclose(np.concatenate(got, 1), expected.numpy(), atol=1e-5)
  assert context.save().keys() == {"h0", "c0"}


def _one_ends_early(tokens):
  """A token that one sample gives steps before the other."""
  for token in range(VOCABULARY):
    first = [row.index(token) if token in row else len(row) for row in tokens.tolist()]
    if abs(first[0] - first[1]) > 1 and min(first) + 2 < len(tokens[0]):
      return token, first
  raise AssertionError("no such token")


def _checked_end(generate, tokens):
  token, first = _one_ends_early(tokens)
  ended = generate(eos=token)
  for row, want, at in zip(ended.tolist(), tokens.tolist(), first):
    assert row[:at + 1] == want[:at + 1] and set(row[at:]) <= {token}


def test_samples_end_at_different_steps_with_state_that_does_not_grow(tmp_path):
  class Net(torch.nn.Module):
    def __init__(self):
      super().__init__()
      self.table = torch.nn.Embedding(VOCABULARY, 8)
      self.gru = torch.nn.GRU(8, 8, batch_first=True)
      self.head = torch.nn.Linear(8, VOCABULARY)

    def forward(self, input_ids, past_h):
      y, h = self.gru(self.table(input_ids), past_h)
      return self.head(y), h

  torch.manual_seed(0)
  path = tmp_path / "gru.onnx"
  torch.onnx.export(Net().eval(), (torch.zeros(2, 1, dtype=torch.long), torch.zeros(1, 2, 8)),
                    str(path), dynamo=False, input_names=["input_ids", "past_h"],
                    output_names=["logits", "present_h"])
  model = stretto.optimize(path, tuning="off", progress=False)

  def generate(**options):
    context = model.context(batch=2, state={"past_h": "present_h"})
    return stretto.generate(model, [[1], [2]], 12, context=context, **options)

  _checked_end(generate, generate())


def test_samples_end_at_different_steps_with_one_row_of_positions(tmp_path):
  import onnx
  proto = onnx.load_from_string(decoder_models.onnx_bytes(decoder_models.Decoder("gpt")))
  for entry in proto.graph.input:
    if entry.name == "position_ids":
      entry.type.tensor_type.shape.dim[0].dim_value = 1
  model = stretto.optimize(proto.SerializeToString(), tuning="off", tuning_cache="none",
                           progress=False)

  def generate(**options):
    return stretto.generate(model, [[3, 1, 4], [7, 7, 2]], 12, **options)

  _checked_end(generate, generate())
