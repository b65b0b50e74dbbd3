"""Runs the scripts of tests/python/migrate before and after `stretto migrate`, on one process and
on two ranks. torch is imported once: every run is a fork.

  python migrate_runs.py FOLDER NAME...

writes FOLDER/NAME.json: what each run printed.
"""

import json
import os
import runpy
import signal
import socket
import sys
import traceback
from pathlib import Path

import stretto.torch  # noqa: F401
import torch
import torch._dynamo  # noqa: F401  (optimizers import it: once here, not in each fork)
import torch.distributed  # noqa: F401
import torch.nn.parallel.distributed  # noqa: F401
import torch.optim  # noqa: F401
from stretto.migrate import migrate
from torch.utils.data import RandomSampler

SCRIPTS = Path(__file__).parent / "migrate"
LIMIT_S = 240  # a guard against hanging for ever

# Script: what makes its batch twice as large, and the number of its first epoch, for its sampler.
# An option has two words; "A=B" is a replacement in the text.
RUNS = {
  "digits_functions": (["--batch-size", "32"], 1),
  "module_level": (["BATCH = 8=BATCH = 16"], 0),
  "trainer_class": (["--batch-size", "32"], 0),
  "gan": (["--batchSize", "16"], 0),
  "stream": (["BATCH = 8=BATCH = 16"], 0),
  "accumulate_amp": (["--batch", "8"], 0),
  "max_steps": (["--batch", "16"], 1),
  "early_stop": (['"batch": 8="batch": 16'], 1),
  "meters": (["--batch-size", "16"], 0),
  "dropout_workers": ([], 0),
  "average_of_weights": (["--batch-size", "16"], 0),
  "hf_like": (["per_device_train_batch_size: int = 4=per_device_train_batch_size: int = 8"], 0),
  "nanogpt_like": ([], 0),
  "vae_two_optims": (["BATCH, LATENT, PATIENCE = 4, 8=BATCH, LATENT, PATIENCE = 4, 16"], 1),
  "segmentation_train": (["--batch-size", "8"], 1),
  "trainer_config": (["batch_size: int = 8=batch_size: int = 16"], 1),
  "timm_like": (["--batch-size", "16"], 0),
  "lstm_notebook": (["batch_size=8, shuffle=batch_size=16, shuffle"], 1),
  "distill": (["--batch", "16"], 1),
  "siamese_schedule": (['"batch": 8="batch": 16'], 0),
}


def order_of_ranks(first_epoch):
  """RandomSampler takes the order that DistributedSampler gives to all ranks together."""
  def ordered(sampler):
    torch.empty((), dtype=torch.int64).random_()  # RandomSampler draws a seed
    epoch = getattr(sampler, "epoch", first_epoch)
    sampler.epoch = epoch + 1
    generator = torch.Generator().manual_seed(epoch)
    yield from torch.randperm(len(sampler.data_source), generator=generator).tolist()

  RandomSampler.__iter__ = ordered


def free_port():
  with socket.socket() as found:
    found.bind(("127.0.0.1", 0))
    return found.getsockname()[1]


def start(script, folder, name, words=(), environment=None, first_epoch=None):
  """A fork that runs the script in a folder of its own, with its output in a file."""
  place = folder / name.rpartition("-rank")[0] if "-rank" in name else folder / name
  place.mkdir(exist_ok=True)
  child = os.fork()
  if child:
    return child
  code = 1
  try:
    signal.alarm(LIMIT_S)
    os.chdir(place)
    out = os.open(folder / f"{name}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    os.dup2(out, 1)
    os.dup2(os.open(folder / f"{name}.err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), 2)
    os.environ.update(environment or {})
    if first_epoch is not None:
      order_of_ranks(first_epoch)
    sys.argv = [str(script), *words]
    try:
      runpy.run_path(str(script), run_name="__main__")
      code = 0
    except SystemExit as ended:
      code = ended.code or 0
  except BaseException:
    traceback.print_exc()
  finally:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def results(folder, children):
  found = {}
  for name, child in children.items():
    _, status = os.waitpid(child, 0)
    found[name] = {"code": os.waitstatus_to_exitcode(status),
                   "out": (folder / f"{name}.txt").read_text(),
                   "err": (folder / f"{name}.err").read_text()[-3000:],
                   "files": sorted(str(p.relative_to(folder / name)) for p in
                                   (folder / name.partition("-rank")[0]).rglob("*")
                                   if "-rank" not in name)}
  return found


def run(name, folder):
  folder.mkdir()
  words, first_epoch = RUNS[name]
  text = (SCRIPTS / f"{name}.py").read_text()
  migrated, doubled = folder / "migrated.py", folder / "doubled.py"
  migrated.write_text(migrate(text).source)
  options = [word for word in words if "=" not in word]
  for word in words:
    if "=" in word:
      middle = len(word) // 2
      at = min((i for i, c in enumerate(word) if c == "="), key=lambda i: abs(i - middle))
      assert word[:at] in text, word
      text = text.replace(word[:at], word[at + 1:])
  doubled.write_text(text)
  meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2",
             "LOCAL_WORLD_SIZE": "2"}
  children = {"original": start(SCRIPTS / f"{name}.py", folder, "original"),
              "alone": start(migrated, folder, "alone"),
              "doubled": start(doubled, folder, "doubled", options, first_epoch=first_epoch)}
  for rank in range(2):
    children[f"two-rank{rank}"] = start(migrated, folder, f"two-rank{rank}", environment={
        **meeting, "RANK": str(rank), "LOCAL_RANK": str(rank)})
  return results(folder, children)


if __name__ == "__main__":
  torch.set_num_threads(1)
  for wanted in sys.argv[2:]:
    place = Path(sys.argv[1])
    (place / f"{wanted}.json").write_text(json.dumps(run(wanted, place / wanted)))
