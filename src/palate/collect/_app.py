"""The addresses of a collection. Annotations are read when it is made, so they are not postponed here.

Every route names who may use it with `Depends(allowed(...))` or is listed in `OPEN`; a test walks over all of them as
everybody.
"""

import hashlib
import warnings
from collections.abc import Callable
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

import jinja2
import msgspec
from anyio import CapacityLimiter, to_thread
from fastapi import Depends, FastAPI, Form, HTTPException, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from pydantic import BaseModel, Field
from sqlalchemy.exc import IntegrityError, NoResultFound
from starlette.exceptions import HTTPException as AnyHTTPException

from palate import __version__
from palate.collect._access import (
    Keys,
    RateLimit,
    RefusedError,
    Role,
    Visitor,
    enter_by_code,
    enter_by_link,
    leave,
    visitor,
)
from palate.collect._database import Assignment, ConflictError, FullError, Store
from palate.collect._forget import forget, is_known
from palate.collect._journey import BUFFER, MAX_PROMPT, Journey, Sent, survey_questions
from palate.collect._live import LiveModels
from palate.collect._project import Compare, Feedback, Project, Survey, Task, Validate
from palate.collect._text import show
from palate.collect._values import QUESTION, SCALE, WHY, is_portrait
from palate.records import PalateError

PAGES = FilePath(__file__).parent / "pages"
STATIC = {"style.css": "text/css", "page.js": "text/javascript", "judge.js": "text/javascript",
          "survey.js": "text/javascript", "team.js": "text/javascript"}  # fmt: skip
ID = r"^[A-Za-z0-9-]{8,64}$"
NAME = r"^[a-z0-9][a-z0-9-]{0,39}$"
MONTH = 30 * 24 * 3600
MOST_TICKED = 1000
"""Options of one question. A list without an end would be told fault by fault, while nobody else is answered."""
DIMENSION_WORDS = {
    "factuality": "Is it true?",
    "relevance": "Does it answer the question?",
    "helpfulness": "Is it helpful?",
    "personal fit": "How well does it fit this person?",
}
OPEN = frozenset({
    "/", "/code", "/j/{token}", "/withdraw/{token}", "/static/{name}", "/offline.js", "/health", "/widget.js",
    "/widget-demo", "/widget-demo.js", "/api/widget", "/api/widget/forget",
})  # fmt: skip
"""What anybody may ask for; everything else needs a session with the right role."""


class Detail(BaseModel):
    """What went wrong, in words."""

    detail: str


class EventIn(BaseModel):
    """One thing that a person did. Positions are those on screen, from 0."""

    id: str = Field(pattern=ID)
    kind: Literal["answer", "undo", "survey"]
    task: str = Field(pattern=NAME)
    item: str = Field(min_length=1, max_length=200)
    repeat: int = Field(0, ge=0, le=9)
    position: int | None = Field(None, ge=0, le=8)
    tie: bool = False
    strength: int | None = Field(None, ge=1, le=3)
    satisfaction: int | None = Field(None, ge=1, le=5)
    reason: str | None = Field(None, max_length=4000)
    values: list[Annotated[str, Field(max_length=100)]] = Field([], max_length=30)
    ratings: dict[str, Annotated[list[Annotated[int, Field(ge=1, le=5)] | None], Field(max_length=9)]] = Field(
        {}, max_length=4
    )
    edit: str | None = Field(None, max_length=20_000)
    seconds: float | None = Field(None, ge=0, le=86_400, allow_inf_nan=False)
    pasted: bool = False
    value: str | int | Annotated[list[str], Field(max_length=MOST_TICKED)] | None = None

    def sent(self) -> Sent:
        """As the journey takes it."""
        return Sent(**self.model_dump())


class EventsIn(BaseModel):
    """Events in the order in which they happened."""

    events: list[EventIn] = Field(min_length=1, max_length=50)


class RefusalOut(BaseModel):
    """An event that will never be saved, and why."""

    id: str
    why: str


class SavedOut(BaseModel):
    """Events that are on disk, now or since an earlier try, and those that cannot be."""

    saved: list[str]
    refused: list[RefusalOut]


class ItemOut(BaseModel):
    """An item as it is shown. Texts are HTML without anything live in it."""

    item: str
    repeat: int
    prompt: str
    responses: list[str]
    texts: list[str]


class TaskOut(BaseModel):
    """How far a person is, and what comes next."""

    done: int
    total: int
    items: list[ItemOut]
    last: ItemOut | None


