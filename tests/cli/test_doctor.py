"""`palate doctor` says what this machine can run, and never shows a key."""

import json

from command import palate_process


def doctor(*words: str, **environment: str) -> str:
    done = palate_process("doctor", *words, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_names_the_machine_the_packages_and_the_models() -> None:
    said = doctor()
    for word in ("Python", "cores", "torch", "model smollm2", "model minilm", "Hugging Face hub", "cache"):
        assert word in said


def test_a_key_is_never_shown() -> None:
    said = doctor("--json", OPENAI_API_KEY="sk-secret-words", HF_HUB_OFFLINE="1")
    assert "sk-secret" not in said
    findings = {finding["what"]: finding["found"] for finding in json.loads(said)["findings"]}
    assert findings["key for a server"] == "OPENAI_API_KEY is set"
    assert "HF_HUB_OFFLINE" in findings["Hugging Face hub"]
