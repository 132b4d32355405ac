"""The addresses of the server. Annotations are read when it is made, so they are not postponed here."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from palate import __version__
from palate.records import Ask, PalateError, Rating
from palate.serve._models import Metrics, Models, Served, Status
from palate.serve._wire import AskRequest, RatingAnswer, RatingModel, RewardAnswer, RewardRequest

PLAIN_TEXT = "text/plain; version=0.0.4; charset=utf-8"
Wanted = Annotated[str | None, Query(description="The fingerprint that the model must have; another is refused.")]


class Detail(BaseModel):
    """What went wrong."""

    detail: str


class Health(BaseModel):
    """Which model answers here. What it is called is known once it is loaded."""

    status: Status
    name: str | None = None
    fingerprint: str | None = None
    order_sensitive: bool | None = None
    palate: str = __version__


class Ready(BaseModel):
    """Every model of the server, loaded."""

    palate: str = __version__
    models: list[Health]


REFUSALS = {
    401: "no token, or a wrong one",
    412: "another model than was wanted",
    503: "loading, full, or shutting down",
}
BODIES = {400: "not UTF-8", 408: "too slow", 413: "too large", 500: "the reward model failed"}


def make_app(models: Models, metrics: Metrics, *, max_responses: int) -> FastAPI:
    """All addresses: the first model at `/`, and model N at `/models/N`."""
    app = FastAPI(
        title="palate reward server",
        version=__version__,
        summary="How well does this response serve this user?",
        telemetry={"tracing": False, "metrics": False, "logs": False},  # what is counted is at /metrics
        docs_url=None,  # those pages load scripts from elsewhere
        redoc_url=None,
    )
    app.add_exception_handler(RequestValidationError, _say_what_is_wrong)
    app.add_exception_handler(PalateError, _say_what_failed)

    @app.get("/ready", response_model_exclude_none=True, responses=_documented(REFUSALS))
    async def ready(model: Wanted = None) -> Ready:
        """Whether requests are taken, and which models answer them."""
        served = _loaded(models)
        if model is not None and model not in {one.fingerprint for one in served}:
            known = ", ".join(f"{one.number}: {one.model.name} ({one.fingerprint})" for one in served)
            raise HTTPException(412, f"no model here has the fingerprint {model}; there is {known}")
        return Ready(models=[_health(one) for one in served])

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def show_metrics() -> Response:
        """Counters for Prometheus."""
        return Response(metrics.text(), media_type=PLAIN_TEXT)

    async def first() -> int:
        return 0

    async def numbered(number: Annotated[int, Path(ge=1, description="Which model.")]) -> int:
        if number > len(models.specs):
            raise HTTPException(404, f"there is no model {number}; the last is {len(models.specs)}")
        return number - 1

    _add_model(app, "", models, first, metrics, max_responses, {})
    _add_model(app, "/models/{number}", models, numbered, metrics, max_responses, {404: "no such model"})
    return app


def _add_model(
    app: FastAPI,
    prefix: str,
    models: Models,
    place: Callable[..., Awaitable[int]],
    metrics: Metrics,
    max_responses: int,
    more: dict[int, str],
) -> None:
    placed = Annotated[int, Depends(place)]

    async def find(index: placed, model: Wanted = None) -> Served:
        served = _loaded(models)[index]
        if model is not None and model != served.fingerprint:
            detail = f"this is {served.model.name} with the fingerprint {served.fingerprint}, not {model}"
            raise HTTPException(412, detail)
        return served

    found = Annotated[Served, Depends(find)]

    @app.get(f"{prefix}/health", response_model_exclude_none=True, responses=_documented(REFUSALS | more))
    async def health(index: placed, model: Wanted = None) -> Health:
        """That the server lives, and which model this is once it is loaded."""
        if models.status != "ready" and model is None:
            return Health(status=models.status)
        return _health(await find(index, model))

    @app.post(prefix or "/", response_model_exclude_none=True, responses=_documented(REFUSALS | BODIES | more))
    async def rate_asks(request: AskRequest, served: found) -> RatingAnswer:
        """Ratings for asks, in palate's own protocol."""
        asks = [line.ask() for line in request.asks]
        ratings = await _rated(served, asks, metrics, max_responses)
        lines = [RatingModel.of(ask.id, rating) for ask, rating in zip(asks, ratings, strict=True)]
        return RatingAnswer(ratings=lines)

    @app.post(f"{prefix}/get_reward", responses=_documented(REFUSALS | BODIES | more))
    async def get_reward(request: RewardRequest, served: found) -> RewardAnswer:
        """Rewards for queries, in the protocol of OpenRLHF's remote reward URL."""
        try:
            asks = request.asks()
        except PalateError as error:
            raise _unusable("labels", str(error)) from None
        ratings = await _rated(served, asks, metrics, max_responses)
        rewards = []
        for index, rating in enumerate(ratings):
            if rating.scores is None:
                raise _unusable("query", f"query {index} has no score: {rating.unscored}")
            rewards.append(rating.scores[0])
        return RewardAnswer(rewards=rewards)


async def _rated(served: Served, asks: Sequence[Ask], metrics: Metrics, max_responses: int) -> list[Rating]:
    responses = sum(len(ask.responses) for ask in asks)
    if responses > max_responses:
        raise HTTPException(413, f"{responses} responses in one request; the most is {max_responses}")
    try:
        ratings = await asyncio.wrap_future(served.batcher.submit(asks))
    except PalateError:
        metrics.failures.labels(served.model.name).inc()
        raise
    metrics.unscored.labels(served.model.name).inc(sum(rating.scores is None for rating in ratings))
    return ratings


def _unusable(field: str, why: str) -> HTTPException:
    """In the form that a body which cannot be read is told of."""
    return HTTPException(422, [{"loc": ["body", field], "msg": why, "type": "value_error"}])


def _loaded(models: Models) -> Sequence[Served]:
    if models.status != "ready":
        raise HTTPException(503, models.why_not, {"Retry-After": f"{models.retry_after}"})
    return models.served


def _health(served: Served) -> Health:
    return Health(
        status="ready",
        name=served.model.name,
        fingerprint=served.fingerprint,
        order_sensitive=served.order_sensitive,
    )


def _documented(statuses: dict[int, str]) -> dict[int | str, dict[str, object]]:
    return {status: {"model": Detail, "description": words} for status, words in statuses.items()}


async def _say_what_is_wrong(request: Request, error: Exception) -> Response:
    """Where and what, without the input: it may be long, and about a person."""
    assert isinstance(error, RequestValidationError)
    found = [{key: one[key] for key in ("loc", "msg", "type")} for one in error.errors()]
    return JSONResponse({"detail": found}, 422)


async def _say_what_failed(request: Request, error: Exception) -> Response:
    return JSONResponse({"detail": str(error)}, 500)