class PromptIn(BaseModel):
    """A person's own prompt."""

    id: str = Field(pattern=ID)
    prompt: str = Field(min_length=1, max_length=MAX_PROMPT)


class ProfileOut(BaseModel):
    """A few lines about somebody."""

    profile: list[str]


class Context:
    """What the routes share."""

    def __init__(self, project: Project, store: Store, keys: Keys, url: str) -> None:
        self.project, self.store, self.keys, self.url = project, store, keys, url
        self.secure = url.startswith("https://")
        self.cookie = "__Host-palate" if self.secure else "palate-session"
        # Seed and ids are no secret: whoever knows them could tell which response is the first of its item.
        secret = int(keys.sign("seed", project.seed)[:15], 16)
        self.journey = Journey(msgspec.structs.replace(project, seed=secret), store)
        self.live = LiveModels()
        self.guesses = RateLimit(per_minute=20, burst=20)
        self.requests = RateLimit(per_minute=600, burst=300)
        self.prompts = RateLimit(per_minute=6, burst=6)
        self.widget = RateLimit(per_minute=60, burst=60)
        self.erasures = RateLimit(per_minute=6, burst=6)
        self.bytes = RateLimit(per_minute=2**20, burst=2**24)
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(PAGES), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True,
            lstrip_blocks=True,
        )  # fmt: skip
        files = sorted(PAGES.glob("*.*s"))
        self.release = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]

    def page(self, name: str, who: Visitor | None = None, code: int = 200, **values: object) -> HTMLResponse:
        """A page as HTML."""
        text = self._templates.get_template(f"{name}.html.j2").render(
            project=self.project,
            who=who,
            release=self.release,
            consent_html=show(self.project.consent.text, markdown=True),
            withdraw=f"/withdraw/{self.keys.withdrawal(who.participant)}" if who else None,
            queue=self.keys.sign("queue", who.participant)[:16] if who else None,
            **values,
        )
        return HTMLResponse(text, code)

    def message(self, title: str, text: str, status: int, who: Visitor | None = None) -> HTMLResponse:
        """A page that says one thing."""
        return self.page("message", who, status, title=title, text=text)

    def who(self, request: Request) -> Visitor | None:
        """Whose session this is."""
        return visitor(self.store, self.keys, request.cookies.get(self.cookie))


def allowed(context: Context, *roles: Role, writes: bool = False) -> Callable[[Request], Visitor]:
    """Who may use a route. What writes also needs the session's own token, in a header or a form field.

    A page that reads may send it too: where somebody else has come in since, in another tab, it must not show theirs.
    """

    def check(request: Request) -> Visitor:
        who = context.who(request)
        if who is None:
            raise HTTPException(401, "Please come in by your link or code first.")
        if who.role not in roles:
            raise HTTPException(403, "You may not use this page.")
        if seconds := context.requests.wait(who.participant):
            raise HTTPException(429, "Too many requests. Please wait a moment.", {"Retry-After": str(seconds)})
        given = request.headers.get("x-csrf-token") or request.state.form_token
        if writes:
            _same_site(request)
        if (writes or given is not None) and not context.keys.signed(given or "", "csrf", who.session):
            raise HTTPException(403, "This page is out of date. Load it again.")
        return who

    async def check_with_form(request: Request) -> Visitor:
        request.state.form_token = None
        kind = request.headers.get("content-type", "")
        if writes and kind.startswith(("application/x-www-form-urlencoded", "multipart/form-data")):
            token = (await request.form()).get("csrf")
            request.state.form_token = token if isinstance(token, str) else None
        from starlette.concurrency import run_in_threadpool

        return await run_in_threadpool(check, request)

    check_with_form.roles = roles  # type: ignore[attr-defined]
    return check_with_form  # type: ignore[return-value]


def _same_site(request: Request) -> None:
    """Browsers say where a request comes from; from another site it is refused."""
    origin = request.headers.get("origin")
    if origin is not None and origin.lower().partition("://")[2] != request.headers.get("host", "").lower():
        raise HTTPException(403, "This request came from another site.")


REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Detail, "description": words}
    for status, words in {
        400: "cannot be read", 401: "no session", 403: "not allowed", 404: "not here", 409: "a contradiction",
        413: "too large", 422: "not valid", 429: "too many requests", 502: "a model did not answer", 507: "disk full",
    }.items()
}  # fmt: skip


