"""Who gets in, what they may do, and what hostile visitors achieve: nothing."""

from __future__ import annotations

import re
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from collection import ADDRESS, Collection, Person, make_collection
from fastapi.routing import APIRoute
from sqlalchemy import select

from palate.collect._access import RateLimit, RefusedError, enter_by_link, invite, revoke, visitor
from palate.collect._app import OPEN
from palate.collect._database import now
from palate.collect._gate import MAX_BODY
from palate.collect._serve import CollectSettings, _hosts
from palate.collect._tables import invitations, metadata, participants, sessions
from palate.collect._text import show
from palate.records import PalateError

HOSTILE = [
    "<script>alert(1)</script>",
    '<img src=x onerror="alert(1)">',
    "[click](javascript:alert(1))",
    "![x](https://evil.example/track.png)",
    "<iframe src=https://evil.example></iframe>",
    '<a href="jAvAsCrIpT:alert(1)">x</a>',
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "<svg/onload=alert(1)>",
    "<style>body{display:none}</style>",
    '"><script>alert(1)</script>',
    "```html\n<script>alert(1)</script>\n```",
    "<form action=https://evil.example><input name=password></form>",
]


def test_a_link_lets_in_once_for_all_and_only_a_hash_is_kept(small: Collection) -> None:
    ann = Person(small)
    secret = ann.invitation.path.split(".")[1]
    code = (ann.invitation.code or "").replace("-", "")
    held = "".join(str(row) for table in metadata.sorted_tables for row in _rows(small, table))
    assert secret not in held and code not in held and ann.http.cookies["palate-session"] not in held
    again = small.client()
    again.get(ann.invitation.path)
    assert len(_rows(small, participants)) == 1


def _rows(collection: Collection, table: Any) -> list[Any]:
    with collection.store.reading() as connection:
        return list(connection.execute(select(table)))


def test_a_code_lets_in_however_it_is_typed(small: Collection) -> None:
    [made] = invite(small.store, small.keys)
    http = small.client()
    page = http.post("/code", data={"code": f" {(made.code or '').lower().replace('-', ' ')} "})
    assert page.status_code == 200 and "Before you start" in page.text


@pytest.mark.parametrize(
    "forged",
    [
        lambda path: path[:-1] + ("0" if path[-1] != "0" else "1"),
        lambda path: path.rsplit(".", 1)[0],
        lambda path: path.replace(".", ".x", 1),
        lambda path: "/j/" + "é" * 40,
        lambda path: "/j/..%00",
    ],
)
def test_a_forged_link_does_not(small: Collection, forged: Any) -> None:
    [made] = invite(small.store, small.keys)
    answer = small.client().get(forged(made.path))
    assert answer.status_code == 403 and "palate-session" not in answer.cookies


def test_an_expired_or_revoked_invitation_does_not(small: Collection) -> None:
    ann = Person(small)
    [other] = invite(small.store, small.keys)
    with small.store.writing() as connection:
        connection.execute(invitations.update().where(invitations.c.id == other.id).values(expires=now()))
    late = small.client().get(other.path)
    assert late.status_code == 403  # the signature covers the moment as well
    revoke(small.store, ann.invitation.id)
    assert ann.http.get("/consent").status_code == 401
    page = small.client().get(ann.invitation.path)
    assert page.status_code == 403 and "no longer valid" in page.text


def test_a_session_ends(small: Collection) -> None:
    ann = Person(small)
    with small.store.writing() as connection:
        connection.execute(sessions.update().values(expires="2020-01-01T00:00:00+00:00"))
    assert ann.http.get("/consent").status_code == 401
    bob = Person(small)
    bob.http.post("/leave", data={"csrf": bob.csrf})
    assert bob.http.get("/consent").status_code == 401


def test_cookies_are_closed_to_scripts_and_other_sites(small: Collection) -> None:
    [made] = invite(small.store, small.keys)
    cookie = small.client().get(made.path, follow_redirects=False).headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=lax" in cookie and "Secure" not in cookie
    small.context.secure = True
    [made] = invite(small.store, small.keys)
    assert "Secure" in small.client().get(made.path, follow_redirects=False).headers["set-cookie"]


