"""`stretto.optimize(..., lengths=...)`: work on the real tokens of padded batches only."""

import io
import json
import logging
import threading

import numpy as np
import onnxruntime
import pytest

import stretto

torch = pytest.importorskip("torch")
nn = torch.nn

QUICK = {"tuning": "off", "tuning_cache": "none", "progress": False}
NAMES = ["input_ids", "attention_mask"]
LOWEST = torch.finfo(torch.float32).min


class Attention(nn.Module):
  def __init__(self, width, heads):
    super().__init__()
    self.heads, self.width = heads, width
    self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
    self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)

  def forward(self, x, bias):
    def heads(y):
      return y.view(y.shape[0], y.shape[1], self.heads, -1).transpose(1, 2)

    q, k, v = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
    scores = q @ k.transpose(-2, -1) / (self.width // self.heads)**0.5 + bias
    mixed = (torch.softmax(scores, dim=-1) @ v).transpose(1, 2)
    return self.out(mixed.reshape(x.shape[0], x.shape[1], self.width))


class Layer(nn.Module):
  def __init__(self, width, heads):
    super().__init__()
    self.attention = Attention(width, heads)
    self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
    self.mlp = nn.Sequential(nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, width))

  def forward(self, x, bias):
    x = self.first(x + self.attention(x, bias))
    return self.second(x + self.mlp(x))


class Encoder(nn.Module):
  """A small BERT. `bias` makes what is added to the scores, `head` the outputs."""

  def __init__(self, width=32, heads=4, depth=2, bias="finfo", head="pooler"):
    super().__init__()
    self.words, self.places = nn.Embedding(50, width), nn.Embedding(160, width)
    self.norm = nn.LayerNorm(width)
    self.layers = nn.ModuleList(Layer(width, heads) for _ in range(depth))
    self.pooler = nn.Linear(width, width)
    self.bias, self.head = bias, head

  def mask(self, mask):
    batch, length = mask.shape
    real = mask[:, None, None, :].to(torch.float32)
    if self.bias == "finfo":
      return (1.0 - real) * LOWEST
    if self.bias == "where":
      return torch.where(real > 0.5, 0.0, -torch.inf)
    if self.bias == "square":  # every query has its own row, as sdpa's masks have
      return ((1.0 - real) * -1e9).expand(batch, 1, length, length)
    if self.bias == "causal":
      seen = torch.ones(length, length).tril()[None, None] * real
      return (1.0 - seen) * LOWEST
    if self.bias == "alibi":
      far = (torch.arange(length)[None, :] - torch.arange(length)[:, None]).abs()
      return (1.0 - real) * -1e9 - 0.1 * far.to(torch.float32)
    return real.sum() * 0  # "none": padding is seen

  def positions(self, ids, mask):
    if self.head == "roberta":  # positions count tokens
      return torch.cumsum(mask, 1) * mask
    return torch.arange(ids.shape[1]).unsqueeze(0)

  def forward(self, input_ids, attention_mask):
    bias = self.mask(attention_mask)
    x = self.norm(self.words(input_ids) + self.places(self.positions(input_ids, attention_mask)))
    for layer in self.layers:
      x = layer(x, bias)
    if self.head == "mean":
      real = attention_mask.to(torch.float32)[:, :, None]
      return (x * real).sum(1) / real.sum(1).clamp(min=1)
    if self.head == "careless":
      return x.mean(1)
    if self.head == "label":
      return self.pooler(x.mean(1)).argmax(-1)
    return x, torch.tanh(self.pooler(x[:, 0]))


def encoder(**options):
  torch.manual_seed(3)
  return Encoder(**options).eval()


def batch(lengths, length, dtype=np.int64, seed=0):
  rng = np.random.default_rng(seed)
  ids = rng.integers(0, 50, (len(lengths), length))
  mask = (np.arange(length)[None, :] < np.array(lengths)[:, None]).astype(dtype)
  return {"input_ids": ids, "attention_mask": mask}