def make_app(context: Context) -> FastAPI:
    """All routes of a collection."""
    app = FastAPI(
        title="palate collect",
        version=__version__,
        summary=context.project.title,
        telemetry={"tracing": False, "metrics": False, "logs": False},
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        responses=REFUSALS,
    )
    app.state.context = context
    _say_faults(app, context)
    _add_entry(app, context)
    _add_participant(app, context)
    _add_api(app, context)
    from palate.collect._team import add_team
    from palate.collect._widget import add_widget

    add_team(app, context)
    add_widget(app, context)
    return app


def _say_faults(app: FastAPI, context: Context) -> None:
    """Faults as JSON for programs, and as a page for people."""

    from palate.collect._widget import readable_by

    def answer(request: Request, status: int, detail: object, headers: Any = None) -> Response:
        headers = dict(headers or {}) | readable_by(request, context.project)
        if request.url.path.startswith("/api/") or request.method not in ("GET", "POST"):
            return JSONResponse({"detail": detail}, status, headers)
        title = {401: "Please come in", 404: "Not here", 429: "One moment", 507: "Not saved"}.get(status, "Sorry")
        words = detail if isinstance(detail, str) else "What was sent cannot be read."
        page = context.message(title, words, status)
        page.headers.update(headers)
        return page

    @app.exception_handler(AnyHTTPException)
    async def refused(request: Request, error: AnyHTTPException) -> Response:
        detail = "There is no such page." if error.status_code == 404 and error.detail == "Not Found" else error.detail
        return answer(request, error.status_code, detail, error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if not isinstance(part, str) or part.isprintable())
        return answer(request, 422, f"{where}: {first['msg']}".encode("utf-8", "replace").decode())

    @app.exception_handler(RefusedError)
    async def not_in(request: Request, error: RefusedError) -> Response:
        return answer(request, 403, str(error))

    @app.exception_handler(FullError)
    async def full(request: Request, error: FullError) -> Response:
        words = "The server's disk is full, so this was not saved. It stays in this browser and is sent again."
        return answer(request, 507, words, {"Retry-After": "30"})

    @app.exception_handler(ConflictError)
    async def conflict(request: Request, error: ConflictError) -> Response:
        return answer(request, 409, str(error))

    @app.exception_handler(IntegrityError)
    @app.exception_handler(NoResultFound)
    async def gone(request: Request, error: Exception) -> Response:
        fault = type(error).__name__  # its words hold what the person sent
        warnings.warn(f"{request.method} about somebody who is being erased, or not there: {fault}", stacklevel=1)
        return answer(request, 409, "This cannot be saved any more. If you withdrew, your data are being erased.")

    @app.exception_handler(PalateError)
    async def failed(request: Request, error: PalateError) -> Response:
        return answer(request, 503, "The server cannot do this now. Please try again.", {"Retry-After": "10"})


def _add_entry(app: FastAPI, context: Context) -> None:
    def signed_in(token: str) -> RedirectResponse:
        page = RedirectResponse("/", 303)
        page.set_cookie(
            context.cookie, token, max_age=MONTH, httponly=True, secure=context.secure, samesite="lax", path="/"
        )
        return page

    def entering(request: Request, enter: Callable[[], str]) -> Response:
        address = request.client.host if request.client else ""
        if seconds := context.guesses.waiting(address):  # before it is tried: a right guess must wait as well
            raise HTTPException(429, "Too many tries. Please wait.", {"Retry-After": str(seconds)})
        try:
            return signed_in(enter())
        except RefusedError as error:
            context.guesses.wait(address)
            return context.page("enter", None, 403, fault=str(error))

    @app.get("/", response_class=HTMLResponse)
    def home(request: Request) -> Response:
        """Where a visitor goes next."""
        who = context.who(request)
        if who is None:
            return context.page("enter", fault=None)
        if who.role != "annotator":
            return RedirectResponse("/team", 303)
        if who.consent != context.project.consent.version:
            return RedirectResponse("/consent", 303)
        task = context.journey.next_task(who.participant)
        return RedirectResponse(f"/t/{task.name}" if task else "/done", 303)

    @app.post("/code", response_class=HTMLResponse)
    def code(request: Request, code: Annotated[str, Form(max_length=100)]) -> Response:
        """Come in by a short code."""
        _same_site(request)
        return entering(request, lambda: enter_by_code(context.store, context.keys, code))

    @app.get("/j/{token}", response_class=HTMLResponse)
    def join(request: Request, token: Annotated[str, Path(max_length=300)]) -> Response:
        """Come in by a link."""
        crowd = context.project.crowd
        outside = request.query_params.get(crowd.parameter) if crowd else None
        return entering(request, lambda: enter_by_link(context.store, context.keys, token, outside))

    @app.get("/withdraw/{token}", response_class=HTMLResponse)
    def ask_withdraw(request: Request, token: Annotated[str, Path(max_length=300)]) -> Response:
        """Ask whether somebody really wants to withdraw."""
        participant = context.keys.withdrawing(token)
        return context.page("withdraw", token=token, known=is_known(context.store, participant))

    @app.post("/withdraw/{token}", response_class=HTMLResponse)
    def withdraw(request: Request, token: Annotated[str, Path(max_length=300)]) -> Response:
        """Erase everything about a person, who asks for it with their own link."""
        _same_site(request)
        participant = context.keys.withdrawing(token)
        if is_known(context.store, participant):
            forget(context.project, context.store, context.keys, participant, reason="withdrawn")
        page = context.message("You have withdrawn", "Everything that you gave us has been erased.", 200)
        page.delete_cookie(context.cookie)
        return page

    @app.get("/static/{name}", response_class=Response)
    def static(name: str) -> Response:
        """Style and scripts of the pages."""
        if name not in STATIC:
            raise HTTPException(404, "There is no such file.")
        return Response(
            (PAGES / name).read_bytes(), media_type=STATIC[name], headers={"cache-control": "max-age=86400"}
        )

    @app.get("/offline.js", response_class=Response)
    def offline() -> Response:
        """What a browser shows when a page is loaded again without a network."""
        return Response((PAGES / "offline.js").read_bytes(), media_type="text/javascript")

    own_thread = CapacityLimiter(1)

    def read_database() -> None:
        with context.store.reading():
            pass

    @app.get("/health")
    async def health() -> dict[str, str]:
        """That the server and its database answer: in a thread of its own, since all others may wait for a writer."""
        await to_thread.run_sync(read_database, limiter=own_thread)
        return {"status": "ready", "palate": __version__}


