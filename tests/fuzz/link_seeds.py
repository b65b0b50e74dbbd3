"""Writes the seeds of link_fuzz and negotiate_fuzz: scripts for src/stretto/comm/link/link_script.h
and comm/negotiate/round_script.h, named after what they try. What the fuzzers have found lies beside
them and is kept.

python tests/fuzz/link_seeds.py
"""

import pathlib

FOLDER = pathlib.Path(__file__).parent

# Numbers of the messages by their lengths, as in kTotals.
EMPTY, ONE, B64, B1000, B4096, B9000, B20000, B30000 = range(8)
HEADER, QUARTER, HALF, ALL = range(4)  # how much of a payload is delivered
MISMATCH, ABORT, BYE = 3, 4, 5  # FrameType


def step(kind, stream, *values):
    return bytes([kind << 1 | stream, *values])


def chunk(stream, message, first=0, quarters=4, deliver=ALL, shift=0, fewer=0, earlier=0):
    """`earlier`: takes the number of the chunk that was begun so many chunks before, 1 to 8."""
    again = 16 | (earlier - 1) << 5 if earlier else 0
    return step(0, stream, message | first << 3 | (quarters - 1) << 5, shift | fewer << 1 | deliver << 2 | again)


def go_on(stream, pieces=0):
    """Delivers 64 * pieces bytes of what was held back; 0: all."""
    return step(2, stream, pieces)


def ask(message):
    return step(3, 0, message)


def repeat(stream, which, deliver=ALL):
    return step(4, stream, which, deliver)


def rts(stream, message):
    return step(5, stream, 8 | message)


def cts(stream, sent):
    return step(5, stream, sent)


def frame(stream, kind, flags=0, length=0, key=0, number=1, received=0, consumed=0, offset=0, total=0,
          fingerprint=0, origin=0, quarters=3):
    words = (length.to_bytes(2, "big") + bytes([key, number, received]) + consumed.to_bytes(2, "big") +
             offset.to_bytes(2, "big") + total.to_bytes(3, "big") + bytes([fingerprint, origin, quarters]))
    return step(6, stream, kind, flags) + words


def raw(stream, data):
    return step(7, stream, len(data)) + data


def send(size):
    return step(9, 0) + size.to_bytes(2, "big")


def room(stream, size):
    return step(10, stream) + size.to_bytes(2, "big")


BEAT, FORGET = step(11, 0), step(14, 0, 0)


def flip(stream, place, bit=0):
    """Changes a bit of what is held back."""
    return step(12, stream, 1 | bit << 5) + place.to_bytes(2, "big")


def cut(stream):
    return step(15, stream)


def broken(stream):
    return step(12, stream, 0)


def revive(stream):
    return step(13, stream)


def whole_messages():
    return b"".join(ask(m) for m in range(8)) + b"".join(
        chunk(m & 1, m) for m in range(8)) + BEAT


def quarters_of(message, deliver=ALL):
    return b"".join(chunk(q & 1, message, q, 1, deliver) for q in range(4))


