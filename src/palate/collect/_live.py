"""Models that answer a participant's own prompt while they wait. Nothing that people write is cached."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from palate.collect._project import Feedback, Model
from palate.engine import (
    CachedLanguageModel,
    Failure,
    LanguageModel,
    Sampling,
    Turn,
    WriteRequest,
    in_process,
    open_by_spec,
)
from palate.records import PalateError

LONGEST_ANSWER = 100_000


class LiveModels:
    """Opens each policy once, and asks one prompt at a time of those that run in this process."""

    def __init__(self) -> None:
        self._models: dict[str, LanguageModel] = {}
        self._opening = threading.Lock()
        self._asking: dict[str, threading.Lock] = {}
        self._threads = ThreadPoolExecutor(8, "palate-live")

    def open(self, policy: str) -> LanguageModel:
        """A policy by its spec, without the cache of answers: what people write must not stay there."""
        with self._opening:
            if policy not in self._models:
                model = open_by_spec(policy)
                self._models[policy] = model.model if isinstance(model, CachedLanguageModel) else model
                self._asking[policy] = threading.Lock()
            return self._models[policy]

    def answer(self, task: Feedback, prompt: str, seed: int) -> tuple[str, ...]:
        """One answer of each model, at the same time where they run elsewhere."""
        return tuple(self._threads.map(lambda model: self._write(model, prompt, seed), task.models))

    def _write(self, model: Model, prompt: str, seed: int) -> str:
        opened = self.open(model.policy)
        system = (Turn("system", model.system),) if model.system else ()
        request = WriteRequest(
            turns=(*system, Turn("user", prompt)),
            sampling=Sampling(most_tokens=model.tokens, temperature=model.temperature, seed=seed),
        )
        if in_process(opened) is not None:
            with self._asking[model.policy]:
                [answer] = opened.write([request])
        else:
            [answer] = opened.write([request])
        if isinstance(answer, Failure):
            raise PalateError(f"a model did not answer: {answer.reason}")
        text = answer[0].text.strip()
        if not text:
            raise PalateError("a model answered with nothing; try other words")
        if len(text) > LONGEST_ANSWER:
            raise PalateError(f"a model answered with {len(text):,} characters; nobody reads so many")
        return text

    def close(self) -> None:
        """Let go of the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)
