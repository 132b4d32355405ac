"""Where everybody chooses their own texts, artefacts are told the wrong way round, and the audit says so."""

from __future__ import annotations

import random
from pathlib import Path

from planted_audits import benchmark_of, written

from palate.audit import audit_benchmark, find_artefacts
from palate.audit._benchmark_findings import findings
from palate.audit._docket import verdict
from palate.records import Comparison, User
from palate.rewards._controls import content_words

WORDS = "river window evening table letter music winter bridge paper coffee market story".split()


def own_answers(writers: int = 12, questions: int = 90) -> list[Comparison]:
    """Two writers answer each question, each in a voice of their own, and each prefers the own answer."""
    draw = random.Random(0)
    items = []
    for question in range(questions):
        pair = draw.sample(range(writers), 2)
        texts = [f"In my voice{writer} I say {' '.join(draw.choices(WORDS, k=9))}, voice{writer}." for writer in pair]
        items += [
            Comparison(
                id=f"q{question}-{place}",
                user_id=f"w{writer}",
                prompt=f"Question {question}?",
                responses=(texts[0], texts[1]),
                preferred=place,
            )
            for place, writer in enumerate(pair)
        ]
    return items


def test_texts_of_a_held_out_writer_are_known_as_what_others_rejected() -> None:
    found = find_artefacts(own_answers(), permutations=59)
    assert found.accuracy < 0.4 and found.p_below <= 0.02 and found.p > 0.9
    fair = find_artefacts(own_answers(questions=30), permutations=19)
    assert fair.p + fair.p_below >= 1


def test_the_audit_does_not_call_that_clean(tmp_path: Path) -> None:
    items = own_answers()
    data = written(benchmark_of([User(id=user) for user in sorted({item.user_id for item in items})], items), tmp_path)
    audit = audit_benchmark(data, impersonal=False)
    [told] = [one for one in findings(audit) if "reads the responses and nothing else" in one.text]
    assert audit.artefacts is not None and audit.artefacts.high is not None
    surely = audit.artefacts.high < audit.artefacts.chance  # twelve writers are few
    assert told.severity == ("warning" if surely else "note") and "less than guessing" in told.text
    assert "whose texts they are may give it away" in verdict(audit) and "No artefact" not in verdict(audit)


def test_overlap_reads_scripts_without_spaces() -> None:
    """A run of characters is no word, so that a word in common would never be seen."""
    assert content_words(["我喜欢绿茶。"]) & content_words(["他也喜欢咖啡。"]) == {"喜欢"}
    assert content_words(["ฉันชอบชา"]) & content_words(["เขาชอบกาแฟ"])
    assert content_words(["Я люблю чай", "茶"]) == {"люблю", "чай", "茶"}
