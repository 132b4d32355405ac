"""Parts of a benchmark that share no user and no question."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from palate.records import Benchmark, Comparison


def split_items(items: Sequence[Comparison], shares: Mapping[str, float], seed: int) -> dict[str, list[Comparison]]:
    """Every item in one part. Users who asked the same question go together, and so do twins.

    Clusters are dealt in a random order to the part that lacks most, so that small data sets have their shares too.
    """
    if not shares:
        return {"": list(items)}
    clusters = list(_clusters(items).values())
    clusters.sort(key=lambda cluster: hashlib.sha256(f"{seed}\0{min(item.id for item in cluster)}".encode()).digest())
    clusters.sort(key=len, reverse=True)
    parts: dict[str, list[Comparison]] = {name: [] for name in shares}
    for cluster in clusters:
        lacking = max(shares, key=lambda name: shares[name] * len(items) - len(parts[name]))
        parts[lacking] += cluster
    place = {item.id: number for number, item in enumerate(items)}
    return {name: sorted(part, key=lambda item: place[item.id]) for name, part in parts.items()}


def _clusters(items: Sequence[Comparison]) -> dict[str, list[Comparison]]:
    """Items that are linked by a user, a question or a twin, over any number of steps."""
    parents: dict[str, str] = {}

    def root(name: str) -> str:
        parents.setdefault(name, name)
        while parents[name] != name:
            parents[name] = parents[parents[name]]
            name = parents[name]
        return name

    for item in items:
        for link in (f"user {item.user_id}", f"group {item.group}", f"item {item.twin}"):
            if link not in ("group None", "item None"):
                parents[root(link)] = root(f"item {item.id}")
    clusters: dict[str, list[Comparison]] = defaultdict(list)
    for item in items:
        clusters[root(f"item {item.id}")].append(item)
    return clusters


def part_of(benchmark: Benchmark, items: Sequence[Comparison], name: str) -> Benchmark:
    """The benchmark with some of its items and the users who have them."""
    there = {item.user_id for item in items}
    users = {id: user for id, user in benchmark.users.items() if id in there}
    card = benchmark.card if not name else replace(benchmark.card, name=f"{benchmark.card.name}-{name}")
    return Benchmark(card=card, users=users, comparisons=tuple(items))