def exported(module, example, is_open=True, names=NAMES, outputs=("hidden", "pooled")):
  file = io.BytesIO()
  axes = {name: {0: "batch", 1: "length"} for name in names} if is_open else {}
  axes |= {"hidden": {0: "batch", 1: "length"}, "pooled": {0: "batch"}} if is_open else {}
  axes = {name: axis for name, axis in axes.items() if name in (*names, *outputs)}
  torch.onnx.export(module, tuple(torch.from_numpy(example[name]) for name in names), file,
                    input_names=list(names), output_names=list(outputs), dynamic_axes=axes,
                    opset_version=17, dynamo=False)
  return file.getvalue()


def judge(onnx_model, feeds):
  session = onnxruntime.InferenceSession(onnx_model, providers=["CPUExecutionProvider"])
  return session.run(None, feeds)


def assert_tokens_close(got, expected, mask, tolerance=2e-5):
  """Where tokens are, the same; zeros where padding is."""
  real = mask.astype(bool)
  largest = np.abs(expected[real]).max() if real.any() else 1
  np.testing.assert_allclose(got[real], expected[real], rtol=0, atol=tolerance * largest)
  assert not got[~real].any()


def packed_note(model):
  notes = [note for note in model.notes if note.startswith("lengths by")]
  assert len(notes) == 1, model.notes
  return notes[0]


@pytest.mark.parametrize("bias", ["finfo", "where", "square"])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_tokens_are_as_onnxruntime_has_them(bias, threads):
  module = encoder(bias=bias)
  onnx_model = exported(module, batch([5, 9], 9))
  model = stretto.optimize(onnx_model, lengths="attention_mask", threads=threads, **QUICK)
  assert "2 of 2 attentions" in packed_note(model)
  for lengths, length in (([9, 3, 1, 7], 9), ([1], 17), ([16, 2, 30, 31, 1, 8], 31), ([4, 4], 4),
                          ([1, 1, 1], 20), ([63] * 3 + [1] * 9, 64)):
    feeds = batch(lengths, length, seed=length)
    hidden, pooled = model(**feeds)
    expected = judge(onnx_model, feeds)
    assert hidden.shape == expected[0].shape
    assert_tokens_close(hidden, expected[0], feeds["attention_mask"])
    np.testing.assert_allclose(pooled, expected[1], rtol=0, atol=5e-5)


@pytest.mark.parametrize("dtype", ["int32", "bool", "float32", "uint8", "float64", "float16"])
def test_masks_of_every_type(dtype):
  module = encoder()
  feeds = batch([3, 8, 1], 8, dtype=dtype)
  onnx_model = exported(module, feeds, is_open=False)
  model = stretto.optimize(onnx_model, lengths="attention_mask", **QUICK)
  hidden, pooled = model(**feeds)
  with torch.no_grad():
    expected = module(torch.from_numpy(feeds["input_ids"]),
                      torch.from_numpy(feeds["attention_mask"]))
  assert_tokens_close(hidden, expected[0].numpy(), feeds["attention_mask"])
  np.testing.assert_allclose(pooled, expected[1].numpy(), rtol=0, atol=5e-5)


def test_left_padding_and_holes():
  module = encoder()
  feeds = batch([9, 4, 9], 9)
  onnx_model = exported(module, feeds)
  model = stretto.optimize(onnx_model, lengths="attention_mask", threads=2, **QUICK)
  feeds["attention_mask"] = np.array([[0, 0, 0, 1, 1, 1, 1, 1, 1], [1, 0, 1, 0, 0, 1, 1, 0, 1],
                                      [0, 0, 0, 0, 1, 0, 0, 0, 0]])
  assert_tokens_close(model(**feeds)[0], judge(onnx_model, feeds)[0], feeds["attention_mask"])


def test_samples_without_a_token_give_zeros():
  onnx_model = exported(encoder(), batch([5, 9], 9))
  model = stretto.optimize(onnx_model, lengths="attention_mask", **QUICK)
  feeds = batch([0, 6, 0, 2], 9)
  hidden, pooled = model(**feeds)
  expected = judge(onnx_model, feeds)
  assert_tokens_close(hidden, expected[0], feeds["attention_mask"])
  np.testing.assert_allclose(pooled[[1, 3]], expected[1][[1, 3]], rtol=0, atol=5e-5)
  hidden, pooled = model(**batch([0, 0], 5))
  assert not hidden.any() and np.isfinite(pooled).all()


