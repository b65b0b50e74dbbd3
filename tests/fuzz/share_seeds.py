"""Writes the seeds of share_fuzz: scripts for src/stretto/data/share_script.h, named after what they
try. What the fuzzer has found lies beside them and is kept.

python tests/fuzz/share_seeds.py
"""

import pathlib

FOLDER = pathlib.Path(__file__).parent / "share"

# What batches have (bits), and which side is tried.
BOXES, MASKS, BYTES, WIDE_MASKS, THINGS = 1, 2, 4, 8, 16
LOADER, SERVER = 0, 1
SEALED, SHORT, UNSEALED, PIPE, TWO, HUGE, FOLDER_OPENED, NONE = range(8)
# Places of the fields of Reply, in steps of four bytes.
ANSWER, BRINGS, POSITION, SLOT, SLOT_BYTES, COUNT, HEIGHT, WIDTH, CLASSES, MASKS_AT, TARGETS_AT = (
  0, 1, 2, 10, 12, 14, 16, 18, 20, 22, 24)
EPOCH, NUMBER, BOX_COUNT, GONE, KIND, CODE, OFFSET, FILE_BYTES, PROBLEM_BYTES = (
  26, 28, 30, 32, 34, 35, 36, 38, 40)
MASK_SLOT, MASK_BYTES = 42, 44


def number(value):
  raw = value.to_bytes(8, "big", signed=value < 0)
  raw = raw if value < 0 else raw.lstrip(b"\0")
  return bytes([len(raw)]) + raw


def text(data=b""):
  return bytes([len(data)]) + data


# Steps of a server. `rows`: what is changed behind the reply, and where.
def batch(rows=b"", at=0):
  return bytes([0]) + number(at) + text(rows)


def changed(*changes, rows=b"", at=0):
  return (bytes([1, len(changes) - 1]) + b"".join(bytes([where]) + number(value) for where, value in changes)
          + number(at) + text(rows))


def answer(what):  # 1: end, 2: loaded, 3: error
  kind = bytes([2]) if what == 3 else b""
  return bytes([2, what]) + (kind or bytes([0])) + number(0) + text()


def raw(data):
  return bytes([3]) + text(data)


NEXT, DROP = bytes([4]), bytes([6])


def load(epoch):
  return bytes([5, epoch])


def memory(kind):
  return bytes([7, kind])


# Steps of a rank.
ASK, KEEP, DRAIN = bytes([0]), bytes([6]), bytes([7])


def ask_for(epoch, place):
  return bytes([2, epoch, place])


def request(given_back, where, value, behind=b""):
  return bytes([3, given_back, where]) + number(value) + text(behind)


def rank_raw(data):
  return bytes([4]) + text(data)


def rank_memory(kind):
  return bytes([5, kind])


def of_loader(parts, *steps):
  return bytes([parts << 1 | LOADER]) + b"".join(steps)


def of_server(parts, *steps):
  return bytes([parts << 1 | SERVER]) + b"".join(steps)


