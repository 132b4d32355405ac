"""How a board behaves at size, and how often its ranks are false.

    python benchmarks/leaderboard.py size --models 1000 --items 10000 --users 1000
    python benchmarks/leaderboard.py ranks

`size` writes run folders of made-up models, builds the site, opens it in Chromium from the disk, and prints what it
took. `ranks` draws boards on which all models are equally good, and counts those that rank any model below another.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

# A script's own folder comes first on the path, and statistics.py in it would hide the module of that name.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent.resolve()]

import numpy as np

from palate.evaluation import EVALUATION, RatedItem, Settings
from palate.leaderboard import leaderboard
from palate.leaderboard._ranks import rank_models
from palate.records import Card
from palate.runs import ModelSettings, ViewLine, begin_run, json_lines
from palate.views import parse_view

CARD = Card(name="made-up", title="Made up", version="1", licence="CC0-1.0", source="benchmarks/leaderboard.py")


def made_up_items(items: int, users: int) -> list[RatedItem]:
    text = "A response of a few dozen words, as short ones are. " * 4
    return [
        RatedItem(
            id=f"item-{place:06d}",
            user_id=f"user-{place % users:05d}",
            prompt=f"Question {place}: what would you say?",
            responses=(f"{place} first. {text}", f"{place} second. {text}"),
            preferred=place % 2,
            category=f"domain {place % 5}",
            traits={"region": f"region {place % users % 4}"},
        )
        for place in range(items)
    ]


def write_runs(folder: Path, models: int, items: list[RatedItem], users: int) -> None:
    """A run for each model, whose skill is drawn; runs share the files that do not depend on the model."""
    shared = {
        "items.jsonl": json_lines(items),
        "views.jsonl": json_lines(ViewLine(view="none", item=item.id) for item in items),
    }
    first: Path | None = None
    random = np.random.default_rng(0)
    ease = random.normal(size=len(items))
    preferred = np.array([item.preferred for item in items])
    for number in range(models):
        control = number == 0
        name = "random" if control else f"model {number:04d}"
        identity = {"spec": "random" if control else f"hf:made-up/{number}", "source": "made up"}
        settings = Settings(
            benchmark=CARD,
            content_hash="0" * 64,
            seed=0,
            retriever="bm25",
            retriever_fingerprint="",
            writer=None,
            budget=None,
            limit=None,
            models=[ModelSettings(label=name, identity=identity)],
            views=[parse_view("none")],
        )
        run = begin_run(folder, EVALUATION, settings)
        for file, content in shared.items():
            if first is None:
                (run.folder / file).write_bytes(b"".join(content))
            else:
                os.link(first / file, run.folder / file)
        first = first or run.folder
        skill = 0.0 if control else random.normal(0.6, 0.3)
        margin = skill + ease + 2 * random.normal(size=len(items))
        scores = np.where(preferred[:, None] == np.arange(2), margin[:, None], 0.0)
        lines = "".join(
            f'{{"rm":"{name}","view":"none","item":"{item.id}","rating":{{"scores":[{one:.4f},{other:.4f}]}}}}\n'
            for item, (one, other) in zip(items, scores, strict=True)
        )
        (run.folder / "ratings.jsonl").write_text(lines)


def in_browser(page: Path) -> None:
    """Open the page from the disk, sort it, and open an item."""
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--headless", "--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        tab.set_default_timeout(120_000)
        loaded: list[Path] = []
        tab.on("request", lambda request: loaded.append(Path(request.url.removeprefix("file://").split("#")[0])))
        start = time.perf_counter()
        tab.goto(page.resolve().as_uri())
        tab.wait_for_selector("table.board tbody tr")
        print(f"first page: {sum(file.stat().st_size for file in loaded if file.is_file()) / 1e6:.2f} MB, "
              f"shown after {time.perf_counter() - start:.2f} s")  # fmt: skip
        sort = """async (name) => {
          const button = [...document.querySelectorAll("button.sort")].find((one) => one.textContent === name);
          const start = performance.now();
          button.click();
          document.querySelector("table.board").getBoundingClientRect();
          const laidOut = performance.now() - start;
          await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
          return [laidOut, performance.now() - start];
        }"""
        for column in ("Model", "Accuracy", "Model"):
            laid_out, painted = tab.evaluate(sort, column)
            print(
                f"sort by {column.lower()}: {laid_out:.0f} ms to sort and lay out, {painted:.0f} ms to the second frame"
            )
        seen = len(loaded)
        start = time.perf_counter()
        tab.evaluate("location.hash = document.querySelector('table.board tbody a').getAttribute('href')")
        tab.wait_for_selector(".item-list li")
        print(f"a model: {sum(file.stat().st_size for file in loaded[seen:]) / 1e6:.2f} MB, "
              f"{time.perf_counter() - start:.2f} s")  # fmt: skip
        seen = len(loaded)
        start = time.perf_counter()
        tab.locator(".item-list a").nth(7).click()
        tab.wait_for_selector(".responses")
        print(f"an item: {sum(file.stat().st_size for file in loaded[seen:]) / 1e6:.2f} MB, "
              f"{time.perf_counter() - start:.2f} s")  # fmt: skip
        browser.close()


def size(models: int, items: int, users: int, folder: Path) -> None:
    start = time.perf_counter()
    write_runs(folder / "runs", models, made_up_items(items, users), users)
    print(f"{models:,} models, {items:,} items, {users:,} users; runs written in {time.perf_counter() - start:.0f} s")
    start = time.perf_counter()
    before = sum(os.times()[:4])

    def tell(what: str, done: float, total: int) -> None:
        if done % 100 == 0:
            print(f"  {time.perf_counter() - start:.0f} s: {what} {done}/{total}", file=sys.stderr, flush=True)

    site = leaderboard([folder / "runs"], folder / "site", progress=tell)
    spent = os.times()
    busy = spent.user + spent.system + spent.children_user + spent.children_system - before
    print(f"site built in {time.perf_counter() - start:.0f} s on {os.cpu_count()} cores, {busy:.0f} s of CPU time")
    in_browser(site.page)


def ranks(boards: int, models: int = 20, items: int = 5) -> None:
    """Boards of equal models; where users differ in how hard they are, and where models share their mistakes."""
    print("equal models: boards on which any model has a rank below 1 (5% are allowed)")
    for users in (20, 60, 200):
        for shared in (0.0, 0.7):
            false = 0
            random = np.random.default_rng(users)
            for board in range(boards):
                hard = random.normal(size=(1, users, 1))
                common = random.normal(size=(1, users, items))
                own = random.normal(size=(models, users, items))
                right = hard + np.sqrt(shared) * common + np.sqrt(1 - shared) * own > 0
                values = right.reshape(models, -1).astype(float)
                found = rank_models(values, np.repeat(np.arange(users), items), None, [1] * models, board)
                false += any((one.rank or 1) > 1 for one in found.ranks)
            print(f"  {users:>3} users, {items} items, {shared:.0%} errors shared: {false / boards:.1%} of {boards:,}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["size", "ranks"])
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--boards", type=int, default=1000)
    parser.add_argument("--folder", type=Path, default=None, help="kept; by default a temporary folder is used")
    options = parser.parse_args()
    if options.what == "ranks":
        ranks(options.boards)
        return
    with tempfile.TemporaryDirectory() as temporary:
        size(options.models, options.items, options.users, options.folder or Path(temporary))


if __name__ == "__main__":
    main()
