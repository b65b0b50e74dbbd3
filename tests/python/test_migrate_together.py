"""`stretto migrate`: what ranks do together is reached by all of them, and no gradient is lost."""

import pytest

pytest.importorskip("libcst", reason="libcst is not installed: ./dev setup installs it")

from stretto.migrate import migrate  # noqa: E402

from stretto import InvalidArgumentError  # noqa: E402

LOOP = """
import torch
from torch.utils.data import DataLoader
{imports}
model = torch.nn.Linear(2, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(samples, shuffle=True)
for epoch in range(3):
    {before}
    for x, y in loader:
        loss = model(x).sum()
        loss.backward()
        {inside}
        opt.step()
    {after}
"""


def loop(before="pass", inside="pass", after="pass", imports="", text=LOOP):
  return migrate(text.format(before=before, inside=inside, after=after, imports=imports))


def findings(found):
  return "\n".join(f"{f.line}: {f.text}" for f in found)


@pytest.mark.parametrize("line, becomes", [
  ('wandb.log({"loss": loss.item()})', 'wandb.log({"loss": loss.item()})'),
  ('with open("log.txt", "a") as f: f.write(f"{loss.item()}")',
   'with open("log.txt", "a") as f: f.write(f"{loss.item()}")'),
  ('if loss.item() < best: torch.save(model.state_dict(), "b.pt")', "if loss.item() < best:"),
])
def test_rank_0_alone_meets_nobody(line, becomes):
  found = loop(inside=line, imports="import wandb\nbest = 9")
  assert f"        if dist.get_rank() == 0:\n            {becomes}" in found.source
  assert "loss.item() is that of rank 0's own samples here" in findings(found.notes)
  assert "loss.item() is averaged" not in findings(found.done)


def test_a_function_in_which_ranks_meet_is_not_left_to_rank_0():
  found = migrate("""
import json
import torch
from torch.utils.data import DataLoader
model = torch.nn.Linear(2, 2)
opt = torch.optim.SGD(model.parameters())
loader = DataLoader(samples, shuffle=True)

def seen():
    count = 0
    for x, y in loader:
        count += len(x)
    return count

for epoch in range(3):
    for x, y in loader:
        model(x).sum().backward()
        opt.step()
with open("r.json", "w") as file:
    json.dump(seen(), file)
""")
  assert "count = sum_of_ranks(count)" in found.source
  assert 'if dist.get_rank() == 0:\n    with open("r.json"' not in found.source
  assert "20: all ranks have to run this" in findings(found.by_hand) or \
      "19: all ranks have to run this" in findings(found.by_hand)
  assert "rank 0 writes this alone" not in findings(found.done)


def test_variables_that_are_read_behind_a_block_are_set_on_all_ranks():
  found = loop(imports='with open("v.json", "w") as f:\n    vocab = build()\n    dump(vocab, f)\n'
               "size = len(vocab)")
  assert 'if dist.get_rank() == 0:\n    with open("v.json"' not in found.source
  assert "every rank opens this file" in findings(found.by_hand)


@pytest.mark.parametrize("line", [
  "if x.max() > 3 and loss.item() > 5: pass", "print(loss.item() if y.sum() > 0 else 0)",
  "print([v.item() for v in y])", "if 0 < x.max() < loss.item(): pass",
  "assert x.max() < 3, print(loss.item())"])
def test_no_collective_where_python_may_not_look(line):
  assert "_of_ranks(" not in loop(inside=line).source


@pytest.mark.parametrize("lines", [
  "mi = -(x.mean() - torch.log(x.exp().mean()))\n        mi.backward()",
  "aux.append(x.pow(2).mean())\n        (loss + sum(aux)).backward()",
  "total += loss\n        aux.append(total)\n        sum(aux).backward()\n        print(total)"])
def test_what_leads_to_a_backward_keeps_its_graph(lines):
  assert "_of_ranks(" not in loop(inside=lines, imports="aux, total = [], 0").source


def test_a_sum_whose_backward_is_behind_the_loop():
  found = migrate("""
import torch
from torch.utils.data import DataLoader
model = torch.nn.Linear(2, 2)
opt = torch.optim.SGD(model.parameters())
loader = DataLoader(samples, shuffle=True)
for epoch in range(3):
    total = 0
    for x, y in loader:
        total += loss(model(x), y)
    total.backward()
    opt.step()
""")
  assert "_of_ranks(" not in found.source
  assert "    set_epoch(loader, epoch)\n    for x, y in loader:" in found.source


def test_an_average_of_weights_is_no_meter():
  new = loop(imports="class Ema:\n    def update(self, m): pass\nema = Ema()",
             inside="ema.update(model)").source
  assert "_of_ranks(" not in new


@pytest.mark.parametrize("lines, barrier", [
  ('if os.path.exists("b.pt"):\n    model.load_state_dict(torch.load("b.pt"))',
   'dist.barrier()\nif os.path.exists("b.pt"):'),
  ('numpy.save("c.npy", f)\nf = numpy.load("c.npy")',
   'if dist.get_rank() == 0:\n    numpy.save("c.npy", f)\ndist.barrier()\nf = numpy.load("c.npy")'),
  ('with open("b.pt", "rb") as f:\n    data = f.read()', 'dist.barrier()\nwith open("b.pt", "rb")'),
])
def test_barriers_stand_where_all_ranks_come(lines, barrier):
  found = loop(after=f'torch.save(model.state_dict(), "b.pt")\n{lines}', imports="import os, numpy")
  assert barrier in found.source and found.source.count("dist.barrier()") == 1