LINK_SEEDS = {
    "whole_messages": whole_messages(),
    "asked_before": ask(B9000) + quarters_of(B9000) + ask(B4096) + quarters_of(B4096) + ask(B1000) + chunk(0, B1000),
    "asked_after": quarters_of(B4096) + quarters_of(B1000) + ask(B1000) + ask(B4096) + chunk(1, B64) + ask(B64),
    "asked_in_the_middle": chunk(0, B4096, 0, 2, HALF) + ask(B4096) + chunk(1, B4096, 2, 2) + go_on(0) +
                           chunk(0, B9000, 0, 1) + chunk(1, B9000, 1, 1, QUARTER) + ask(B9000) + go_on(1, 2) +
                           chunk(0, B9000, 2, 2) + go_on(1) + ask(ONE) + chunk(0, ONE),
    "in_pieces": ask(B4096) + chunk(0, B4096, 0, 2, HEADER) + chunk(1, B4096, 2, 2, QUARTER) + go_on(0, 1) +
                 go_on(1, 3) + go_on(0, 2) + go_on(0) + go_on(1) + ask(EMPTY) + chunk(0, EMPTY) + ask(ONE) +
                 chunk(0, ONE),
    "from_the_end": ask(B20000) + chunk(0, B20000, 3, 1) + chunk(1, B20000, 1, 1) + chunk(0, B20000, 0, 1) +
                    chunk(1, B20000, 2, 1) + chunk(0, B64) + ask(B64) + chunk(1, ONE) + ask(ONE),
    "overlaps_what_was_asked_for": ask(B1000) + ask(B4096) + chunk(0, B4096, 0, 4, HALF) + chunk(1, B1000) +
                                   chunk(1, B4096) + go_on(0) + chunk(0, B64) + ask(B64),
    "overlaps_what_nobody_asked_for": chunk(0, B4096, 0, 4, HALF) + chunk(1, B4096) + ask(B4096) + go_on(0) +
                                      chunk(0, B64) + ask(B64) + chunk(0, B1000) + ask(B1000),
    "overlaps_by_a_byte": ask(B1000) + chunk(0, B1000, 0, 2, HALF, shift=1) + chunk(1, B1000, 1, 3) + go_on(0) +
                          chunk(0, B1000, 0, 1) + chunk(0, B1000, 3, 1, fewer=1) + ask(B64) + chunk(0, B64) +
                          ask(ONE) + chunk(0, ONE) + ask(B4096) + chunk(0, B4096),
    "overlaps_what_has_arrived": ask(B4096) + chunk(0, B4096, 0, 2) + chunk(1, B4096, 1, 2) +
                                 chunk(0, B4096, 2, 2) + ask(B64) + chunk(0, B64) + ask(ONE) + chunk(0, ONE),
    "a_number_twice": ask(B4096) + chunk(0, B4096, 0, 2, HALF) + chunk(1, B4096, 2, 2, earlier=1) + go_on(0) +
                      chunk(1, B1000) + ask(B1000) + chunk(1, B64) + ask(B64) + chunk(1, ONE) + ask(ONE),
    "sent_again": ask(B9000) + chunk(0, B9000, 0, 2, HALF) + chunk(1, B9000, 2, 2) + repeat(1, 0, HALF) +
                  broken(0) + revive(0) + repeat(0, 0, QUARTER) + go_on(0) + repeat(1, 1) + chunk(0, B64) + ask(B64) +
                  ask(B1000) + chunk(0, B1000),
    "stale_attempt": ask(B4096) + chunk(0, B4096, 0, 4, HALF) + repeat(1, 0, HALF) + revive(0) + repeat(0, 0, HALF) +
                     revive(1) + go_on(0) + ask(B64) + chunk(0, B64) + ask(B1000) + chunk(1, B1000),
    "cut_and_revived": ask(B20000) + chunk(0, B20000, 0, 1, HALF) + cut(0) + chunk(1, B20000, 1, 1) + revive(0) +
                       repeat(0, 0) + cut(1) + chunk(0, B20000, 2, 1) + revive(1) + chunk(1, B20000, 3, 1) +
                       ask(ONE) + chunk(0, ONE) + ask(B64) + chunk(1, B64),
    "more_than_asked_for": chunk(0, B9000, 0, 4, HALF) + chunk(1, B4096, 0, 4, HALF) + ask(B4096) + go_on(1) +
                           chunk(1, B20000, 0, 3, QUARTER) + ask(B9000) + go_on(0) + ask(B64) + chunk(0, B64),
    "larger_than_the_limit": rts(0, B30000) + ask(B30000) + room(0, 60000) + quarters_of(B30000) + rts(1, B20000) +
                             ask(B20000) + quarters_of(B20000) + ask(B64) + chunk(0, B64),
    "sending": send(1000) + send(20000) + send(30000) + room(0, 1000) + frame(1, 1, received=2) + cts(0, 1) + cts(1, 2) +
               room(0, 65535) + room(1, 65535) + frame(0, 1, received=9, consumed=50000) + BEAT + send(20000) + send(5),
    "sent_over_broken_streams": send(20000) + send(16) + cut(0) + room(1, 65535) + revive(0) + frame(0, 1, received=1) +
                                send(16000) + broken(1) + revive(1) + room(0, 65535) + frame(1, 1, received=4) + send(3),
    "forgotten": ask(B4096) + chunk(0, B4096, 0, 2, HALF) + chunk(1, B4096, 2, 2, HEADER) + send(20000) + room(0, 100) +
                 FORGET + go_on(0) + go_on(1) + chunk(0, B1000) + frame(1, ABORT, length=20) + BEAT,
    "another_length": ask(B4096) + frame(0, 0, length=10, key=14 << 1, number=1, total=10) + ask(B1000) + chunk(0, B1000) +
                      chunk(1, B64) + ask(B64) + ask(ONE) + chunk(0, ONE),
    "last_words": frame(0, MISMATCH, length=30, key=3) + frame(1, ABORT, length=100, origin=1) + frame(0, BYE) +
                  broken(0) + broken(1),
    "a_bit_of_a_payload": ask(B9000) + chunk(0, B9000, 0, 2, HALF) + flip(0, 100) + go_on(0) + chunk(1, B9000, 2, 2) +
                          repeat(1, 0) + chunk(1, B64) + ask(B64) + chunk(1, ONE) + ask(ONE),
    "a_bit_of_a_tag": ask(B9000) + ask(B4096) + chunk(0, B4096, 0, 4, HALF) + flip(0, 2060, 7) + go_on(0) +
                      chunk(1, B9000, 0, 4, HEADER) + flip(1, 9010) + go_on(1),
    "a_bit_of_a_small_payload": ask(B1000) + chunk(1, B1000, 0, 4, QUARTER) + flip(1, 5, 3) + go_on(1) + repeat(0, 0) +
                                chunk(0, ONE) + ask(ONE) + chunk(0, B64) + ask(B64),
    "no_frames": ask(B64) + chunk(0, B64) + raw(0, b"GET / HTTP/1.1\r\n\r\n") + raw(1, b"STRF" + bytes(100)) + ask(ONE) +
                 chunk(0, ONE),
}


