"""Nobody but the studio's own page reaches it, and no name leads out of a project."""

import asyncio
import json
import random
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs the extra [studio]")

from nmt.studio.app import ROUTES
from nmt.studio.projects import Projects, safe_name
from nmt.studio.server import Guard
from nmt.studio.texts import reading, remove
from tests.studio.studios import pairs, read_here, table

PORT, KEY = 4000, "secret"
HOST, COOKIE = ("host", "127.0.0.1:4000"), ("cookie", "other=1; nmt-studio-4000=secret")
PATHS = sorted({(method, path) for method, path, _ in ROUTES})
PATHS += [("GET", "/try/"), ("POST", "/try/api/learn"), ("POST", "/try/translate")]
ATTACKS = {
    "no cookie": ([HOST], 403),
    "a wrong key": ([HOST, ("cookie", "nmt-studio-4000=x")], 403),
    "the key of another port": ([HOST, ("cookie", "nmt-studio-4001=secret")], 403),
    "two keys": ([HOST, ("cookie", "nmt-studio-4000=secret; nmt-studio-4000=x")], 403),
    "the key as a header": ([HOST, ("authorization", "Bearer secret")], 403),
    "no host": ([COOKIE], 421),
    "another name (DNS rebinding)": ([("host", "evil.example:4000"), COOKIE], 421),
    "another port": ([("host", "127.0.0.1:4001"), COOKIE], 421),
    "no port": ([("host", "127.0.0.1"), COOKIE], 421),
    "an address of the network": ([("host", "192.168.1.5:4000"), COOKIE], 421),
    "two hosts": ([HOST, ("host", "evil.example:4000"), COOKIE], 421),
    "another site": ([HOST, COOKIE, ("origin", "http://evil.example")], 403),
    "another port's page": ([HOST, COOKIE, ("origin", "http://127.0.0.1:5000")], 403),
    "another name's page": ([HOST, COOKIE, ("origin", "http://localhost:4000")], 403),
    "a file's page": ([HOST, COOKIE, ("origin", "null")], 403),
    "two origins": ([HOST, COOKIE, ("origin", "http://127.0.0.1:4000"), ("origin", "http://evil.example")], 403),
    "a link of another site": ([HOST, COOKIE, ("sec-fetch-site", "cross-site")], 403),
    "a page of another port": ([HOST, COOKIE, ("sec-fetch-site", "same-site")], 403),
}


def asked(method, path, headers, query=b""):
    """Status and headers of the guard's answer, and what has reached the application."""
    reached, sent = [], []

    async def app(scope, receive, send):
        reached.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def send(message):
        sent.append(message)

    raw = [(name.encode(), value.encode()) for name, value in headers]
    scope = {"type": "http", "method": method, "path": path, "headers": raw, "query_string": query}
    asyncio.run(Guard(app, PORT, KEY)(scope, None, send))
    return sent[0]["status"], {name.decode(): value.decode() for name, value in sent[0]["headers"]}, reached


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_reaches_no_route(name):
    headers, status = ATTACKS[name]
    for method, path in PATHS:
        for query in (b"", b"key=wrong"):
            got, answer, reached = asked(method, path, headers, query)
            assert (got, reached) == (status, []), path
            assert not [one for one in answer if one.startswith("access-control") or one == "set-cookie"]


def test_the_own_page_reaches_every_route_and_others_may_not_ask():
    own = [HOST, COOKIE, ("origin", "http://127.0.0.1:4000"), ("sec-fetch-site", "same-origin")]
    for method, path in PATHS:
        status, answer, reached = asked(method, path, own)
        assert (status, reached) == (200, [path])
        assert "frame-ancestors 'self'" in answer["content-security-policy"]
        assert asked("OPTIONS", path, own)[0] == 405
    status, answer, reached = asked("GET", "/", [HOST], b"key=secret")
    assert (status, reached, answer["location"]) == (303, [], "/")
    assert answer["set-cookie"] == "nmt-studio-4000=secret; Path=/; HttpOnly; SameSite=Strict"


def names():
    """Names by which files could be written elsewhere, or nowhere."""
    random_ = random.Random(1)
    parts = ["..", "/", "\\", "C:", "\0", "CON", "nul.txt", "~", "%2e%2e", "a" * 300, "ᎠᎹ", "é", " ", ".", "\n", "$(x)"]
    parts += ["\u202e", "com1", ":stream", "*", "<b>", "\ud800", "😀" * 80]
    return parts + ["".join(random_.choices(parts, k=random_.randint(2, 5))) for _ in range(180)]


def test_no_name_leads_out_of_a_folder(tmp_path):
    projects = Projects(tmp_path / "in" / "projects")
    projects.folder.mkdir(parents=True)
    for name in names():
        safe = safe_name(name)
        assert Path(safe).name == safe and safe.strip(" .") == safe and len(safe.encode()) < 200
        assert not set(safe) & set('/\\:*?"<>|\0\n') and safe.split(".")[0].upper() not in ("CON", "NUL", "COM1")
        (tmp_path / "in" / f"001-{safe}").write_text("")
        if name.strip() and len(name) <= 120:
            assert projects.make(name).folder.parent == projects.folder
    assert [one.name for one in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize(
    "path", ["..%2f..%2fsecret", "..", "%2e%2e/secret", "C:%5Cx", "%00", "a/../../x", "strings/../../app.py"]
)
def test_no_address_leads_out_of_a_folder(studio, path):
    (studio.folder / "secret").write_text("secret")
    project = studio.make("Paths")
    own = f"/studio/projects/{project}"
    for before in ("/page/", f"{own}/shared/", "/studio/projects/", f"{own}/texts/"):
        status, _, content = studio.ask("GET", before + path)
        assert status == 404 and b"secret" not in content and b"import" not in content


def test_bodies_must_be_json_and_files_of_a_size(studio, monkeypatch):
    project = studio.make("Bodies")
    for headers, raw, status in (
        ({"Content-Type": "text/plain"}, b"{}", 415),
        ({"Content-Type": "application/json"}, b"[1]", 415),
        ({"Content-Type": "application/json"}, b'{"name": ' + b"[" * 100_000, 415),
        ({"Content-Type": "application/json"}, b" " * 2**21, 413),
    ):
        got, _, content = studio.ask("POST", f"/studio/projects/{project}", None, raw, headers)
        assert got == status and json.loads(content)["error"]["code"] in ("not-json", "too-large")
    length = {"Content-Length": str(2**40)}
    assert studio.ask("POST", f"/studio/projects/{project}/texts?name=a.tsv", None, b"", length)[0] == 413
    for given in ({"sides": [1, 2]}, {"direction": [0, 0]}, {"purpose": "x"}, {"name": ""}, {"texts": []}, {"name": 3}):
        assert studio("POST", f"projects/{project}", given, status=400)["error"]["code"] == "bad-request"


def test_a_foreign_project_names_no_file_outside_of_it(tmp_path):
    (tmp_path / "secret.tsv").write_bytes(table(pairs(40)))
    project = read_here(tmp_path / "in", "a.tsv", table(pairs(30)))
    with project.changing_text(1) as entry:
        entry["file"] = "../../../secret.tsv"
    assert Path(reading(project, 1)["file"]).parent == project.folder / "texts"
    remove(project, 1)
    assert (tmp_path / "secret.tsv").is_file() and project.values["texts"] == []
