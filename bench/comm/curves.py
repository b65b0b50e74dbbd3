"""Trains the digits example with every codec over several seeds, and with Gloo in fp32.

  python -m bench.comm.curves --seeds 3 -o build/curves

Prints final loss and accuracy, mean and spread over the seeds, and writes curves.html. Exit code 1
when a codec's mean accuracy is below fp32's by more than the seeds of fp32 differ among themselves,
or than two of the test images.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "python"
CODECS = ("none", "fp16", "bf16", "int8", "topk", "powersgd", "mixed")
TEST_IMAGES = 360


def train(backend: str, codec: str, seed: int, ranks: int, epochs: int, out: Path) -> dict:
  script = [str(EXAMPLES / "train_digits.py"), "--seed", str(seed), "--epochs", str(epochs),
            "--out", str(out)]
  if backend == "gloo":
    command = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", *script,
               "--backend", "gloo"]
  else:
    command = ["-m", "stretto", "run", "-n", str(ranks), "--codec", codec, *script]
  done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
  if done.returncode != 0:
    raise SystemExit(f"{backend} {codec}, seed {seed}:\n{done.stdout}{done.stderr}")
  return json.loads(out.read_text())


def mean_and_spread(values: list[float]) -> tuple[float, float]:
  return sum(values) / len(values), max(values) - min(values)


def main() -> int:
  parser = argparse.ArgumentParser(prog="bench.comm.curves", description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--seeds", type=int, default=3)
  parser.add_argument("--ranks", type=int, default=2)
  parser.add_argument("--epochs", type=int, default=12)
  parser.add_argument("--codecs", default=",".join(CODECS))
  parser.add_argument("-o", "--out", type=Path, default=Path("build/curves"))
  args = parser.parse_args()
  args.out.mkdir(parents=True, exist_ok=True)

  files: list[Path] = []
  worst_allowed, failed = 0.0, []
  print(f"{'':16}{'final loss':>12}{'spread':>9}{'accuracy':>11}{'spread':>9}")
  for backend, codec in [("gloo", "none"), *(("stretto", c) for c in args.codecs.split(","))]:
    runs = []
    for seed in range(args.seeds):
      files.append(args.out / f"{backend}-{codec}-{seed}.json")
      runs.append(train(backend, codec, seed, args.ranks, args.epochs, files[-1]))
    loss, loss_spread = mean_and_spread([run["loss"][-1] for run in runs])
    accuracy, spread = mean_and_spread([run["accuracy"][-1] for run in runs])
    if backend == "gloo":
      worst_allowed = accuracy - max(spread, 2 / TEST_IMAGES)
    elif accuracy < worst_allowed:
      failed.append(codec)
    print(f"{backend + ' ' + codec:16}{loss:12.4f}{loss_spread:9.4f}{accuracy:11.4f}{spread:9.4f}",
          flush=True)
  page = args.out / "curves.html"
  subprocess.run([sys.executable, str(EXAMPLES / "curves.py"), *map(str, files), "-o", str(page)],
                 check=True, stdout=subprocess.DEVNULL)
  print(page)
  if failed:
    print(f"below fp32 by more than noise: {', '.join(failed)}")
  return 1 if failed else 0


if __name__ == "__main__":
  sys.exit(main())
