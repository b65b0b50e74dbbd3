"""Writes the seeds of the fuzzer of datasets (src/stretto/data/data_fuzz.h): one or two small files
per kind, the kind's letter before them. Those of packs are by the `stretto` command on the PATH.

python tests/fuzz/data_seeds.py
"""

import io
import pathlib
import struct
import subprocess
import tarfile
import tempfile

FOLDER = pathlib.Path(__file__).parent / "data"
MEDIA = pathlib.Path(__file__).parent / "media"
PNG = (MEDIA / "grey_alpha.png").read_bytes()


def save(name, kind, content):
  (FOLDER / name).write_bytes(kind.encode() + content)


def archive(form, members):
  file = io.BytesIO()
  with tarfile.open(fileobj=file, mode="w", format=form) as tar:
    for name, content in members:
      info = tarfile.TarInfo(name)
      info.size = len(content)
      tar.addfile(info, io.BytesIO(content))
  return file.getvalue()


def masked_crc(data):
  crc = 0xFFFFFFFF
  for byte in data:
    crc ^= byte
    for _ in range(8):
      crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
  crc ^= 0xFFFFFFFF
  return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def message(field, content):
  assert len(content) < 1 << 14
  size = bytes([len(content) & 0x7F | 0x80, len(content) >> 7])
  return bytes([field << 3 | 2]) + size + content


def record(picture, label):
  entries = [message(1, b"image/encoded") + message(2, message(1, message(1, picture))),
             message(1, b"image/class/label") + message(2, message(3, message(1, bytes([label]))))]
  data = message(1, b"".join(message(1, entry) for entry in entries))
  length = struct.pack("<Q", len(data))
  return b"".join([length, struct.pack("<I", masked_crc(length)), data,
                   struct.pack("<I", masked_crc(data))])


def varints(*values):
  data = bytearray()
  for value in values:
    while value > 127:
      data.append(value & 127 | 128)
      value >>= 7
    data.append(value)
  return bytes(data)


def main():
  FOLDER.mkdir(exist_ok=True)
  save("header.csv", "a", b'label,path\r\n"a ""b""",x/1.jpg\r\n,2.png\n')
  save("numbers.csv", "a", b"1.jpg,3\n2.jpg,0\n")
  save("boxes.jsonl", "b", b'{"path": "1.jpg", "label": "a", "boxes": [[1, 2, 3.5, 4, "b"]]}\n\n'
       b'{"path": "2.jpg", "label": null}\n')
  save("instances.json", "c", b'{"images": [{"id": 7, "file_name": "a.jpg"}], "categories": '
       b'[{"id": 3, "name": "car"}], "annotations": [{"image_id": 7, "category_id": 3, "bbox": '
       b'[1, 2.5, 3, 4], "iscrowd": 0, "segmentation": [[1, 2]]}]}')
  save("outlines.json", "c", b'{"images": [{"id": 7, "file_name": "a.jpg"}], "categories": '
       b'[{"id": 3, "name": "car"}], "annotations": [{"image_id": 7, "category_id": 3, "bbox": '
       b'[1, 2.5, 3, 4], "segmentation": [[1, 2, 3.25, 4, 5, 1e9]]}, {"image_id": 7, "iscrowd": 1, '
       b'"segmentation": {"counts": "52203", "size": [4, 3]}}, {"image_id": 7, "iscrowd": 1, '
       b'"segmentation": {"size": [2, 2], "counts": [1, 3]}}]}')
  # A number, a triangle of the first box in hundredths, and a crowd's runs of 64x48 pixels.
  save("outlines.details", "h", bytes([3, 14, 2, 1, 0, 1, 6]) + varints(
    *(2 * 100 * v for v in (2, 3, 40, 0, 0, 30))) + bytes([0, 2, 64, 48, 3]) + varints(
      1000, 72, 2000))
  save("mask.details", "h", bytes([4]) + (MEDIA / "palette.png").read_bytes())
  long_name = "d" * 120 + "/" + "n" * 90
  members = [("1.jpg", b"picture"), ("1.cls", b"5"), (long_name + ".png", PNG),
             (long_name + ".json", b'{"label": 4}')]
  for name, form in (("ustar", tarfile.USTAR_FORMAT), ("gnu", tarfile.GNU_FORMAT),
                     ("pax", tarfile.PAX_FORMAT)):
    save(f"{name}.tar", "d", archive(form, members).rstrip(b"\0"))
  save("two.tfrecord", "e", record(PNG, 5) + record(b"\xff\xd8\xffx", 0))
  rows = [(512, 700, -1, "a/1.jpg", "cat"), (2048, 3, 7, "2.png", "")]
  note = struct.pack("<Q", len(rows)) + b"".join(
    struct.pack("<QQqII", offset, length, label, len(name), len(class_name)) + name.encode()
    + class_name.encode() for offset, length, label, name, class_name in rows)
  save("shard.note", "i", b"STRNOTE1" + bytes(8) + note)  # the fuzzer makes the checksum right
  with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    (folder / "in/a").mkdir(parents=True)
    (folder / "in/a/grey.jpg").write_bytes((MEDIA / "grey.jpg").read_bytes())
    (folder / "in/a/x.png").write_bytes(PNG)
    subprocess.run(["stretto", "pack", "-q", folder / "in", folder / "out"], check=True,
                   stdout=subprocess.DEVNULL)
    index = (folder / "out/index").read_bytes()
    shard = (folder / "out/shard-00000.bin").read_bytes()
  save("pack.index", "f", index)
  offset, length, *_, restart_bytes, _ = struct.unpack_from("<QQqQIIiiII", index, 192)
  assert offset == restart_bytes > 0
  save("restarts.bin", "g", struct.pack("<H", restart_bytes) + shard[:offset + length])


if __name__ == "__main__":
  main()
