"""A set of digests in arrays says what a dictionary says."""

import random

import pytest

from palate.data import Digests, _digests, digest_of


@pytest.mark.parametrize("recent", [(1, 2), (3, 7), (2**14, 2**17)])
def test_numbers_are_those_of_a_dictionary(recent: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_digests, "_RECENT", recent)
    draw, digests, plain = random.Random(1), Digests(), dict[bytes, int]()
    for _ in range(400):
        digest = digest_of(bytes([draw.randrange(150)]))
        assert digests.number(digest) == plain.get(digest)
        assert digests.add(digest) == plain.setdefault(digest, len(plain))
        assert len(digests) == len(plain)
    assert sorted(digests) == sorted(plain)


def test_digests_that_begin_alike_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_digests, "_RECENT", (1, 1))
    digests, alike = Digests(), [bytes(8) + bytes([number]) * 8 for number in range(6)]
    assert [digests.add(digest) for digest in alike] == list(range(6))
    assert [digests.number(digest) for digest in alike] == list(range(6))
    assert digests.number(bytes(8) + b"x" * 8) is None
