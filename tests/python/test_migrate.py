"""`stretto migrate`: what strangers' scripts become, and that it trains as before."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("libcst", reason="libcst is not installed: ./dev setup installs it")

from migrate_runs import RUNS  # noqa: E402
from stretto.migrate import migrate  # noqa: E402
from stretto.migrate._helpers import HELPERS  # noqa: E402

HERE = Path(__file__).parent
SCRIPTS = sorted((HERE / "migrate").glob("*.py"))
TIMEOUT_S = 840  # a guard against hanging for ever; pytest has one of 900 s per test
# Sums of a float32 gradient in two parts instead of one, over at most 32 steps: 2.4e-7 was seen.
TOLERANCE = 1e-5


def text(name):
  return (HERE / "migrate" / f"{name}.py").read_text()


def findings(found):
  return "\n".join(f"{f.line}: {f.text}" for f in found)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
  """What every script printed before and after, by name."""
  folder = tmp_path_factory.mktemp("runs")
  done = subprocess.run([sys.executable, str(HERE / "migrate_runs.py"), str(folder), *RUNS],
                        capture_output=True, text=True, timeout=TIMEOUT_S,
                        env={**os.environ, "OMP_NUM_THREADS": "1"})
  assert done.returncode == 0, done.stderr
  return {name: json.loads((folder / f"{name}.json").read_text()) for name in RUNS}


def numbers(printed):
  return [float(word) for word in re.findall(r"-?\d+\.\d+", printed)]


@pytest.mark.parametrize("name", RUNS)
def test_every_run_succeeds_and_rank_0_prints_alone(name, runs):
  for how, run in runs[name].items():
    assert run["code"] == 0, f"{how}: {run['err']}"
  assert runs[name]["two-rank1"]["out"] == ""
  assert numbers(runs[name]["two-rank0"]["out"])


@pytest.mark.parametrize("name", [name for name in RUNS if name != "dropout_workers"])
def test_one_process_prints_what_it_printed_before(name, runs):
  """To the last of ten digits, and it writes the same files. dropout_workers has no seed."""
  assert runs[name]["alone"]["out"] == runs[name]["original"]["out"]
  assert runs[name]["alone"]["files"] == runs[name]["original"]["files"]


@pytest.mark.parametrize("name", [name for name in RUNS
                                  if name not in ("dropout_workers", "nanogpt_like")])
def test_two_ranks_have_the_losses_of_one_process_with_their_batches_together(name, runs):
  """Dropout and BatchNorm see each rank's own batch: dropout_workers has no such losses. Batches of
  nanogpt_like are drawn at random, on each rank others."""
  expected = numbers(runs[name]["doubled"]["out"])
  assert len(expected) >= 3
  assert numbers(runs[name]["two-rank0"]["out"]) == pytest.approx(expected, rel=TOLERANCE,
                                                                  abs=1e-7)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_second_migration_changes_nothing(script):
  once = migrate(script.read_text())
  assert once.source != script.read_text() and not once.distributed
  twice = migrate(once.source)
  assert twice.source == once.source and "init_process_group" in twice.distributed


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_script_gets_what_ranks_need(script):
  new = migrate(script.read_text()).source
  for needed in ("start_ranks()", "DistributedDataParallel(", "dist.destroy_process_group()",
                 "own_randomness()"):
    assert needed in new
  if "DataLoader" in script.read_text():
    assert re.search(r"sampling\w*\(", new) or "ShareOfStream(" in new
    assert re.search(r"^\s*(set_epoch|next_epoch)\(", new, re.M) or "ShareOfStream(" in new


def test_nothing_but_what_is_needed_is_written():
  new = migrate(text("digits_functions")).source
  defined = {node.name for node in ast.parse(new).body
             if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
  helpers = {row.name for row in HELPERS if row.text} & defined
  assert all(new.count(name) > 1 for name in helpers)
  assert "first_on_host" not in new and "ShareOfStream" not in new


def test_downloads_and_pretrained_weights_come_to_the_first_rank_of_a_host():
  new = migrate(text("torchvision_model")).source
  assert new.count("with first_on_host():") == 2  # both datasets together, and the weights
  assert "torch.save(unwrap(model), " in new
  assert "torch.optim.SGD(unwrap(model).fc.parameters()" in new


def test_a_model_and_an_optimizer_in_different_functions():
  new = migrate("""