def job(ranks, *rounds):
    return bytes([4 * (ranks - 2)]) + b"".join(rounds)


def names(*letters, join=False, leave=False):
    """What this rank submits before a round."""
    return bytes([len(letters) + 4 * (join + 2 * leave), *(ord(c) - ord("a") for c in letters)])


OWN = bytes([0])  # the other rank sends what this one would
ZEROS, ONES = 64, 96  # words


def edited(*edits, flags=None, left=None):
    """The same with other flags, another rank that has left, and words at places replaced."""
    what = 2 | (flags is not None) << 3 | (left is not None) << 4 | bool(edits) << 7
    values = [v for v in (flags, left) if v is not None]
    return bytes([what, *values] + ([len(edits)] if edits else []) + [v for edit in edits for v in edit])


def more(which, place=0, word=None):
    """Another name (0), difference (1) or question (2): the word at `place`, or `word`."""
    return bytes([2 | 32 | (word is None) << 6, which, place] + ([] if word is None else [word]))


NEGOTIATE_SEEDS = {
    "the_same_names": job(2, names("a", "b"), OWN, names(), OWN, names("a"), OWN),
    "four_ranks": job(4, names("a"), OWN, OWN, names("b"), OWN, OWN, names(), OWN, OWN),
    "a_name_of_another": job(2, names("a"), more(0, word=9), names(), OWN, names(), edited((2, ZEROS), (3, 2))),
    "a_name_that_is_not_new": job(2, names("a"), OWN, names("a"), OWN, names("a"), more(0, 1)),
    "another_meaning": job(2, names("a"), OWN, names("a"), more(1, 1), names("a"), OWN),
    "nobody_is_ready": job(3, names("a"), OWN, OWN, names(), edited((1, ZEROS)), OWN, names(), OWN,
                           edited((1, ZEROS)), names(), OWN, OWN),
    "stalled": job(2, *[names("a") + OWN, names() + OWN] + [names() + edited((1, ZEROS))] * 6),
    "questions": job(2, names("a"), OWN, names("b"), more(2, 1), names(), more(2, word=5), names(), OWN),
    "joined": job(3, names("a", join=True), OWN, OWN, names(), edited((0, 3), flags=1), OWN, names(), OWN, OWN),
    "a_rank_that_is_none": job(2, names("a"), edited((0, 7)), names(), OWN),
    "left": job(2, names("a", leave=True), OWN, names(), edited(flags=2, left=1), names(), edited(left=9)),
    "any_bytes": job(5, names("a"), OWN, bytes([1]) + bytes(range(60))),
    "a_length": bytes([1]) + (20).to_bytes(4, "little") + bytes(30),
    "a_long_length": bytes([1, 0xff, 0xff, 0xff, 0xff]) + bytes(30),
    "texts": bytes([2, 2, 1, 6, 4, 1]) + b"a\0bcd\0e\0f\0",
    "texts_too_long": bytes([2, 1, 1, 5, 5, 0, 62]) + b"abcd\0efgh\0",
}


def main():
    links = {name + ending: bytes([tags]) + script
             for name, script in LINK_SEEDS.items() for tags, ending in enumerate(("", "_with_tags"))}
    for folder, seeds in (("link", links), ("negotiate", NEGOTIATE_SEEDS)):
        (FOLDER / folder).mkdir(exist_ok=True)
        for name, script in seeds.items():
            (FOLDER / folder / name).write_bytes(script)
        print(f"{folder}: {len(seeds)} files, {sum(map(len, seeds.values()))} bytes")


if __name__ == "__main__":
    main()
