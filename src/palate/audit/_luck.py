"""How far from guessing a model gets by luck when many users judge the same texts."""

from __future__ import annotations

import numpy as np

from palate.evaluation import Ratings

COINS = 200


def luck_of_strangers(ratings: Ratings) -> float:
    """The same if no text were judged twice: plain guessing, item by item."""
    chances = np.array([1 / len(item.responses) for item in ratings.items])
    return float(np.sqrt(np.sum(chances * (1 - chances))) / len(chances))


def luck(ratings: Ratings, seed: int) -> float:
    """The standard deviation of the accuracy of coins that give every text one score, whoever asks.

    A model that ignores the user is right or wrong about a text for everybody at once. Where a thousand texts are
    judged by thousands of users, it may be some points off guessing without knowing anything, and resampling users
    does not show it.
    """
    codes: dict[tuple[str, str], int] = {}
    most = max(len(item.responses) for item in ratings.items)
    places = np.zeros((len(ratings.items), most), dtype=np.intp)
    for row, item in enumerate(ratings.items):
        found = [codes.setdefault((item.prompt, text), len(codes) + 1) for text in item.responses]
        places[row, : len(found)] = found
    preferred = np.array([item.preferred for item in ratings.items])
    random = np.random.default_rng(seed)
    accuracies = []
    for _ in range(COINS):
        scores = random.random(len(codes) + 1)
        scores[0] = -1.0  # stands where an item has fewer responses than the longest
        accuracies.append(float(np.mean(scores[places].argmax(axis=1) == preferred)))
    return float(np.std(accuracies))