def test_positions_from_the_mask():
  onnx_model = exported(encoder(head="roberta"), batch([5, 9], 9))
  model = stretto.optimize(onnx_model, lengths="attention_mask", **QUICK)
  assert "2 of 2 attentions" in packed_note(model)
  feeds = batch([4, 12, 1], 12)
  feeds["attention_mask"][0] = [0] * 8 + [1] * 4
  hidden, _ = model(**feeds)
  assert_tokens_close(hidden, judge(onnx_model, feeds)[0], feeds["attention_mask"])


def test_a_mean_over_tokens():
  onnx_model = exported(encoder(head="mean"), batch([5, 9], 9), outputs=["pooled"])
  model = stretto.optimize(onnx_model, lengths="attention_mask", **QUICK)
  assert "2 of 2 attentions" in packed_note(model)
  for lengths in ([3, 7, 1], [9, 9, 2], [1, 1, 1]):
    feeds = batch(lengths, 9)
    np.testing.assert_allclose(model(**feeds), judge(onnx_model, feeds)[0], rtol=0, atol=5e-5)


def test_a_mean_over_padding_is_refused():
  onnx_model = exported(encoder(head="careless"), batch([5, 9], 9), outputs=["pooled"])
  with pytest.raises(stretto.InvalidArgumentError, match="output pooled depends on what stands "
                     "where attention_mask is 0"):
    stretto.optimize(onnx_model, lengths="attention_mask", **QUICK)


def test_labels_by_a_mean_over_padding_are_refused():
  example = batch([3, 7, 1, 9, 5, 2, 4, 12], 12)
  onnx_model = exported(encoder(head="label"), example, outputs=["pooled"])
  with pytest.raises(stretto.InvalidArgumentError, match="pooled depends on what stands .* it "
                     "differs in [0-9]+ of 8 numbers"):
    stretto.optimize(onnx_model, inputs=example, lengths="attention_mask", **QUICK)


@pytest.mark.parametrize("bias", ["causal", "alibi", "none"])
def test_attentions_whose_masks_do_more_stay_padded(bias):
  onnx_model = exported(encoder(bias=bias), batch([5, 9], 9, dtype=np.float32))
  with pytest.raises(stretto.UnsupportedError, match="0 of 2 attentions work on real tokens only; "
                     "not packed"):
    stretto.optimize(onnx_model, lengths="attention_mask", **QUICK)


class Mixed(nn.Module):
  """Three layers, one of which has a bias by distance."""

  def __init__(self):
    super().__init__()
    self.encoder, self.other = encoder(), encoder(bias="alibi")

  def forward(self, input_ids, attention_mask):
    inner = self.encoder
    x = inner.words(input_ids)
    x = inner.layers[0](x, inner.mask(attention_mask))
    real = attention_mask[:, :, None].to(torch.float32)
    x = inner.layers[1](x, self.other.mask(attention_mask))
    return inner.layers[0](x, inner.mask(attention_mask)), (x * real).sum(1)


def test_an_attention_with_a_bias_runs_on_padded_samples():
  onnx_model = exported(Mixed().eval(), batch([5, 9], 9))
  model = stretto.optimize(onnx_model, lengths="attention_mask", **QUICK)
  note = packed_note(model)
  assert "2 of 3 attentions" in note and "not packed" in note and "padded samples" in note
  feeds = batch([4, 1, 9], 9)
  hidden, sums = model(**feeds)
  expected = judge(onnx_model, feeds)
  assert_tokens_close(hidden, expected[0], feeds["attention_mask"])
  np.testing.assert_allclose(sums, expected[1], rtol=0, atol=1e-4)


