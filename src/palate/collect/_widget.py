"""Feedback from a product's own page: thumbs, edits and choices, with a public key and an origin check.

Annotations are read when the routes are made, so they are not postponed here.
"""

from typing import Annotated, Literal

import msgspec
from fastapi import FastAPI, HTTPException, Request, Response
from pydantic import BaseModel, Field
from sqlalchemy import select

from palate.collect._access import person_from_outside
from palate.collect._app import ID, PAGES, Context
from palate.collect._database import Assignment, ConflictError, Event, now
from palate.collect._project import Project
from palate.collect._records import Item
from palate.collect._tables import items, participants

Text = Annotated[str, Field(min_length=1, max_length=20_000)]


class WidgetIn(BaseModel):
    """One piece of feedback. `person` is a random id that the page keeps; of it a keyed hash is stored."""

    key: str = Field(max_length=64)
    id: str = Field(pattern=ID)
    person: str = Field(pattern=ID)
    kind: Literal["thumb", "edit", "choice"]
    prompt: Text
    responses: list[Text] = Field(min_length=1, max_length=9)
    up: bool | None = None
    edit: str | None = Field(None, max_length=20_000)
    choice: int | None = Field(None, ge=0, le=8)
    reason: str | None = Field(None, max_length=4000)


class WidgetForget(BaseModel):
    """Somebody wants what they sent erased."""

    key: str = Field(max_length=64)
    person: str = Field(pattern=ID)


class WidgetOut(BaseModel):
    """That it is on disk."""

    saved: bool


def add_widget(app: FastAPI, context: Context) -> None:
    """The routes of the widget. Without [widget] in the project they answer that there is none."""
    widget = context.project.widget

    def check(request: Request, key: str) -> str:
        """The origin, where it may send; the key names the project."""
        origin = request.headers.get("origin", "")
        if widget is None:
            raise HTTPException(404, "This project takes no feedback from other pages.")
        if origin not in widget.origins or key != widget.key:
            raise HTTPException(403, "This page may not send feedback here.")
        address = request.client.host if request.client else ""
        if seconds := context.widget.wait(address):
            raise HTTPException(429, "Too much feedback at once.", {"Retry-After": str(seconds)})
        return origin

    @app.options("/api/widget", response_class=Response)
    @app.options("/api/widget/forget", response_class=Response)
    def preflight(request: Request) -> Response:
        """Tell a browser which pages may send."""
        return Response(status_code=204, headers=readable_by(request, context.project))

    @app.post("/api/widget")
    def feedback(request: Request, response: Response, sent: WidgetIn) -> WidgetOut:
        """Save one piece of feedback."""
        response.headers.update(_cors(check(request, sent.key)))
        assert widget is not None
        if seconds := context.bytes.wait(request.client.host if request.client else "", len(sent.model_dump_json())):
            raise HTTPException(429, "Too much feedback at once.", {"Retry-After": str(seconds)})
        count = len(sent.responses)
        fits = {"thumb": count == 1 and sent.up is not None, "edit": count == 1 and bool(sent.edit),
                "choice": count > 1 and sent.choice is not None and sent.choice < count}  # fmt: skip
        if not fits[sent.kind] or len(set(sent.responses)) < count:
            raise HTTPException(
                422, "thumb needs one response and up; edit one and the edit; choice several and choice"
            )
        with context.store.writing() as connection:
            person = person_from_outside(context.store, connection, context.keys, "widget", sent.person)
            started = (participants.c.id == person) & participants.c.started.is_(None)
            values = {"started": now(), "consent": f"widget {context.project.consent.version}"}
            connection.execute(participants.update().where(started).values(**values))
            item = Item(
                id=f"widget/{sent.id}", prompt=sent.prompt, responses=tuple(sent.responses), participant=person,
                source="widget",
            )  # fmt: skip
            data = msgspec.json.encode(item).decode()
            new = context.store.insert_new(
                connection, items, id=item.id, task=widget.task, position=0, data=data, active=True, participant=person
            )
            if not new and connection.execute(select(items.c.data).where(items.c.id == item.id)).scalar_one() != data:
                raise ConflictError("other feedback has this id already")
            shown = Assignment(item=item, repeat=0, shown=tuple(range(count)), position=0)
            context.store.assign(connection, person, widget.task, [shown])
            answer = {"choice": sent.choice, "thumb": sent.up, "edit": sent.edit, "reason": sent.reason}
            kept = {name: value for name, value in answer.items() if value is not None}
            event = Event(id=sent.id, participant=person, kind="answer", task=widget.task, item=item.id, data=kept)
            context.store.append(connection, event)
        return WidgetOut(saved=True)

    @app.post("/api/widget/forget")
    def forget_person(request: Request, response: Response, sent: WidgetForget) -> WidgetOut:
        """Erase what a person sent from a product's page."""
        from palate.collect._forget import forget

        response.headers.update(_cors(check(request, sent.key)))
        hashed = context.keys.sign("widget", sent.person)
        with context.store.reading() as connection:
            known = select(participants.c.id).where(participants.c.outside == hashed)
            person = connection.execute(known).scalar_one_or_none()
        if person is not None:
            # an erasure goes through all files: whoever makes people up and erases them must not keep others waiting
            if seconds := context.erasures.wait(request.client.host if request.client else ""):
                raise HTTPException(429, "Too many erasures at once.", {"Retry-After": str(seconds)})
            forget(context.project, context.store, context.keys, person, reason="withdrawn")
        return WidgetOut(saved=False)

    @app.get("/widget.js", response_class=Response)
    def script() -> Response:
        """The script that a product's page loads."""
        headers = {"cache-control": "max-age=3600", "cross-origin-resource-policy": "cross-origin"}
        return Response((PAGES / "widget.js").read_bytes(), media_type="text/javascript", headers=headers)

    @app.get("/widget-demo", response_class=Response)
    def demo() -> Response:
        """A page with the widget on it, to try it out."""
        if widget is None:
            raise HTTPException(404, "This project takes no feedback from other pages.")
        return context.page("widget-demo", widget=widget, origin=context.url)

    @app.get("/widget-demo.js", response_class=Response)
    def demo_script() -> Response:
        """What the demo page does."""
        return Response((PAGES / "widget-demo.js").read_bytes(), media_type="text/javascript")


def readable_by(request: Request, project: Project) -> dict[str, str]:
    """What lets a page of the widget read an answer, also one that refuses it something."""
    origin = request.headers.get("origin", "")
    widget = project.widget if request.url.path.startswith("/api/widget") else None
    return _cors(origin) if widget and origin in widget.origins else {}


def _cors(origin: str) -> dict[str, str]:
    return {
        "access-control-allow-origin": origin,
        "access-control-allow-headers": "content-type",
        "access-control-allow-methods": "POST",
        "vary": "origin",
    }