ALL = BOXES | MASKS
REPLY_BYTES = 184
REAL_AT = 2 * 8 + 2 * 8 + 2 * 8 + 3 * 8 + 3 * 8 + 3 * 16 + 3 * 4  # of two pictures with three boxes
SEEDS = {
  "honest": of_loader(ALL, batch(), batch(), NEXT, NEXT, DROP, batch(), NEXT, answer(1), NEXT),
  "honest_bytes": of_loader(BYTES, batch(), NEXT, batch(), NEXT),
  "honest_wide_masks": of_loader(MASKS | WIDE_MASKS, batch(), NEXT, batch(), NEXT),
  "honest_mixed": of_loader(0, batch(), NEXT, batch(), NEXT),
  "honest_things": of_loader(BOXES | THINGS, batch(), NEXT, batch(), NEXT, DROP, batch(), NEXT),
  "things_without_memory": of_loader(BOXES | THINGS, changed((BRINGS, 1)), NEXT),
  "things_never_sent": of_loader(BOXES | THINGS, batch(), NEXT, changed((BRINGS, 1), (MASK_SLOT, 7)), NEXT),
  "things_too_large": of_loader(BOXES | THINGS, changed((MASK_BYTES, 1 << 40), (BOX_COUNT, 1 << 31)), NEXT),
  "things_that_nobody_asked_for": of_loader(BOXES, changed((BRINGS, 3), (MASK_BYTES, 1 << 20)), NEXT),
  "boxes_without_things": of_loader(BOXES | THINGS, changed((BRINGS, 1), (MASK_BYTES, 0)), NEXT),
  "asked_things": of_server(BOXES | THINGS, ASK, ASK, KEEP, ASK, ASK, ASK),
  "errors": of_loader(ALL, answer(3), NEXT, batch(), NEXT),
  "loads": of_loader(ALL, batch(), NEXT, answer(2), load(1), batch(), NEXT),
  "loaded_without_being_asked": of_loader(ALL, answer(2), NEXT),
  "batch_for_a_load": of_loader(ALL, batch(), load(0), NEXT),
  "memory_too_short": of_loader(ALL, memory(SHORT), batch(), NEXT),
  "memory_not_sealed": of_loader(ALL, memory(UNSEALED), batch(), NEXT),
  "memory_is_a_pipe": of_loader(ALL, memory(PIPE), batch(), NEXT),
  "memory_is_a_folder": of_loader(ALL, memory(FOLDER_OPENED), batch(), NEXT),
  "two_memories": of_loader(ALL, memory(TWO), batch(), NEXT, batch(), NEXT),
  "memory_too_large": of_loader(ALL, memory(HUGE), changed((SLOT_BYTES, 1 << 40)), NEXT),
  "no_memory": of_loader(ALL, memory(NONE), batch(), NEXT),
  "many_boxes": of_loader(ALL, changed((BOX_COUNT, 1 << 31)), NEXT),
  "boxes_of_no_pictures": of_loader(ALL, batch(b"\x07", REPLY_BYTES + 48), NEXT),
  "many_gone": of_loader(ALL, changed((GONE, 1 << 20)), NEXT),
  "gone_is_the_own": of_loader(ALL, changed((GONE, 1)), NEXT),
  "slot_never_sent": of_loader(ALL, changed((BRINGS, 0)), NEXT),
  "masks_beside_the_slot": of_loader(ALL, changed((MASKS_AT, 1 << 20)), NEXT),
  "masks_between_elements": of_loader(MASKS | WIDE_MASKS, changed((MASKS_AT, 67)), NEXT),
  "shares_between_elements": of_loader(0, changed((TARGETS_AT, 66)), NEXT),
  "shares_of_many_classes": of_loader(0, changed((CLASSES, 1 << 24)), NEXT),
  "large_pictures": of_loader(BYTES, changed((HEIGHT, 1 << 20), (WIDTH, 1 << 20)), NEXT),
  "place_of_no_epoch": of_loader(ALL, changed((POSITION + 4, 1 << 40)), NEXT),
  "neither_real_nor_padding": of_loader(ALL, batch(b"\x02", REPLY_BYTES + REAL_AT), NEXT),
  "long_texts": of_loader(ALL, changed((ANSWER, 3), (FILE_BYTES, 1 << 24), (PROBLEM_BYTES, 1 << 24)), NEXT),
  "no_reply": of_loader(ALL, raw(b"\xff" * 200), NEXT),
  "half_a_reply": of_loader(ALL, raw(b"\0" * 20), NEXT),
  "stalls": of_loader(ALL, NEXT, batch(), NEXT),
  "asked": of_server(ALL, ASK, ASK, ASK, ASK, ASK, ASK),
  "asked_mixed": of_server(0, ASK, ASK, KEEP, ASK, ASK, ASK, ASK),
  "asked_elsewhere": of_server(BOXES, ASK, ask_for(1, 3), ASK, ask_for(0, 11), ASK, ask_for(3, 0), ASK),
  "kept": of_server(MASKS, ASK, KEEP, ASK, KEEP, ASK, KEEP, ASK, KEEP, ASK),
  "many_given_back": of_server(ALL, ASK, request(0, 1, 1 << 31), ASK),
  "gives_back_what_it_never_had": of_server(ALL, request(2, 2, 0, b"\1" * 16), ASK, ASK),
  "asks_for_nothing": of_server(ALL, request(0, 0, 9), ASK),
  "place_of_no_epoch_asked": of_server(ALL, request(0, 0, 1), request(0, 4, 1 << 40), ASK),
  "half_a_request": of_server(ALL, ASK, rank_raw(b"\0" * 20)),
  "files_along": of_server(ALL, rank_memory(SEALED), ASK, rank_memory(PIPE), ASK),
  "reads_nothing": of_server(ALL, *[request(0, 2, 0)] * 60),
}


def main():
  FOLDER.mkdir(exist_ok=True)
  for name, script in SEEDS.items():
    (FOLDER / name).write_bytes(script)


if __name__ == "__main__":
  main()