class Towers(nn.Module):
  """Two texts of one length, each with its mask; the second one looks at the first, too."""

  def __init__(self):
    super().__init__()
    self.first, self.second = encoder(), encoder(head="mean")

  def forward(self, input_ids, attention_mask, other_ids, other_mask):
    x, _ = self.first(input_ids, attention_mask)
    y = self.second(other_ids, other_mask)
    real = attention_mask[:, :, None].to(torch.float32)
    return x, y + (x * real).sum(1)


def test_another_mask_of_the_same_shape_is_another_mask():
  first, second = batch([5, 9, 2], 9), batch([9, 3, 8], 9, seed=5)
  feeds = first | {"other_ids": second["input_ids"], "other_mask": second["attention_mask"]}
  onnx_model = exported(Towers().eval(), feeds, names=list(feeds))
  for name, mask in (("attention_mask", first), ("other_mask", second)):
    model = stretto.optimize(onnx_model, lengths=name, **QUICK)
    assert "2 of 4 attentions" in packed_note(model)
    hidden, pooled = model(**feeds)
    expected = judge(onnx_model, feeds)
    if name == "attention_mask":
      assert_tokens_close(hidden, expected[0], mask["attention_mask"])
    else:
      np.testing.assert_allclose(hidden, expected[0], rtol=0, atol=5e-5)
    np.testing.assert_allclose(pooled, expected[1], rtol=0, atol=1e-4)


class Cross(nn.Module):
  """A decoder of another text of the same length, whose keys are the tokens of the first."""

  def __init__(self):
    super().__init__()
    self.encoder = encoder()
    self.decoder = Attention(32, 4)

  def forward(self, input_ids, attention_mask, other_ids):
    x, _ = self.encoder(input_ids, attention_mask)
    y = self.encoder.words(other_ids)
    q, bias = self.decoder.query(y), self.encoder.mask(attention_mask)
    heads = lambda t: t.view(t.shape[0], t.shape[1], 4, -1).transpose(1, 2)
    scores = heads(q) @ heads(self.decoder.key(x)).transpose(-2, -1) + bias
    return (torch.softmax(scores, -1) @ heads(self.decoder.value(x))).transpose(1, 2).flatten(2), x


def test_cross_attention_keeps_its_queries():
  feeds = batch([5, 9, 2], 9) | {"other_ids": batch([9] * 3, 9, seed=7)["input_ids"]}
  onnx_model = exported(Cross().eval(), feeds, is_open=False, names=list(feeds),
                        outputs=["decoded", "hidden"])
  model = stretto.optimize(onnx_model, lengths="attention_mask", **QUICK)
  decoded, hidden = model(**feeds)
  expected = judge(onnx_model, feeds)
  np.testing.assert_allclose(decoded, expected[0], rtol=0, atol=5e-5)
  assert_tokens_close(hidden, expected[1], feeds["attention_mask"])


def test_a_module_with_lengths(tmp_path):
  module = encoder()
  feeds = batch([5, 9, 3], 9)
  arguments = {name: torch.from_numpy(x) for name, x in feeds.items()}
  model = stretto.optimize(module, arguments, lengths="attention_mask", **QUICK)
  assert "2 of 2 attentions" in packed_note(model)
  for lengths in ([5, 9, 3], [1, 1, 1], [9, 9, 9], [0, 2, 9]):
    feeds = batch(lengths, 9, seed=1)
    arguments = {name: torch.from_numpy(x) for name, x in feeds.items()}
    hidden, pooled = model(**arguments)
    with torch.no_grad():
      expected = module(**arguments)
    assert_tokens_close(hidden.numpy(), expected[0].numpy(), feeds["attention_mask"],
                        tolerance=2e-5)
  model.save(tmp_path / "m.stretto")
  loaded = stretto.load(tmp_path / "m.stretto", verify=True)
  hidden = next(iter(loaded.run(feeds).values()))
  assert_tokens_close(hidden, expected[0].numpy(), feeds["attention_mask"], tolerance=2e-5)