BODIES: dict[str, dict[str, Any]] = {
    "/code": {"data": {"code": "AAAA-BBBB-CCCC"}},
    "/consent": {"data": {"agreed": "no"}},
    "/leave": {"data": {}},
    "/api/events": {"json": {"events": [{"id": "12345678", "kind": "undo", "task": "pairs", "item": "tea"}]}},
    "/api/tasks/{name}/prompts": {"json": {"id": "12345678", "prompt": "Hello?"}},
    "/team/invitations": {"data": {"count": "1"}},
    "/team/forget": {"data": {"participant": "p-0"}},
    "/team/invitations/{id}/revoke": {"data": {}},
    "/team/export": {"data": {}},
    "/team/retention": {"data": {}},
    "/api/widget": {"json": {}},
    "/api/widget/forget": {"json": {}},
    "/withdraw/{token}": {"data": {}},
}
PLACES = {"{name}": "pairs", "{token}": "x.y", "{id}": "0123456789ab", "{item}": "tea"}


def test_every_route_is_open_to_those_it_names_and_to_nobody_else(small: Collection) -> None:
    people = {role: Person(small, role=role) for role in ("annotator", "reviewer", "owner")}
    people["annotator"].agree()
    walked = set()
    for route in small.app.routes:
        assert isinstance(route, APIRoute), route
        roles = {role for one in route.dependant.dependencies for role in getattr(one.call, "roles", ())}
        assert bool(roles) != (route.path in OPEN), route.path
        path = route.path
        for name, value in PLACES.items():
            path = path.replace(name, value)
        for method in route.methods - {"OPTIONS"}:
            if not roles:
                continue
            body = BODIES[route.path] if method == "POST" else {}
            walked.add((method, route.path))
            assert small.client().request(method, path, **body).status_code == 401, (method, path)
            for role, person in people.items():
                if role in roles and route.path == "/leave":
                    continue
                headers = {"x-csrf-token": person.csrf} if method == "POST" else {}
                status = person.http.request(method, path, headers=headers, follow_redirects=False, **body).status_code
                assert (status in (401, 403)) == (role not in roles), (method, path, role, status)
                if method == "POST" and role in roles:
                    without = person.http.request(method, path, follow_redirects=False, **body)
                    assert without.status_code == 403, (method, path, "without the token")
                    other = {**headers, "origin": "https://evil.example"}
                    strange = person.http.request(method, path, headers=other, follow_redirects=False, **body)
                    assert strange.status_code == 403, (method, path, "from another site")
    assert len(walked) > 15


def test_a_person_sees_and_answers_only_what_was_given_to_them(small: Collection) -> None:
    ann, bob = small.join(), small.join()
    theirs = {item["item"] for item in bob.items()["items"]} - {item["item"] for item in ann.items()["items"]}
    for item in theirs:
        told = ann.send(ann.choose({"item": item, "repeat": 0})).json()
        assert told["saved"] == [] and "not given to you" in told["refused"][0]["why"]
    assert small.store.collected(small.project).answers == ()


def test_nothing_about_labels_and_checks_reaches_the_browser(small: Collection, tmp_path: Path) -> None:
    ann = small.join()
    assert set(ann.items()["items"][0]) == {"item", "repeat", "prompt", "responses", "texts"}
    with make_collection(tmp_path / "v", "validate") as made:
        rater = made.join()
        item = rater.items("grades")["items"][0]
        profile = made.project.items["grades"][0].profile[0]
        assert profile not in str(rater.items("grades"))
        path = f"/api/tasks/grades/profile?item={item['item']}"
        assert rater.http.get(path).status_code == 409
        three = {name: [3, 4] for name in ("factuality", "relevance", "helpfulness")}
        event = {"id": str(uuid.uuid4()), "kind": "answer", "task": "grades", "item": item["item"], "ratings": three}
        assert rater.send(event).json()["saved"]
        assert rater.items("grades")["done"] == 0
        assert rater.http.get(path).status_code == 200
        four = event | {"id": str(uuid.uuid4()), "ratings": three | {"personal fit": [1, 5]}}
        rater.send(four)
        assert rater.items("grades")["done"] == 1
        [answer] = made.store.collected(made.project).answers
        assert [answer.ratings["personal fit"][place] for place in answer.shown] == [1, 5]


