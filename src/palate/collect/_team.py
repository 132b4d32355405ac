"""The team's pages: how the collection stands, invitations, export, erasure, retention and the plan.

Annotations are read when the routes are made, so they are not postponed here.
"""

import io
import zipfile
from functools import partial
from pathlib import Path as FilePath
from typing import Annotated, Any

import msgspec
from fastapi import Depends, FastAPI, Form, HTTPException, Path, Query, Response
from fastapi.responses import HTMLResponse, StreamingResponse
from pydantic import BaseModel
from sqlalchemy import select

from palate.collect._access import Role, Visitor, invite, revoke
from palate.collect._app import Context, allowed
from palate.collect._database import now
from palate.collect._export import is_export
from palate.collect._export_folder import export_folder
from palate.collect._forget import enforce_retention, forget
from palate.collect._plan import make_plan, plan_table
from palate.collect._status import status
from palate.collect._tables import exports, invitations, participants
from palate.records import PalateError

SHOWN_INVITATIONS = 200
PIECE = 2**16


class Counts(BaseModel):
    """What the dashboard keeps up to date by itself."""

    started: int
    completed: int
    answers: int


def add_team(app: FastAPI, context: Context) -> None:
    """The routes of owners and reviewers."""
    read = Annotated[Visitor, Depends(allowed(context, "reviewer", "owner"))]
    write = Annotated[Visitor, Depends(allowed(context, "owner", writes=True))]
    owner = Annotated[Visitor, Depends(allowed(context, "owner"))]

    def dashboard(who: Visitor, note: str = "", fault: str = "", fresh: list[Any] | None = None) -> HTMLResponse:
        return context.page(
            "team", who, 400 if fault else 200, status=status(context.project, context.store), note=note, fault=fault,
            fresh=fresh or [], invitations=_invitations(context), exports=_exports(context), url=context.url,
        )  # fmt: skip

    @app.get("/team", response_class=HTMLResponse)
    def team(who: read) -> Response:
        """How the collection stands."""
        return dashboard(who)

    @app.get("/api/team/counts")
    def counts(who: read) -> Counts:
        """People and answers, live."""
        found = context.store.collected(context.project)
        return Counts(
            started=sum(person.started is not None for person in found.participants),
            completed=sum(person.completed is not None for person in found.participants),
            answers=len(found.answers) + len(found.survey),
        )

    @app.post("/team/invitations", response_class=HTMLResponse)
    def make_invitations(
        who: write,
        count: Annotated[int, Form(ge=1, le=500)] = 1,
        role: Annotated[Role, Form()] = "annotator",
        group: Annotated[str, Form(max_length=200)] = "",
        days: Annotated[int, Form(ge=1, le=365)] = 30,
        crowd: Annotated[bool, Form()] = False,
    ) -> Response:
        """Make invitations. Their links are shown once."""
        name, _, value = group.partition("=")
        strata = {name.strip(): value.strip()} if group.strip() else {}
        if strata and (name.strip() not in context.project.strata or not value.strip()):
            return dashboard(who, fault="Write the group as NAME=VALUE, with a name from strata in the project.")
        if crowd and (context.project.crowd is None or role != "annotator"):
            return dashboard(who, fault="Add [crowd] to the project first. Only participants come from a platform.")
        made = invite(
            context.store, context.keys, count=1 if crowd else count, role=role, strata=strata, days=days, crowd=crowd
        )
        return dashboard(who, note="Copy these links now: they are shown once.", fresh=made)

    @app.post("/team/invitations/{id}/revoke", response_class=HTMLResponse)
    def revoke_invitation(who: write, id: Annotated[str, Path(pattern="^[0-9a-f]{12}$")]) -> Response:
        """Make an invitation worthless."""
        if not revoke(context.store, id):
            raise HTTPException(404, "There is no such invitation.")
        return dashboard(who, note="The invitation is revoked. Its link, code and sessions no longer work.")

    @app.post("/team/export", response_class=HTMLResponse)
    def write_export(who: write) -> Response:
        """Write an export to the project's folder."""
        try:
            folder, _ = export_folder(context.project, context.store)
        except PalateError as error:
            return dashboard(who, fault=str(error))
        return dashboard(who, note=f"Exported to {folder}.")

    @app.get("/team/exports/{name}.zip", response_class=Response)
    def download(who: owner, name: Annotated[str, Path(pattern=r"^[0-9T-]{10,40}$")]) -> Response:
        """An export as one file."""
        for folder in map(FilePath, _exports(context)):
            if folder.name == name and is_export(folder):
                content = io.BytesIO()
                with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
                    for file in sorted(one for one in folder.rglob("*") if one.is_file() and not one.is_symlink()):
                        archive.write(file, file.relative_to(folder))
                headers = {"content-disposition": f'attachment; filename="{name}.zip"'}
                content.seek(0)  # in pieces, each of which a slow client has a minute for
                return StreamingResponse(iter(partial(content.read, PIECE), b""), 200, headers, "application/zip")
        raise HTTPException(404, "There is no such export.")

    @app.post("/team/forget", response_class=HTMLResponse)
    def erase(who: write, participant: Annotated[str, Form(max_length=100)]) -> Response:
        """Erase one person everywhere."""
        participant = participant.replace("\x00", "")  # which PostgreSQL does not take
        with context.store.reading() as connection:
            known = select(participants.c.role).where(participants.c.id == participant)
            if connection.execute(known).scalar_one_or_none() != "annotator":
                return dashboard(who, fault="There is no participant with this id. Nothing was erased.")
        file = forget(context.project, context.store, context.keys, participant, reason="asked")
        return dashboard(who, note=f"Erased. The receipt is {file}.")

    @app.post("/team/retention", response_class=HTMLResponse)
    def retention(who: write) -> Response:
        """Erase everybody who is kept longer than the project says."""
        erased = enforce_retention(context.project, context.store, context.keys)
        return dashboard(who, note=f"{len(erased)} people were kept longer than the project says, and are erased.")

    _add_plan(app, context)