def test_a_module_of_open_sizes(tmp_path):
  module = encoder()
  feeds = batch([5, 9, 3], 9)
  dim = torch.export.Dim
  open_sizes = {0: dim("batch", max=64), 1: dim("length", min=2, max=64)}
  model = stretto.optimize(module, {name: torch.from_numpy(x) for name, x in feeds.items()},
                           dynamic_shapes={name: open_sizes for name in NAMES},
                           lengths="attention_mask", **QUICK)
  for lengths, length in (([5, 9, 3], 9), ([2, 30], 31), ([1, 7, 5, 2, 2], 17)):
    feeds = batch(lengths, length)
    arguments = {name: torch.from_numpy(x) for name, x in feeds.items()}
    with torch.no_grad():
      expected = module(**arguments)
    assert_tokens_close(model(**arguments)[0].numpy(), expected[0].numpy(),
                        feeds["attention_mask"])
  model.save(tmp_path / "m.stretto")
  loaded = stretto.load(tmp_path / "m.stretto", verify=True)
  assert_tokens_close(next(iter(loaded.run(feeds).values())), expected[0].numpy(),
                      feeds["attention_mask"])


class Sdpa(nn.Module):
  """scaled_dot_product_attention with a mask of bools, as Hugging Face's modules call it."""

  def __init__(self):
    super().__init__()
    self.inner = encoder()

  def forward(self, input_ids, attention_mask):
    batch, length = attention_mask.shape
    x = self.inner.words(input_ids)
    mask = attention_mask[:, None, None, :].bool().expand(batch, 1, length, length)
    for layer in self.inner.layers:
      heads = lambda y: y.view(batch, length, 4, -1).transpose(1, 2)
      a = layer.attention
      mixed = nn.functional.scaled_dot_product_attention(
        heads(a.query(x)), heads(a.key(x)), heads(a.value(x)), attn_mask=mask)
      x = layer.first(x + a.out(mixed.transpose(1, 2).reshape(batch, length, -1)))
    return x


def test_sdpa_from_module_and_onnx():
  module = Sdpa().eval()
  feeds = batch([5, 9, 3], 9)
  arguments = {name: torch.from_numpy(x) for name, x in feeds.items()}
  with torch.no_grad():
    expected = module(**arguments).numpy()
  by_module = stretto.optimize(module, arguments, lengths="attention_mask", **QUICK)
  onnx_model = exported(module, feeds, outputs=["hidden"])
  by_file = stretto.optimize(onnx_model, lengths="attention_mask", **QUICK)
  for model in (by_module, by_file):
    note = packed_note(model)
    assert "2 of 2 attentions" in note and "padded samples" not in note
    assert_tokens_close(np.asarray(model(**(arguments if model is by_module else feeds))), expected,
                        feeds["attention_mask"])


def test_artefacts_keep_lengths(tmp_path):
  feeds = batch([5, 9, 3], 9)
  for is_open in (True, False):
    onnx_model = exported(encoder(), feeds, is_open=is_open)
    file = tmp_path / f"{is_open}.stretto"
    stretto.optimize(onnx_model, lengths="attention_mask", **QUICK).save(file)
    for threads in (1, 2):
      model = stretto.load(file, threads=threads, verify=True)
      assert_tokens_close(model(**feeds)[0], judge(onnx_model, feeds)[0], feeds["attention_mask"])


def test_many_batches_from_many_threads():
  onnx_model = exported(encoder(), batch([5, 9], 9), is_open=False)
  model = stretto.optimize(exported(encoder(), batch([5] * 8, 40)), lengths="attention_mask",
                           threads=2, **QUICK)
  del onnx_model
  onnx_model = exported(encoder(), batch([5] * 8, 40))
  rng = np.random.default_rng(0)
  jobs = [batch(rng.integers(1, 41, 8), 40, seed=i) for i in range(60)]
  expected = [judge(onnx_model, feeds) for feeds in jobs]
  wrong = []

  def work(first):
    for feeds, right in list(zip(jobs, expected))[first::4]:
      try:
        assert_tokens_close(model(**feeds)[0], right[0], feeds["attention_mask"])
      except AssertionError as error:
        wrong.append(error)

  threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert not wrong


