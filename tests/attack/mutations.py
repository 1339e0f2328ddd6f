"""Damage: cuts, changed bytes, repeated and missing stretches, and words that mean something to parsers."""

import random

WORDS = (
    b"\x00" * 8, b"\xff" * 8, b"\x7f\xff\xff\xff", b"-1", b"1e999", b"nan", b"99999999999999999999", b"[" * 50, b'"',
    b"\n", b"{", b"null", b"\x80\x02", b"../", b"0", b"\xc3\x28", b"1000000000",
)  # fmt: skip


def mutated(content: bytes, random: random.Random) -> bytes:
    """A damaged copy; the same for the same state of the generator."""
    result = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        _change(result, random)
    return bytes(result)


def _change(content: bytearray, random: random.Random) -> None:
    size = len(content)
    # Headers are short and matter most.
    place = random.randrange(min(size, 600) if random.random() < 0.4 else size) if size else 0
    kind = random.randrange(7)
    if kind == 0:
        del content[place:]
    elif kind == 1 and size:
        content[place] ^= 1 << random.randrange(8)
    elif kind == 2 and size:
        content[place] = random.randrange(256)
    elif kind == 3:
        del content[place : place + random.choice((1, 4, 16, 200))]
    elif kind == 4:
        content[place:place] = random.choice(WORDS)
    elif kind == 5:
        word = random.choice(WORDS)
        content[place : place + len(word)] = word
    else:
        content[place:place] = content[place : place + random.choice((1, 16, 300))]
