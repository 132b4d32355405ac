"""Why is the artefact model right less often than guessing where everybody prefers their own texts?

    PALATE_DATA=data python benchmarks/own_texts.py squality,pairs=true

In the folds of `palate audit`, a writer whose choices are tested is not among those whose choices are learned from. But
others chose their own texts over this writer's, so that the writer's texts are in training, always as the rejected. The
model is trained as it is, without those comparisons, without as many others, and on those comparisons alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

# A script's folder comes first on the path, and this one holds a statistics.py that is not Python's.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent.resolve()]

import argparse

import numpy as np

from palate.audit import _artefacts as artefacts
from palate.data import load_benchmark

PENALTY = 1
"""The middle one; the choice inside the folds is left out."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmark", nargs="?", default="squality,pairs=true")
    comparisons = load_benchmark(parser.parse_args().benchmark).comparisons
    author = {item.chosen: item.user_id for item in comparisons}
    sheet = artefacts.read_sheet(comparisons)
    user_of = {item.user_id: code for item, code in zip(sheet.items, sheet.user.tolist(), strict=True)}
    rejected = [
        {user_of.get(author.get(text, ""), -1) for text in item.responses if text != item.chosen}
        for item in sheet.items
    ]
    labels = np.array([item.preferred for item in sheet.items])[:, None]
    targets = np.asarray(sheet.contrasts @ artefacts._one_hot(labels, sheet.sizes), np.float32)
    everything = np.ones(len(sheet.items), bool)
    splits = artefacts._splits(sheet.unit, sheet.user, everything, artefacts.FOLDS, seed=0)
    print("| trained on | comparisons, mean of the folds | accuracy |\n|---|---:|---:|")
    names = ("all of the fold", "all but those that reject a tested writer", "all but as many others", "those alone")
    for name in names:
        draw = np.random.default_rng(0)
        credit, trained = np.full((len(sheet.items), 1), np.nan), []
        for train, test in splits:
            tested = set(sheet.user[test].tolist())
            theirs = train & np.array([not tested.isdisjoint(writers) for writers in rejected])
            others = np.zeros(len(train), bool)
            others[draw.choice(np.flatnonzero(train & ~theirs), int(theirs.sum()), replace=False)] = True
            used = dict(zip(names, (train, train & ~theirs, train & ~others, theirs), strict=True))[name]
            trained.append(int(used.sum()))
            scores = artefacts._predict(sheet, targets, used, test)[PENALTY]
            credit[test] = artefacts._credits(sheet, scores, labels, test)
        print(f"| {name} | {np.mean(trained):,.0f} | {np.nanmean(credit):.1%} |", flush=True)


if __name__ == "__main__":
    main()
