"""The page that a hub shows of a benchmark or a run, made from the card and the report."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from palate.data import is_pseudonym, mark_of, summarise
from palate.records import Benchmark, escaped_json
from palate.report import count, document_markdown
from palate.runs import Run, RunSummary

LICENCES = (
    *(
        "apache-2.0 mit cc0-1.0 cc-by-2.0 cc-by-3.0 cc-by-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-2.0 cc-by-nc-3.0"
    ).split(),
    *("cc-by-nc-4.0 cc-by-nd-4.0 cc-by-nc-nd-4.0 cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 odc-by odbl bsd-3-clause").split(),
    "unknown",
)
"""Names that the hub has for licences; all others are written out."""
ITEMS = ("comparisons.jsonl", "completions.jsonl")


def benchmark_card(benchmark: Benchmark, files: Sequence[str], languages: Sequence[str], repository: str) -> bytes:
    """Terms, people, counts, what is left out, and how to read it."""
    card, numbers = benchmark.card, summarise(benchmark)
    tables = [name for name in (*ITEMS, "users.jsonl") if name in files]
    mark = mark_of(
        kind="benchmark", name=card.name, version=card.version, content_hash=benchmark.content_hash, files=[*files]
    )
    under = "pseudonyms" if all(map(is_pseudonym, benchmark.users)) else "the ids that the source gave them"
    known = known_of_people(benchmark)
    rows = {
        "version": card.version,
        "licence": card.licence,
        "source": card.source,
        "content": f"sha256 {benchmark.content_hash}",
        "users": f"{numbers.users:,}",
        "comparisons": f"{numbers.comparisons:,}",
        "completions": f"{numbers.completions:,}",
    }
    lines = [
        *_front_matter(card.title, card.licence, languages, tables, mark),
        f"# {card.title}",
        *([card.description] if card.description else []),
        "## What it holds",
        _table(rows),
        "## People",
        f"{count(numbers.users, 'user')} under {under}{', with ' + ', '.join(known) if known else ''}. "
        "Whoever wants to be erased asks the people who published this; copies that others took stay with them.",
        "## What is left out or changed",
        "\n".join(f"- {note}" for note in card.notes) or "Nothing, as far as its card says.",
        "## How to read it",
        f"```bash\npip install 'palate[hub]'\npalate data show hub:{repository}\n"
        f"palate eval hub:{repository} --rm overlap\n```",
        f"`hub:{repository},revision=COMMIT` reads the state of one commit.",
    ]
    return _page(lines)


def run_card(
    run: Run[Any],
    summary: RunSummary,
    files: Iterable[str],
    languages: Sequence[str],
    repository: str,
    *,
    users: bool,
) -> bytes:
    """What was measured on what, the report without single users, and how to read the folder."""
    settings, names = run.settings, sorted(files)
    tables = ["results.csv", *(name for name in names if name.endswith(".jsonl"))]
    folder = summary.run
    mark = mark_of(kind="run", name=folder, content_hash=settings.content_hash, files=names)
    rows = {
        "command": run.experiment.command,
        "benchmark": f"{settings.benchmark.title} ({settings.benchmark.name} {settings.benchmark.version})",
        "content of the benchmark": f"sha256 {settings.content_hash}",
        "licence of the benchmark": settings.benchmark.licence,
        "settings": settings.hash,
        "palate": settings.palate,
        "complete": "yes" if summary.complete else "no",
    }
    shown = run.experiment.without_users(summary)
    report = document_markdown(run.experiment.document(run, shown, users=False))
    left_out = "Trained models, policies, checkpoints, the command line and the folders of local models are left out."
    read = (
        f"```bash\nhf download {repository} --repo-type dataset --local-dir runs/{folder}\n"
        f"palate report runs/{folder}\n```"
        if users
        else "The reports say nothing about a single user; the raw lines of the run are left out."
    )
    lines = [
        *_front_matter(
            f"{folder}: a run of {run.experiment.command}", settings.benchmark.licence, languages, tables, mark
        ),
        report.strip(),
        "## About this run",
        _table(rows),
        left_out,
        "## How to read it",
        read,
    ]
    return _page(lines)


def known_of_people(benchmark: Benchmark) -> list[str]:
    """What is known of the users, in counts and names of fields."""
    users = benchmark.users.values()
    fields = sorted({name for user in users for name in user.demographics})
    counts = {
        "post": sum(len(user.posts) for user in users),
        "earlier choice": sum(len(user.judgements) for user in users),
        "stated value": sum(len(user.values) for user in users),
    }
    told = [f"what they say of themselves ({', '.join(fields)})"] if fields else []
    return [*told, *(count(number, what) for what, number in counts.items() if number)]


def _front_matter(title: str, licence: str, languages: Sequence[str], tables: Sequence[str], mark: str) -> list[str]:
    slug = re.sub(r"[\s_]+", "-", licence.strip().lower())
    named = [f"license: {slug}"] if slug in LICENCES else ["license: other", f"license_name: {_quoted(licence)}"]
    configs = []
    for number, name in enumerate(tables):
        configs += [f"- config_name: {name.rpartition('.')[0]}", f"  data_files: {name}"]
        configs += ["  default: true"] if number == 0 else []
    spoken = ["language:", *(f"- {language}" for language in languages)] if languages else []
    head = ["---", f"pretty_name: {_quoted(title)}", *named, *spoken]
    return ["\n".join([*head, "tags:", "- palate", "- personalisation", "configs:", *configs, mark, "---"])]


def _quoted(text: str) -> str:
    """On one line whatever it holds: YAML ends lines where JSON does not."""
    return escaped_json(json.dumps(text, ensure_ascii=False))


def _table(rows: Mapping[str, str]) -> str:
    cells = (f"| {name} | {' '.join(value.split()).replace('|', '&#124;')} |" for name, value in rows.items())
    return "\n".join(["| | |", "|---|---|", *cells])


def _page(blocks: Iterable[str]) -> bytes:
    return ("\n\n".join(blocks) + "\n").encode("utf-8", "replace")