@pytest.mark.parametrize("payload", HOSTILE)
def test_texts_are_never_live(payload: str) -> None:
    for markdown in (True, False):
        html = show(payload, markdown=markdown)
        assert not re.search(r"<(script|img|iframe|svg|style|form|input|object|embed)", html, re.IGNORECASE)
        assert not re.search(r"<[^>]*\son\w+=", html)
        assert not re.search(r'<a[^>]*href="(?!https?:|mailto:)', html)


def test_a_text_of_brackets_keeps_nobody_waiting() -> None:
    started = time.process_time()
    assert show("[" * 400_000, markdown=True).count("[") == 400_000
    assert time.process_time() - started < 2


def test_pages_are_closed(small: Collection) -> None:
    headers = small.client().get("/").headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"
    ann = small.join()
    for path in ("/t/pairs", "/consent"):
        page = ann.http.get(path).text
        assert not re.search(r"<script(?![^>]*\ssrc=)", page) and not re.search(r"\son\w+=|style=", page)


def test_another_host_name_is_refused(small: Collection) -> None:
    assert small.client().get("/", headers={"host": "evil.example"}).status_code == 421
    assert small.client().get("/", headers={"host": "127.0.0.1:9999"}).status_code == 200


def test_too_large_a_body_is_refused(small: Collection) -> None:
    ann = small.join()
    answer = ann.http.post("/api/events", content=b"x" * (MAX_BODY + 1), headers={"x-csrf-token": ann.csrf})
    assert answer.status_code == 413


def test_guessing_is_slowed_down(small: Collection) -> None:
    http = small.client()
    statuses = [http.post("/code", data={"code": f"AAAA-BBBB-{number:04}"}).status_code for number in range(25)]
    assert statuses[:20] == [403] * 20 and statuses[-1] == 429


def test_a_rate_limit_lets_through_what_it_says() -> None:
    limit = RateLimit(per_minute=60, burst=3)
    assert [limit.wait("ann") > 0 for _ in range(4)] == [False, False, False, True]
    assert limit.wait("bob") == 0


def test_wider_than_loopback_needs_an_address_and_warns_without_tls() -> None:
    with pytest.raises(PalateError, match="--url which address people type"):
        _hosts("http://0.0.0.0:8400", "0.0.0.0")
    with pytest.warns(UserWarning, match="without TLS"):
        assert "study.example.org" in _hosts("http://study.example.org", "0.0.0.0")
    assert "study.example.org" in _hosts("https://study.example.org", "0.0.0.0")
    assert CollectSettings().host == "127.0.0.1"


