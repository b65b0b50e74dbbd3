"""A cache of files behind URLs on a disk that is too small for it."""

import io
import shutil
import subprocess
import sys
import tarfile

import data_pictures
import pytest
from http_store import HttpStore

SMALL_DISK = """
mount -t tmpfs -o size=1m none "$1" || exit 77
exec "$2" -c "$3" "$1" "$4"
"""
ON_SMALL_DISK = """
import sys
from stretto import data
loader = data.ImageLoader(sys.argv[2], 6, 32, threads=2, dtype="uint8", cache_dir=sys.argv[1],
                          disk_bytes=1 << 30, sampler="blocks", rank=0, world=1)
for _ in range(2):
  assert len(list(loader)) > 0
stats = loader.stats()["remote"]
print(stats["limit_bytes"] < 1 << 20, stats["evicted"] > 0)
"""


def test_the_cache_shrinks_to_what_a_full_disk_has(tmp_path, tmp_path_factory):
  root = tmp_path_factory.mktemp("many")
  files = data_pictures.write_folder(root / "folder", 60, seed=1)
  for shard in range(10):
    with tarfile.open(root / f"s-{shard}.tar", "w") as tar:
      for i, file in enumerate(files[shard::10]):
        for name, content in ((f"{i}.jpg", file.read_bytes()), (f"{i}.bin", bytes(30_000))):
          info = tarfile.TarInfo(name)
          info.size = len(content)
          tar.addfile(info, io.BytesIO(content))
  shutil.rmtree(root / "folder")
  with HttpStore(root) as store:
    run = subprocess.run(["unshare", "-rm", "sh", "-c", SMALL_DISK, "sh", str(tmp_path),
                          sys.executable, ON_SMALL_DISK, store.url],
                         capture_output=True, text=True, timeout=120)
  if run.returncode == 77 or "unshare" in run.stderr:
    pytest.skip("no mount namespaces here")
  assert run.returncode == 0, run.stderr
  assert run.stdout.split() == ["True", "True"]