@pytest.mark.parametrize("lines", [
  "class Files(torch.utils.data.Dataset):\n"
  '    def __getitem__(self, i):\n        return torch.load(f"s{i}.pt")',
  "def part(i):\n    return torch.load(f's{i}.pt')\nmapped = pool.map(part, names)",
  "try:\n    old = torch.load('b.pt') if x.max() > 3 else None\nfinally:\n    pass\n"
  "if x.max() > 3:\n    torch.save(old, 'b.pt')\n    new = torch.load('b.pt')"])
def test_no_barrier_in_worker_processes_or_where_some_ranks_come(lines):
  found = loop(imports=lines, after='torch.save(model.state_dict(), "b.pt")')
  assert "\n        dist.barrier()" not in found.source
  assert found.source.count("dist.barrier()") <= 1


def test_a_function_that_waits_is_not_left_to_rank_0():
  found = loop(imports="import json\ndef evaluate():\n    m = torch.load('m.pt')\n    return 1",
               after="torch.save(model, 'm.pt')\nwith open('r.json', 'w') as f:\n"
                     "    json.dump(evaluate(), f)")
  assert "    dist.barrier()\n    m = torch.load('m.pt'" in found.source
  assert "if dist.get_rank() == 0:\n    with open('r.json'" not in found.source
  assert "all ranks have to run this" in findings(found.by_hand)


@pytest.mark.parametrize("lines", [
  "if args.seed is not None:\n    torch.manual_seed(args.seed)", "torch.manual_seed(0)"])
def test_all_ranks_prepare_from_one_state_whatever_seeds_there_are(lines):
  new = loop(imports=f"from sklearn.model_selection import train_test_split\n{lines}\n"
             "a, b = train_test_split(everything)").source
  assert "    numpy.random.set_state(states[2])" in new
  assert new.index("\nsame_randomness()") < new.index("train_test_split(everything)")


@pytest.mark.parametrize("line", ["g = np.random.default_rng()", "torch.manual_seed(time.time())"])
def test_seeds_that_differ_are_listed(line):
  found = loop(imports=f"import time\nimport numpy as np\n{line}")
  assert "each rank gets random numbers of its own here" in findings(found.by_hand)


def test_a_name_that_hides_a_module_is_an_error():
  with pytest.raises(InvalidArgumentError, match="a random of its own"):
    loop(imports="from numpy import random")


@pytest.mark.parametrize("lines", [
  "if y.sum() == 0: continue", "if y.max() > 0:\n            model(x).backward()",
  "if time.time() - t0 > 60: break", "if stop_flag(): break",
  "if loss.item() > 3 and y.sum() > 0: break",
  "try:\n            model(x).backward()\n        except RuntimeError:\n            continue"])
def test_what_parts_ranks_is_listed(lines):
  hand = findings(loop(inside=lines, imports="import time").by_hand)
  assert "each rank decides here by its own values" in hand or "a rank that comes here" in hand


@pytest.mark.parametrize("line", [
  "if loss.item() > 3: break", "if not math.isfinite(loss.item()): break", "if epoch > 3: break",
  "if args.dry_run: break"])
def test_what_ranks_decide_together_is_not_listed(line):
  assert loop(inside=line, imports="import math").by_hand == []


def test_a_closure_of_an_optimizer_is_listed():
  found = migrate("""
import torch
from torch.utils.data import DataLoader
model = torch.nn.Linear(2, 2)
opt = torch.optim.LBFGS(model.parameters())
loader = DataLoader(samples, shuffle=True)
for epoch in range(3):
    for x, y in loader:
        def closure():
            loss = model(x).sum()
            loss.backward()
            return loss
        opt.step(closure)
""")
  assert "the optimizer calls this closure itself" in findings(found.by_hand)


def test_a_loader_of_evaluation_that_shuffles_is_listed():
  found = loop(imports="test = DataLoader(others, 8, shuffle=True)",
               after="for x in test: model(x)")
  assert "loader of evaluation in different orders" in findings(found.by_hand)


def test_every_set_device_is_left_to_the_ranks():
  new = loop(imports='device = torch.device("cuda:0")\ntorch.cuda.set_device(device)').source
  assert "set_device(device)" not in new and "torch.cuda.current_device()" in new


@pytest.mark.parametrize("line, complaint", [
  ('device = torch.device("cuda", 1)', "names one GPU for all ranks"),
  ('device = f"cuda:{args.gpu}"', "may name one GPU for all ranks"),
  ("model.cuda(args.gpu), other.cuda(args.second)", "all ranks get the same GPU"),
  ("import wandb\nwandb.init()\nrate = wandb.config.lr", "only rank 0 has wandb.config.lr"),
  ("from torch.utils.tensorboard import SummaryWriter\nw = SummaryWriter()\nplace = w.log_dir",
   "only rank 0 has w.log_dir")])
def test_what_only_one_rank_has_is_listed(line, complaint):
  assert complaint in findings(loop(imports=line).by_hand)