def _add_plan(app: FastAPI, context: Context) -> None:
    read = Annotated[Visitor, Depends(allowed(context, "reviewer", "owner"))]

    @app.get("/team/plan", response_class=HTMLResponse)
    def plan(
        who: read,
        gain: Annotated[float, Query(gt=0, lt=100, allow_inf_nan=False)] = 5,
        people: Annotated[int | None, Query(ge=1, le=100_000)] = None,
        judges: Annotated[int, Query(ge=1, le=1000)] = 1,
    ) -> Response:
        """How many people, items and repeats it takes to see a gain."""
        found = plan_table(make_plan(gain / 100, people=people, people_per_item=judges))
        return context.page("plan", who, table=found, gain=gain, people=people, judges=judges)


def _invitations(context: Context) -> list[dict[str, Any]]:
    query = (
        select(invitations, participants.c.started, participants.c.completed)
        .join(participants, participants.c.id == invitations.c.participant, isouter=True)
        .order_by(invitations.c.created.desc())
        .limit(SHOWN_INVITATIONS)
    )
    with context.store.reading() as connection:
        rows = list(connection.execute(query))
    return [
        {
            "id": row.id,
            "role": row.role,
            "kind": row.kind,
            "group": ", ".join(f"{name}: {value}" for name, value in msgspec.json.decode(row.strata).items()),
            "expires": row.expires[:10],
            "state": "revoked" if row.revoked else "expired" if row.expires <= now() else "done" if row.completed
            else "started" if row.started else "opened" if row.participant else "open",
        }
        for row in rows
    ]  # fmt: skip


def _exports(context: Context) -> list[str]:
    with context.store.reading() as connection:
        return list(connection.execute(select(exports.c.path).order_by(exports.c.date.desc())).scalars())