def _add_participant(app: FastAPI, context: Context) -> None:
    read = Annotated[Visitor, Depends(allowed(context, "annotator"))]
    write = Annotated[Visitor, Depends(allowed(context, "annotator", writes=True))]

    @app.get("/consent", response_class=HTMLResponse)
    def consent(who: read) -> Response:
        """What is asked, and what becomes of it."""
        if context.journey.is_full(who.participant):
            text = "We have enough people of your group already. Thank you for your interest."
            return context.message("This study is full", text, 200, who)
        return context.page("consent", who)

    @app.post("/consent", response_class=HTMLResponse)
    def agree(who: write, agreed: Annotated[str, Form(max_length=10)] = "") -> Response:
        """Record that somebody agrees."""
        if agreed != "yes":
            return RedirectResponse("/consent", 303)
        context.journey.agree(who.participant)
        return RedirectResponse("/", 303)

    @app.get("/t/{name}", response_class=HTMLResponse)
    def task_page(who: read, name: Annotated[str, Path(pattern=NAME)]) -> Response:
        """The page of a task."""
        task = _agreed(context, who, name)
        if isinstance(task, Survey):
            with context.store.reading() as connection:
                standing = context.store.standing(connection, who.participant, task.name)
            given = {question: data["value"] for (question, _), data in standing.items()}
            return context.page(
                "survey", who, task=task, questions=survey_questions(task), given=given, is_portrait=is_portrait,
                portrait_question=QUESTION, portrait_scale=SCALE, portrait_why=WHY,
            )  # fmt: skip
        if context.journey.is_full(who.participant) and not context.journey.state(who.participant, task).done:
            text = "We have enough people of your group already. Thank you for your interest."
            return context.message("This study is full", text, 200, who)
        return context.page("judge", who, task=task, kind=_kind(task), dimensions=DIMENSION_WORDS)

    @app.get("/done", response_class=HTMLResponse)
    def done(who: read) -> Response:
        """Thanks, the way back to the platform, and how to withdraw later."""
        if who.consent is None or context.journey.next_task(who.participant) is not None:
            return RedirectResponse("/", 303)
        completion = context.project.crowd.completion if context.project.crowd else ""
        return context.page("done", who, completion=completion, link=context.url)

    @app.post("/leave", response_class=HTMLResponse)
    def sign_out(
        who: Annotated[Visitor, Depends(allowed(context, "annotator", "reviewer", "owner", writes=True))],
    ) -> Response:
        """End the session on this machine."""
        leave(context.store, who)
        page = RedirectResponse("/", 303)
        page.delete_cookie(context.cookie)
        return page