def test_what_is_wrong_is_named():
  feeds = batch([5, 9, 3], 9)
  onnx_model = exported(encoder(), feeds)
  with pytest.raises(stretto.InvalidArgumentError, match="lengths: the model has no input 'mask'; "
                     "it has: input_ids, attention_mask"):
    stretto.optimize(onnx_model, lengths="mask", **QUICK)
  with pytest.raises(stretto.InvalidArgumentError, match="lengths: expected the name of an input"):
    stretto.optimize(onnx_model, lengths="", **QUICK)
  with pytest.raises(stretto.InvalidArgumentError, match="lengths: expected a string, got int"):
    stretto.optimize(onnx_model, lengths=3, **QUICK)
  module = nn.Sequential(nn.Linear(4, 4)).eval()
  with pytest.raises(stretto.InvalidArgumentError, match=r"lengths: expected an input \[batch, "
                     "length\\] that is 1 for tokens"):
    stretto.optimize(module, torch.zeros(2, 3, 4), lengths="input", **QUICK)
  model = stretto.optimize(onnx_model, lengths="attention_mask", **QUICK)
  feeds["attention_mask"][1, 4] = 2
  with pytest.raises(stretto.InvalidArgumentError, match="input attention_mask: expected 1 for "
                     r"tokens and 0 for padding, because the model was optimised with lengths, got "
                     r"2 at \[1, 4\]"):
    model(**feeds)
  with pytest.raises(stretto.InvalidArgumentError, match="attention_mask"):
    model(input_ids=feeds["input_ids"], attention_mask=np.ones((3, 8), np.int64))
  with pytest.raises(stretto.InvalidArgumentError, match="attention_mask"):
    model(input_ids=feeds["input_ids"], attention_mask=np.ones(9, np.int64))


def test_the_log_says_what_is_packed(caplog):
  with caplog.at_level(logging.WARNING, "stretto"):
    stretto.optimize(exported(encoder(), batch([5, 9], 9)), lengths="attention_mask", **QUICK)
  assert any("lengths by attention_mask: 2 of 2 attentions" in r.getMessage()
             for r in caplog.records)


def test_weights_are_packed_once_for_all_numbers_of_tokens():
  model = stretto.optimize(exported(encoder(width=64), batch([9] * 8, 60)), threads=1,
                           lengths="attention_mask", **QUICK)
  model(**batch([60] * 8, 60))
  model(**batch([30] * 8, 60))
  packed = model._session.shared_weight_bytes
  for tokens in range(5, 60, 3):
    model(**batch([tokens] * 8, 60))
  assert model._session.shared_weight_bytes == packed


def test_the_command_takes_lengths(run_command, tmp_path):
  feeds = batch([5, 9, 3], 9)
  onnx_model = exported(encoder(), feeds)
  (tmp_path / "m.onnx").write_bytes(onnx_model)
  np.savez(tmp_path / "in.npz", **feeds)
  flags = ["--tuning", "off", "--tuning-cache", "none", "--lengths", "attention_mask"]
  shapes = ["--inputs", "in.npz"]
  said = run_command("optimize", "m.onnx", "-o", "m.stretto", *shapes, *flags)
  assert "2 of 2 attentions" in said.stderr
  expected = judge(onnx_model, feeds)[0]
  for source, more in (("m.onnx", flags), ("m.stretto", [])):
    run_command("infer", source, *shapes, *more, "-o", "out.npz")
    with np.load(tmp_path / "out.npz") as outputs:
      assert_tokens_close(outputs["hidden"], expected, feeds["attention_mask"])
  measured = run_command("bench", "m.onnx", *shapes, *flags, "--threads", 1, "--seconds", 0.2,
                         "--peers", "onnxruntime", "--json")
  entry = json.loads(measured.stdout)["measured"][0]
  for engine in (entry["stretto"], entry["peers"][0]):
    assert engine.get("error", 0) < 1e-3 and engine["median_ms"] > 0, engine
  said = run_command("optimize", "m.onnx", "-o", "n.stretto", "--lengths", "mask", code=2)
  assert "lengths: the model has no input 'mask'" in said.stderr
  said = run_command("infer", "m.stretto", *shapes, "--lengths", "attention_mask")
  assert "--lengths has no effect" in said.stderr