def test_ids_of_a_crowd_platform_are_hashed_on_arrival(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    with make_collection(folder, "compare") as made:
        pass
    file = folder / "project.toml"
    file.write_text(
        file.read_text() + '\n[crowd]\nparameter = "PROLIFIC_PID"\ncompletion = "https://crowd.example/cc"\n'
    )
    made = Collection(folder)
    [link] = invite(made.store, made.keys, crowd=True)
    assert made.client().get(link.path).status_code == 403
    for _ in range(2):
        assert "Before you start" in made.client().get(f"{link.path}?PROLIFIC_PID=worker-77").text
    assert len(_rows(made, participants)) == 1
    assert "worker-77" not in str(_rows(made, participants))
    made.store.close()


def test_a_full_group_is_told_so(tmp_path: Path) -> None:
    with make_collection(tmp_path / "study", "compare", people="1") as made:
        made.join(strata={"region": "north"})
        late = Person(made, strata={"region": "north"})
        assert "This study is full" in late.http.get("/consent").text
        assert "Before you start" in Person(made, strata={"region": "south"}).http.get("/consent").text


def test_withdrawing_erases_with_the_persons_own_link_alone(small: Collection) -> None:
    ann = small.join().answer_all()
    found = re.search(r'/withdraw/[^"]+', ann.http.get("/done").text)
    assert found is not None
    anybody = small.client()
    assert anybody.post(found[0][:-1] + "x").status_code == 403
    assert "cannot be undone" in anybody.get(found[0]).text
    assert anybody.post(found[0]).status_code == 200
    assert small.store.collected(small.project).participants == ()
    assert "Nothing is stored" in anybody.get(found[0]).text


def test_consent_is_recorded_with_its_version_and_asked_again_when_it_changes(small: Collection) -> None:
    ann = Person(small)
    assert ann.http.get("/api/tasks/pairs").status_code == 403
    ann.agree()
    assert small.store.collected(small.project).participants[0].consent == "1"
    file = small.folder / "project.toml"
    file.write_text(file.read_text().replace('[consent]\nversion = "1"', '[consent]\nversion = "2"'))
    newer = Collection(small.folder)
    newer.keys = small.keys
    http = newer.client()
    http.cookies.update(ann.http.cookies)
    assert "Version 2 of this text" in http.get("/").text
    newer.store.close()


@pytest.fixture
def widget(tmp_path: Path) -> Any:
    with make_collection(tmp_path / "study", "feedback") as made:
        yield made


FEEDBACK = {
    "key": "pk-example-feedback", "id": "feedback-1", "person": "browser-1234", "kind": "thumb", "prompt": "Why?",
    "responses": ["Because."], "up": True,
}  # fmt: skip


def test_the_widget_takes_feedback_from_its_pages_alone(widget: Collection) -> None:
    http = widget.client()
    right = {"origin": ADDRESS}
    for _ in range(2):
        answer = http.post("/api/widget", json=FEEDBACK, headers=right)
        assert answer.status_code == 200 and answer.headers["access-control-allow-origin"] == ADDRESS
    refused = [http.post("/api/widget", json=FEEDBACK | one, headers=right) for one in ({"prompt": "How?"}, {"id": ""})]
    assert [one.status_code for one in refused] == [409, 422]
    assert all(one.headers["access-control-allow-origin"] == ADDRESS for one in refused)  # the page may read why
    [given] = widget.store.collected(widget.project).answers
    assert given.thumb is True and given.task == "widget"
    assert http.post("/api/widget", json=FEEDBACK, headers={"origin": "https://evil.example"}).status_code == 403
    assert http.post("/api/widget", json=FEEDBACK).status_code == 403
    assert http.post("/api/widget", json=FEEDBACK | {"key": "pk-other-key"}, headers=right).status_code == 403
    preflight = http.options("/api/widget", headers={"origin": "https://evil.example"})
    assert "access-control-allow-origin" not in preflight.headers
    assert "browser-1234" not in str(_rows(widget, participants))
    forget = {"key": FEEDBACK["key"], "person": FEEDBACK["person"]}
    assert http.post("/api/widget/forget", json=forget, headers=right).status_code == 200
    assert widget.store.collected(widget.project).items == ()


def test_people_who_are_made_up_and_erased_do_not_keep_others_waiting(widget: Collection) -> None:
    http, right = widget.client(), {"origin": ADDRESS}
    codes = []
    for number in range(8):
        one = {"id": f"feedback-{number}", "person": f"made-up-{number}"}
        assert http.post("/api/widget", json=FEEDBACK | one, headers=right).status_code == 200
        forget = {"key": FEEDBACK["key"], "person": one["person"]}
        answer = http.post("/api/widget/forget", json=forget, headers=right)
        assert answer.headers["access-control-allow-origin"] == ADDRESS
        codes.append(answer.status_code)
    assert codes == [200] * 6 + [429] * 2 and int(answer.headers["retry-after"]) <= 20


def test_a_right_guess_waits_like_a_wrong_one(small: Collection) -> None:
    http, code = small.client(), invite(small.store, small.keys)[0].code
    for number in range(20):
        http.post("/code", data={"code": f"AAAA-BBBB-{number:04}"})
    assert http.post("/code", data={"code": code}).status_code == 429


@pytest.mark.parametrize("header", [{"origin": "http://[::1"}, {"origin": "null"}, {"content-length": "9" * 5000}])
def test_odd_headers_are_refused_and_no_fault(small: Collection, header: dict[str, str]) -> None:
    ann = Person(small)
    answer = ann.http.post("/consent", data={"csrf": ann.csrf, "agreed": "yes"}, headers=header)
    assert answer.status_code in (403, 413)


def test_grades_of_general_quality_stay_as_they_were_before_the_profile(tmp_path: Path) -> None:
    with make_collection(tmp_path / "study", "validate") as made:
        ann = made.join()
        task = made.project.tasks[0].name
        item = ann.items(task)["items"][0]
        general = ("factuality", "relevance", "helpfulness")

        def graded(grades: list[int], *names: str) -> dict[str, Any]:
            event = ann.choose(item, task=task, ratings=dict.fromkeys(names, grades))
            return {name: value for name, value in event.items() if name != "position"}

        ann.send(graded([2, 2], "factuality"))
        ann.send(graded([3, 3], *general))
        assert ann.http.get(f"/api/tasks/{task}/profile", params={"item": item["item"]}).status_code == 200
        undo = {"id": str(uuid.uuid4()), "kind": "undo", "task": task, "item": item["item"]}
        again = graded([5, 5], *general, "personal fit")
        for _ in range(2):
            assert ann.send(undo, again).json()["refused"] == []
        [answer] = made.store.collected(made.project).answers
        assert {answer.ratings[name] for name in general} == {(3, 3)} and answer.ratings["personal fit"] == (5, 5)


def test_a_free_text_is_no_group(tmp_path: Path) -> None:
    with make_collection(tmp_path / "study", "survey") as made:
        file = made.folder / "project.toml"
        file.write_text(file.read_text().replace("seed = 0", 'seed = 0\nstrata = ["annoys"]'))
        with pytest.raises(PalateError, match="'annoys' is a free text"):
            Collection(made.folder)


def test_a_group_that_is_taken_back_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    with make_collection(folder, "survey"):
        pass
    file = folder / "project.toml"
    file.write_text(file.read_text().replace("seed = 0", 'seed = 0\nstrata = ["age"]'))
    made = Collection(folder)
    try:
        ann, bob = made.join(), made.join(strata={"age": "60 or older"})
        for person in (ann, bob):
            event = {"id": str(uuid.uuid4()), "task": "about-you", "item": "age"}
            assert not person.send(event | {"kind": "survey", "value": "18 to 29"}).json()["refused"]
            assert not person.send(event | {"kind": "undo", "id": str(uuid.uuid4())}).json()["refused"]
        strata = {person.id: person.strata for person in made.store.collected(made.project).participants}
        assert strata == {ann.id: {}, bob.id: {"age": "60 or older"}}
        nothing = {"id": str(uuid.uuid4()), "kind": "undo", "task": "about-you", "item": "a\x00b"}
        assert len(ann.send(nothing).json()["refused"]) == 1
    finally:
        made.store.close()


def test_a_page_of_one_person_does_not_get_the_items_of_another_who_came_in_since(small: Collection) -> None:
    ann, bob = Person(small).agree(), Person(small).agree()
    own = ann.http.get("/api/tasks/pairs", headers={"x-csrf-token": ann.csrf})
    assert own.status_code == 200
    ann.http.cookies = bob.http.cookies
    assert ann.http.get("/api/tasks/pairs", headers={"x-csrf-token": ann.csrf}).status_code == 403
    assert ann.http.get("/api/tasks/pairs", headers={"x-csrf-token": ""}).status_code == 200


def test_a_link_in_which_a_platform_put_no_id_lets_nobody_in(collection: Collection) -> None:
    link = invite(collection.store, collection.keys, crowd=True)[0]
    token = link.path.removeprefix("/j/")
    for outside in ("{{%PROLIFIC_PID%}}", "${workerId}", "[ID]", "ASSIGNMENT_ID_NOT_AVAILABLE", " "):
        with pytest.raises(RefusedError, match="without your id"):
            enter_by_link(collection.store, collection.keys, token, outside)
    people = set()
    for outside in ("5f3c", " 5f3c ", "A-1_b@x.org"):
        session = enter_by_link(collection.store, collection.keys, token, outside)
        found = visitor(collection.store, collection.keys, session)
        assert found is not None
        people.add(found.participant)
    assert len(people) == 2