def _add_api(app: FastAPI, context: Context) -> None:
    read = Annotated[Visitor, Depends(allowed(context, "annotator"))]
    write = Annotated[Visitor, Depends(allowed(context, "annotator", writes=True))]
    named = Annotated[str, Path(pattern=NAME)]

    def judged(who: Visitor, name: str) -> Compare | Validate | Feedback:
        task = _agreed(context, who, name)
        if isinstance(task, Survey):
            raise HTTPException(404, "A survey has no items.")
        return task

    @app.get("/api/tasks/{name}")
    def next_items(who: read, name: named) -> TaskOut:
        """What comes next, some items ahead."""
        task = judged(who, name)
        state = context.journey.state(who.participant, task)
        if state.finished:
            context.journey.next_task(who.participant)  # notes it where this was the last one
        return TaskOut(
            done=state.done,
            total=state.total,
            items=[_shown(task, one) for one in state.open[:BUFFER]],
            last=_shown(task, state.last) if state.last else None,
        )

    @app.post("/api/events")
    def save(who: write, sent: EventsIn) -> SavedOut:
        """Save answers, edits and undos. When this says `saved`, they are on disk."""
        _with_consent(context, who)
        if seconds := context.bytes.wait(who.participant, len(sent.model_dump_json())):
            raise HTTPException(429, "That is a lot of text. Please wait.", {"Retry-After": str(seconds)})
        saved, refused = context.journey.save(who.participant, [one.sent() for one in sent.events])
        return SavedOut(saved=saved, refused=[RefusalOut(id=one.id, why=one.why) for one in refused])

    @app.post("/api/tasks/{name}/prompts")
    def own_prompt(who: write, name: named, sent: PromptIn) -> ItemOut:
        """Two models answer a person's own prompt."""
        task = judged(who, name)
        if not isinstance(task, Feedback) or not sent.prompt.strip():
            raise HTTPException(404, "This task takes no prompts.")
        if known := context.journey.own_item(who.participant, task.name, sent.id):
            return _shown(task, known)
        if context.journey.state(who.participant, task).finished:
            raise HTTPException(409, "You have written all prompts already.")
        if seconds := context.prompts.wait(who.participant):
            raise HTTPException(429, "Please wait a moment before the next prompt.", {"Retry-After": str(seconds)})
        seed = int(hashlib.sha256(sent.id.encode()).hexdigest()[:7], 16)
        try:
            responses = context.live.answer(task, sent.prompt, seed)
        except PalateError:
            raise HTTPException(502, "The assistants cannot answer now. Please try again.") from None
        if len(set(responses)) < 2:
            raise HTTPException(502, "Both assistants gave the same answer. Please ask something else.")
        return _shown(task, context.journey.add_own(who.participant, task, sent.id, sent.prompt, responses))

    @app.get("/api/tasks/{name}/profile")
    def profile(
        who: read,
        name: named,
        item: Annotated[str, Query(min_length=1, max_length=200)],
        repeat: Annotated[int, Query(ge=0, le=9)] = 0,
    ) -> ProfileOut:
        """Whose item it is, once the first three dimensions are graded."""
        task = judged(who, name)
        lines = context.journey.profile(who.participant, task, item, repeat) if isinstance(task, Validate) else None
        if lines is None:
            raise HTTPException(409, "The first three questions come before the profile.")
        return ProfileOut(profile=[show(line, markdown=False) for line in lines])


def _with_consent(context: Context, who: Visitor) -> None:
    """Nothing is asked of anybody who has not agreed to the consent text as it is now."""
    if who.consent != context.project.consent.version:
        raise HTTPException(403, "Please agree to take part first.")


def _agreed(context: Context, who: Visitor, name: str) -> Task:
    _with_consent(context, who)
    task = context.project.task(name)
    if task is None:
        raise HTTPException(404, "There is no such task.")
    return task


def _kind(task: Task) -> str:
    return {Compare: "compare", Validate: "validate", Feedback: "feedback"}.get(type(task), "survey")


def _shown(task: Compare | Validate | Feedback, one: Assignment) -> ItemOut:
    """An item in the order of this person's screen. Labels, checks and models' names stay here."""
    order = sorted(range(len(one.shown)), key=one.shown.__getitem__)
    return ItemOut(
        item=one.item.id,
        repeat=one.repeat,
        prompt=show(one.item.prompt, markdown=False),
        responses=[show(one.item.responses[index], markdown=task.markdown) for index in order],
        texts=[one.item.responses[index] for index in order] if isinstance(task, Feedback) and task.edit else [],
    )
