"""The addresses of the server. Annotations are read when it is made, so they are not postponed here."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import msgspec
from fastapi import Depends, FastAPI, HTTPException, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from palate import __version__
from palate.records import Ask, PalateError, Rating
from palate.serve._gate import GRANT, log_failure
from palate.serve._models import Metrics, Models, Served, Status
from palate.serve._tokens import Grant
from palate.serve._wire import (
    AskRequest,
    RatingAnswer,
    RequestType,
    RewardAnswer,
    RewardRequest,
    UnreadableError,
    fault,
    ratings_body,
    read_asks,
)

PLAIN_TEXT = "text/plain; version=0.0.4; charset=utf-8"
READ_AT_ONCE = 65_536
"""Bytes of a body that is read where it arrives; a larger one is read in another thread, one at a time."""
REQUESTS = (AskRequest, RewardRequest)
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
    421: "asked under a name that is not this machine's",
    503: "loading, full, or shutting down",
}
BODIES = {
    400: "not UTF-8",
    403: "a user whom the token may not name",
    408: "too slow",
    413: "too large",
    415: "not JSON",
    500: "the reward model failed",
}


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
    app.openapi = lambda: _with_requests(app)  # type: ignore[method-assign]

    @app.get("/ready", response_model_exclude_none=True, responses=_documented(REFUSALS))
    async def ready(model: Wanted = None) -> Ready:
        """Whether requests are taken, and which models answer them."""
        served = _loaded(models)
        if model is not None and model not in {one.fingerprint for one in served}:
            known = ", ".join(f"{one.number}: {one.model.name} ({one.fingerprint})" for one in served)
            raise HTTPException(412, f"no model here has the fingerprint {model}; there is {known}")
        return Ready(models=[_health(one) for one in served])

    @app.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {}}}, **_documented({403: "a token for certain users only"})},
    )
    async def show_metrics(request: Request) -> Response:
        """Counters for Prometheus, of all who ask: not for a token that may name certain users only."""
        if _grant(request).users is not None:
            raise HTTPException(403, "the counters are about all users, and this token is for certain users only")
        return Response(metrics.text(), media_type=PLAIN_TEXT)

    async def first() -> int:
        return 0

    async def numbered(number: Annotated[int, Path(ge=1, description="Which model.")]) -> int:
        if number > len(models.specs):
            raise HTTPException(404, f"there is no model {number}; the last is {len(models.specs)}")
        return number - 1

    reader = ThreadPoolExecutor(1, "palate-reader")
    _add_model(app, "", models, first, metrics, reader, max_responses, {})
    _add_model(app, "/models/{number}", models, numbered, metrics, reader, max_responses, {404: "no such model"})
    return app


def _add_model(
    app: FastAPI,
    prefix: str,
    models: Models,
    place: Callable[..., Awaitable[int]],
    metrics: Metrics,
    reader: ThreadPoolExecutor,
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

    @app.post(
        prefix or "/",
        response_model=RatingAnswer,
        responses=_documented(REFUSALS | BODIES | more),
        openapi_extra=_takes(AskRequest),
    )
    async def rate_asks(request: Request, served: found) -> Response:
        """Ratings for asks, in palate's own protocol."""
        asks = await _read(request, AskRequest, reader, max_responses)
        return _json(ratings_body(asks, await _rated(served, asks, metrics)))

    @app.post(
        f"{prefix}/get_reward",
        response_model=RewardAnswer,
        responses=_documented(REFUSALS | BODIES | more),
        openapi_extra=_takes(RewardRequest),
    )
    async def get_reward(request: Request, served: found) -> Response:
        """Rewards for queries, in the protocol of OpenRLHF's remote reward URL."""
        ratings = await _rated(served, await _read(request, RewardRequest, reader, max_responses), metrics)
        rewards = []
        for index, rating in enumerate(ratings):
            if rating.scores is None:
                raise HTTPException(422, [fault("query", f"query {index} has no score: {rating.unscored}")])
            rewards.append(rating.scores[0])
        return _json(msgspec.json.encode({"rewards": rewards}))


async def _read(request: Request, kind: type[RequestType], reader: ThreadPoolExecutor, max_responses: int) -> list[Ask]:
    """The asks of a request that may be asked: not too many, and about nobody else than its token allows."""
    body = await request.body()
    try:
        if len(body) <= READ_AT_ONCE:
            asks = read_asks(body, kind)
        else:
            asks = await asyncio.get_running_loop().run_in_executor(reader, read_asks, body, kind)
    except UnreadableError as error:
        raise HTTPException(422, error.faults) from None
    grant = _grant(request)
    for index, ask in enumerate(asks):
        if not grant.may_name(ask.view.user_id):
            raise HTTPException(403, f"this token may not name the user of ask {index + 1}")
    responses = sum(len(ask.responses) for ask in asks)
    if responses > max_responses:
        raise HTTPException(413, f"{responses} responses in one request; the most is {max_responses}")
    return asks


async def _rated(served: Served, asks: Sequence[Ask], metrics: Metrics) -> list[Rating]:
    try:
        ratings = await asyncio.wrap_future(served.batcher.submit(asks))
    except PalateError as error:
        metrics.failures.labels(served.model.name).inc()
        detail = f"the reward model {served.model.name!r} failed; {log_failure(error)}"
        raise HTTPException(500, detail) from None
    metrics.unscored.labels(served.model.name).inc(sum(rating.scores is None for rating in ratings))
    return ratings


def _grant(request: Request) -> Grant:
    grant: Grant = request.scope[GRANT]
    return grant


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")


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


def _takes(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """For the schema: the server reads bodies itself."""
    schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _with_requests(app: FastAPI) -> dict[str, Any]:
    """The schema, with the requests that the server reads itself."""
    described = FastAPI.openapi(app)
    _, schemas = msgspec.json.schema_components(REQUESTS, ref_template="#/components/schemas/{name}")
    described["components"]["schemas"].update(schemas)
    return described


async def _say_what_is_wrong(request: Request, error: Exception) -> Response:
    """Where and what, without the input: it may be long, and about a person."""
    assert isinstance(error, RequestValidationError)
    found = [{key: one[key] for key in ("loc", "msg", "type")} for one in error.errors()]
    return JSONResponse({"detail": found}, 422)