import torch
from torch.utils.data import DataLoader

def build():
    model = torch.nn.Linear(2, 1)
    model.weight.data.zero_()
    return model

def optimizer_of(m):
    return torch.optim.SGD(m.parameters(), lr=0.1)

def main(samples):
    net = build()
    opt = optimizer_of(net)
    for e in range(3):
        for x, y in DataLoader(samples, 4, shuffle=True):
            net(x).sum().backward()
            opt.step()
""")
  assert "    net = DistributedDataParallel(net)\n    opt = optimizer_of(net)" in new.source
  assert "unwrap(model)" not in new.source  # build() sees the module itself
  assert "give this loader a name" in findings(new.by_hand)


LOOP = """
import torch
from torch.utils.data import DataLoader
{imports}
model = torch.nn.Linear(2, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader({loader})
for epoch in range(3):
    {before}
    for x, y in loader:
        {inside}
        opt.step()
    {after}
"""


def loop(loader="samples, shuffle=True", before="pass", inside="loss(x, y).backward()",
         after="pass", imports=""):
  return migrate(LOOP.format(loader=loader, before=before, inside=inside, after=after,
                             imports=imports))


@pytest.mark.parametrize("case, complaint", [
  (dict(loader="samples, sampler=WeightedRandomSampler(w, 9)"), "has a sampler of its own"),
  (dict(inside="model.loss(x, y).backward()"), "does not go through DistributedDataParallel"),
  (dict(inside="out.append(model(x).cpu()); loss(x).backward()"), "gather them with"),
  (dict(after="f = open('log.txt', 'a')"), "every rank opens this file"),
  (dict(imports="import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'"), "remove it"),
  (dict(after="x.to('cuda:1')"), "names one GPU for all ranks"),
  (dict(imports="import wandb\nname = wandb.init(project='p').name"), "every rank logs here"),
  (dict(inside="l = model(x).sum()\n        if torch.isnan(l):\n            continue\n"
        "        l.backward()"), "each rank decides here by its own values"),
  (dict(inside="model.requires_grad_(False); loss(x).backward()"), "find_unused_parameters"),
])
def test_what_it_cannot_decide_is_listed_by_line(case, complaint):
  found = loop(**case)
  assert complaint in findings(found.by_hand)
  lines = LOOP.format(**{"loader": "samples, shuffle=True", "before": "pass", "after": "pass",
                         "inside": "loss(x, y).backward()", "imports": "", **case}).splitlines()
  [finding] = [f for f in found.by_hand if complaint in f.text]
  changed = next(iter(case.values())).splitlines()
  assert any(line.strip() in lines[finding.line - 1] for line in changed)


def test_a_model_that_makes_its_optimizer():
  found = migrate("""
import torch
from torch.utils.data import DataLoader
from tqdm import tqdm

class Net(torch.nn.Module):
    def optimizer(self):
        return torch.optim.Adam(self.parameters())
    def step(self, x):
        return self(x).sum()

def fit(samples):
    net = Net()
    opt = net.optimizer()
    loader = DataLoader(samples, shuffle=True)
    for epoch in range(3):
        with tqdm(loader) as bar:
            for x in bar:
                net.step(x).backward()
                opt.step()
        for x in (bar := tqdm(loader)):
            net(x).sum().backward()
""")
  assert ("    net = DistributedDataParallel(net)\n"
          "    opt = unwrap(net).optimizer()") in found.source
  assert found.source.count("            set_epoch(loader, epoch)\n            for x in bar:") == 1
  assert "        set_epoch(loader, epoch)\n        for x in (bar :=" in found.source
  assert "net.step() does not go through DistributedDataParallel" in findings(found.by_hand)


def test_elements_of_containers_and_layers_are_told_apart():
  new = migrate("""
import torch
from torch.utils.data import DataLoader
nets = {"g": torch.nn.Sequential(torch.nn.Linear(1, 1))}
net = torch.nn.Sequential(torch.nn.Linear(1, 1))
opt = torch.optim.SGD(nets["g"].parameters())
opt2 = torch.optim.SGD(net.parameters())
loader = DataLoader(samples, shuffle=True)
for epoch in range(2):
    for x in loader:
        (nets["g"](x) + net(x)).sum().backward()
        opt.step()
print(net[0].weight, nets["g"].extra)
torch.save([nets["g"].state_dict(), opt.state_dict()], "x.pt")
""").source
  assert 'nets["g"] = DistributedDataParallel(nets["g"])\nopt = ' in new
  assert "net = DistributedDataParallel(net)\nopt2 = " in new
  assert 'print_once(unwrap(net)[0].weight, unwrap(nets["g"]).extra)' in new
  assert 'torch.save([unwrap(nets["g"]).state_dict(), opt.state_dict()], "x.pt")' in new


def test_a_script_without_a_loader_says_so():
  found = migrate("import torch\nm = torch.nn.Linear(1, 1)\no = torch.optim.SGD(m.parameters())\n"
                  "for i in range(3):\n    m(x).backward()\n    o.step()\n")
  assert "there is no DataLoader here" in findings(found.by_hand)


def test_random_batches_without_a_loader_train_on_all_ranks(runs):
  """Each rank draws its own, and all end with one model: the estimates come from it."""
  new = migrate(text("nanogpt_like")).source
  assert ("model = DistributedDataParallel(model)\n"
          "optimizer = unwrap(model).configure_optimizers(learning_rate)") in new
  assert "loss {mean_of_ranks(lossf):.8f}" in new
  printed = {how: numbers(run["out"]) for how, run in runs["nanogpt_like"].items()}
  assert printed["two-rank0"][:2] == printed["original"][:2]  # estimates before training
  assert printed["two-rank0"][2:] != printed["original"][2:]


FACTORY = """
import torch
from torch.utils.data import DataLoader

def make(data, batch, train=True):
    return DataLoader(data, batch_size=batch, shuffle={shuffle})

def optimizer_of(name, parameters):
    groups = [p for p in parameters if p.requires_grad]
    return {optimizer}([{{"params": groups}}], lr=0.1)

model = torch.nn.Linear(2, 2)
opt = optimizer_of("SGD", model.parameters())
loader, whole = make(a, 4, True), make(b, 4, False)
for epoch in range(3):
    for x, y in loader:
        loss(model(x), y).backward()
        opt.step()
    total = 0.0
    for x, y in whole:
        total += loss(model(x), y).item() * len(x)
    print(total / len(b), sum(model(x).sum().item() for x, y in whole))
"""


@pytest.mark.parametrize("optimizer", [
  "getattr(torch.optim, name)", "{'SGD': torch.optim.SGD}[name]", "torch.optim.SGD"])
def test_a_factory_of_optimizers_gets_the_parameters(optimizer):
  found = migrate(FACTORY.format(shuffle="train", optimizer=optimizer))
  assert "model = DistributedDataParallel(model)\nopt = optimizer_of(" in found.source
  assert not found.by_hand


@pytest.mark.parametrize("shuffle", ["train", "train is not False", "train == True"])
def test_one_function_makes_the_loaders_of_training_and_evaluation(shuffle):
  new = migrate(FACTORY.format(shuffle=shuffle, optimizer="torch.optim.SGD")).source
  assert "**sampling_if_shuffled(data, shuffle=" in new and "def sampling(" in new
  assert "total = sum_of_ranks(total)" not in new


def test_shares_in_an_expression_are_listed():
  found = migrate(FACTORY.format(shuffle="True", optimizer="torch.optim.SGD"))
  assert "**sampling(data" in found.source and "total = sum_of_ranks(total)" in found.source
  assert "its own share of the samples here" in findings(found.by_hand)


def test_loaders_in_a_dictionary_are_told_apart_by_their_keys():
  new = migrate("""
import torch
from torch.utils.data import DataLoader

def loaders():
    found = {"train": DataLoader(a, shuffle=True)}
    found["test"] = DataLoader(b)
    return found

dl = loaders()
model = torch.nn.Linear(2, 2)
opt = torch.optim.SGD(model.parameters())
for epoch in range(3):
    for x in dl["train"]:
        model(x).sum().backward()
        opt.step()
    hits = 0
    for x in dl["test"]:
        hits += (model(x) > 0).sum().item()
    print(hits)
""").source
  assert "DataLoader(a, **sampling(" in new and "DataLoader(b)" in new
  assert "sum_of_ranks" not in new


def test_counts_are_followed_through_arithmetic():
  """The ranks come to `break` together; by what they have measured, they would not."""
  case = dict(imports="import math\ntotal = 3 * math.ceil(len(samples) / 2)\nsteps = 0",
              inside="loss(x, y).backward()\n        steps += 1\n"
                     "        if steps >= total:\n            break")
  assert not loop(**case).by_hand
  case["imports"] += "\ntotal = total * measure(samples)"
  assert "each rank decides here" in findings(loop(**case).by_hand)


@pytest.mark.parametrize("old, new", [
  ("torch.device('cuda', 0)", "torch.device('cuda')"),
  ("torch.device('cuda', index=0)", "torch.device('cuda')"),
  ("model.cuda(args.gpu)", "model.cuda()"),
  ("model.cuda(device=args.gpu)", "model.cuda()"),
])
def test_the_only_gpu_of_a_script_is_that_of_the_rank(old, new):
  found = loop(after=f"d = {old}")
  assert f"d = {new}\n" in found.source and not found.by_hand


def test_several_gpus_of_a_script_are_listed():
  found = loop(after="a, b = m.cuda(args.first), n.cuda(args.second)")
  assert "all ranks get the same GPU" in findings(found.by_hand)


def test_a_scaled_loss_is_averaged_behind_its_loop():
  new = loop(inside="loss = model(x).sum()\n        scaler.scale(loss).backward()",
             after="shown = loss.item() * 4\n    print(f'{shown:.3f}', loss.item())").source
  assert "print_once(f'{mean_of_ranks(shown):.3f}', mean_of_ranks(loss.item()))" in new


def test_values_that_not_all_ranks_show_are_not_averaged():
  """A collective under a condition that differs between ranks would hang."""
  new = loop(inside="loss = model(x).sum()\n        loss.backward()\n"
             "        if x.max() > 3:\n            print(loss.item())").source
  assert "print_once(loss.item())" in new
  new = loop(inside="loss = model(x).sum()\n        loss.backward()\n"
             "        if loss.item() > 3:\n            break").source
  assert "if mean_of_ranks(loss.item()) > 3:" in new


def test_inner_loops_may_go_round_more_often_on_one_rank():
  new = loop(inside="loss = model(x).sum()\n        loss.backward()\n"
             "        for part in y:\n            print(part.item())").source
  assert "print_once(part.item())" in new


def test_the_last_loss_is_averaged_behind_the_loop():
  inside = "loss = model(x).sum()\n        loss.backward()"
  new = loop(inside=inside, after="print(f'{epoch}: {loss.item():.3f}', x.max().item())").source
  assert "print_once(f'{epoch}: {mean_of_ranks(loss.item()):.3f}', x.max().item())" in new
  new = loop(inside=inside, after="if x.max() > 3: print(loss.item())").source
  assert "print_once(loss.item())" in new


@pytest.mark.parametrize("divisor, helper", [
  ("len(loader)", "mean"), ("len(loader.dataset)", "sum"), ("len(samples)", "sum"),
  ("steps", "mean")])
def test_sums_are_reduced_by_what_divides_them(divisor, helper):
  new = loop(before="total = 0.0", after=f"print(total / {divisor})",
             imports="samples = [1]\nsteps = len(DataLoader(samples))",
             inside="loss = model(x).sum()\n        loss.backward()\n"
                    "        total += loss.item()").source
  assert f"    total = {helper}_of_ranks(total)\n    print_once(total / {divisor})" in new


EVALUATED = """
import json
import torch
from torch.utils.data import DataLoader
model = torch.nn.BatchNorm1d(2)
opt = torch.optim.SGD(model.parameters())
loader = DataLoader(samples, shuffle=True)

def evaluate():
    return float(model(x).sum())

def train():
    for x in loader:
        model(x).sum().backward()

with open("log.txt", "w") as log:
    for epoch in range(3):
        train()
with open("result.json", "w") as file:
    json.dump(evaluate(), file)
with open("config.json", "w") as file:
    json.dump({}, file)
data = train(download=True)
"""


def test_what_all_ranks_run_together_is_not_left_to_rank_0():
  """The others would wait for it, or it for them."""
  found = migrate(EVALUATED)
  assert found.source.count("if dist.get_rank() == 0:\n    with open") == 1
  assert 'if dist.get_rank() == 0:\n    with open("config.json", "w") as file:' in found.source
  assert "with first_on_host():" not in found.source
  assert [f.line for f in found.by_hand if "every rank opens this file" in f.text] == [16, 19]


def test_a_module_that_workers_import_again_joins_the_ranks_once():
  new = migrate("import torch\n" + text("stream").replace("BATCH = 8", "BATCH = 8\nprint(BATCH)")
                ).source
  assert 'if __name__ == "__main__":\n    start_ranks()\n' in new
  assert new.index("    start_ranks()\n") < new.index("print_once(BATCH)")
  assert migrate(text("stream")).source.count('if __name__ == "__main__":') == 1


def test_a_sum_that_begins_again_is_averaged_where_it_is_shown():
  new = loop(before="total = 0.0", inside="loss = model(x).sum()\n        loss.backward()\n"
             "        total += loss.item()\n        if epoch % 20 == 19:\n"
             "            print(f'{total / 20:.3f}')\n            total = 0.0").source
  assert "print_once(f'{mean_of_ranks(total) / 20:.3f}')" in new
  assert "    total = mean_of_ranks(total)" not in new


def test_writers_log_on_rank_0():
  new = loop(imports="from torch.utils.tensorboard import SummaryWriter\nw = SummaryWriter('x')",
             after="w.add_scalar('a', 1, epoch)\n    w.flush()").source
  assert "w = SummaryWriter('x') if dist.get_rank() == 0 else None" in new
  assert ("    if dist.get_rank() == 0:\n        w.add_scalar('a', 1, epoch)\n"
          "        w.flush()\n") in new


def test_a_number_that_a_step_has_measured_is_averaged_where_it_is_shown():
  """As D(x) in PyTorch's DCGAN example; counts of a batch are each rank's own."""
  new = loop(inside="loss(x, y).backward()\n        d_x = y.mean().item()\n"
             "        right = (y > 0).sum().item()\n        print(d_x, right)").source
  assert "print_once(mean_of_ranks(d_x), right)" in new


def test_a_whole_module_comes_back_to_the_gpu():
  """As in PyTorch's language model, which goes on with it beside data on the GPU."""
  save = "torch.save(model, 'a.pt')\n    "
  for use, place in (("net(x)", '{"cuda:0": "cuda"}'), ("net.eval()", '{"cuda:0": "cuda"}'),
                     ("net.to('cpu')", '"cpu"'), ("print(net['epoch'])", '"cpu"')):
    new = loop(after=f"{save}net = torch.load('a.pt')\n    {use}").source
    assert f"torch.load('a.pt', map_location={place})" in new, use


@pytest.mark.parametrize("devices, listed", [
  ("devices=1", True), ("devices=[0]", True), ("gpus=1", True), ("devices='1'", True),
  ("devices=4", False), ("devices='auto'", False), ("max_epochs=1", False)])
def test_lightning_on_one_device_is_listed(devices, listed):
  found = migrate(f"import lightning as L\n\ntrainer = L.Trainer({devices})\ntrainer.fit(m)\n")
  assert "Lightning" in found.distributed
  assert [f.line for f in found.by_hand] == ([3] if listed else [])
