"""Episodes: what is asked is never known, and everything has its turn."""

import pytest
import torch

from palate.personal import Known, Pairs
from palate.personal._in_context import Episodes, padded, threads

FEATURES = 3


def pairs_of(texts: list[tuple[int, int, int]], choice: list[int] | None = None) -> Pairs:
    """Pairs from (user, better, worse)."""
    user, better, worse = (torch.tensor(column) for column in zip(*texts, strict=True))
    rows = torch.arange(float(FEATURES * (int(torch.stack([better, worse]).max()) + 1))).reshape(-1, FEATURES)
    numbers = torch.arange(len(texts)) if choice is None else torch.tensor(choice)
    names = tuple(f"user-{place}" for place in range(int(user.max()) + 1))
    return Pairs(rows, better, worse, user, torch.ones(len(texts)), numbers, names)


def known_of(posts: list[int]) -> list[Known]:
    nothing = torch.zeros(0, FEATURES)
    return [
        Known(nothing, nothing, torch.zeros(0), torch.full((count, FEATURES), float(place)))
        for place, count in enumerate(posts)
    ]


def random_pairs(users: int = 12, texts: int = 60, seed: int = 0) -> Pairs:
    """Users with 2 to 50 pairs, many of which share a text; one of each user's shares none."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for user in range(users):
        found.append((user, texts, texts + 1))
        for _ in range(int(torch.randint(1, 50, (), generator=generator))):
            better, worse = torch.randperm(texts, generator=generator)[:2].tolist()
            found.append((user, better, worse))
    return pairs_of(found)


def texts_of(pairs: Pairs, places: torch.Tensor) -> set[int]:
    return set(pairs.better[places].tolist()) | set(pairs.worse[places].tolist())


def test_pairs_that_share_a_text_are_one_thread() -> None:
    # User 0: the first three hang together by texts 1 and 2, the fourth stands alone. User 1 shares texts with
    # user 0 and no thread.
    codes = threads(pairs_of([(0, 0, 1), (0, 1, 2), (0, 3, 2), (0, 5, 6), (1, 0, 1), (1, 5, 6)])).tolist()
    assert codes[0] == codes[1] == codes[2]
    assert len(set(codes)) == 4


def test_a_user_whose_choices_all_hang_together_is_split_choice_by_choice() -> None:
    codes = threads(pairs_of([(0, 0, 1), (0, 0, 2), (0, 2, 3)], choice=[0, 0, 1])).tolist()
    assert codes[0] == codes[1] != codes[2]


@pytest.mark.parametrize("seed", range(5))
def test_no_target_shares_a_text_with_its_context(seed: int) -> None:
    pairs = random_pairs(seed=seed)
    episodes = Episodes(pairs, known_of([0] * len(pairs.users)), most=8, seed=seed)
    both = 0
    for _ in range(10):
        batch = episodes.draw(torch.arange(len(episodes)))
        for pair, context, target in zip(batch.pair, batch.context, batch.target, strict=True):
            assert not texts_of(pairs, pair[context]) & texts_of(pairs, pair[target])
            assert len(set(pairs.user[pair[context | target]].tolist())) <= 1
            both += bool(context.any() and target.any())
    assert both > 20


def test_every_pair_has_its_place_in_every_round_and_no_context_is_too_long() -> None:
    pairs = random_pairs()
    episodes = Episodes(pairs, known_of([0] * len(pairs.users)), most=8, seed=1)
    sizes = set()
    for _ in range(20):
        batch = episodes.draw(torch.arange(len(episodes)))
        asked = batch.pair[batch.target].tolist()
        told = batch.pair[batch.context].tolist()
        assert len(set(asked + told)) == len(asked) + len(told) <= len(pairs)
        assert int(batch.context.sum(1).max()) <= 8
        sizes |= set(batch.context.sum(1).tolist())
    assert sizes == set(range(9))


def test_orders_differ_from_round_to_round_and_not_from_seed_to_same_seed() -> None:
    pairs, known = random_pairs(), known_of([0] * 12)
    first, second = (Episodes(pairs, known, most=8, seed=3) for _ in range(2))
    every = torch.arange(len(first))
    rounds = [first.draw(every) for _ in range(2)]
    assert torch.equal(rounds[0].pair, second.draw(every).pair)
    assert not torch.equal(rounds[0].pair, rounds[1].pair)


def test_posts_are_the_users_own_and_the_last() -> None:
    pairs = pairs_of([(0, 0, 1), (0, 2, 3), (1, 4, 5), (2, 6, 7)])
    episodes = Episodes(pairs, known_of([2, 0, 9]), most=4, seed=0)
    assert len(episodes.posts) == 6
    counts = set()
    for _ in range(20):
        batch = episodes.draw(torch.tensor([0, 1, 2]))
        for place in range(3):
            assert (episodes.posts[batch.post[place][batch.shown[place]]] == place).all()
        counts |= {tuple(batch.shown.sum(1).tolist())}
    assert {count[1] for count in counts} == {0}
    assert {count[2] for count in counts} == {0, 1, 2, 3, 4}


def test_padding_puts_everything_back_in_its_place() -> None:
    where = torch.tensor([[True, False], [True, True]])
    assert padded(torch.tensor([1.0, 2.0, 3.0]), where).tolist() == [[1.0, 0.0], [2.0, 3.0]]
