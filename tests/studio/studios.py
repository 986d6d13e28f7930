"""A studio in a process of its own, and projects to try it with."""

import http.client
import json
import re
import subprocess
import sys
import time

import pytest

for _needed in ("starlette", "uvicorn", "langcodes", "rapidfuzz", "python_calamine"):
    pytest.importorskip(_needed, reason="needs the extra [studio]")


from nmt.studio.projects import Projects  # noqa: E402
from nmt.studio.reading import answer  # noqa: E402
from nmt.studio.texts import Rows, reading  # noqa: E402


class Studio:
    """One that runs for a folder."""

    def __init__(self, folder):
        self.folder = folder
        code = "from nmt.cli.entry import studio; studio()"
        command = [sys.executable, "-c", code, str(folder), "--no-browser"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, encoding="utf-8")
        said = self.process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/\?key=(\S+)", said)
        assert found, said + self.process.stderr.read()
        self.port, self.key = int(found[1]), found[2]
        self.cookie = f"nmt-studio-{self.port}={self.key}"

    def ask(self, method, path, body=None, raw=None, headers=None):
        """Status, headers and content of an answer."""
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        head = {"Cookie": self.cookie} | ({"Content-Type": "application/json"} if body is not None else {})
        link.request(method, path, raw if body is None else json.dumps(body), head | (headers or {}))
        answer = link.getresponse()
        content = answer.read()
        link.close()
        return answer.status, answer.headers, content

    def __call__(self, method, path, body=None, raw=None, status=200):
        """The JSON of an answer of this status."""
        got, _, content = self.ask(method, f"/studio/{path}", body, raw)
        assert got == status, content
        return json.loads(content)

    def make(self, name="A project", **files):
        """A project with files, read."""
        one = self("POST", "projects", {"name": name})["id"]
        for file, content in files.items():
            self.add(one, file, content)
        return one

    def add(self, project, name, content):
        """The text of a file, read."""
        one = self("POST", f"projects/{project}/texts?name={name}", raw=content)["id"]
        whole = self.rest(project)
        return next(text for text in whole["texts"] if text["id"] == one)

    def rest(self, project, seconds=120):
        """The project when nothing is done for it."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            found = self("GET", f"projects/{project}")
            if not any(job["state"] == "running" for job in found["jobs"]):
                return found
            time.sleep(0.05)
        raise AssertionError(found["jobs"])

    def end(self):
        """Its exit code after it is asked to end."""
        if self.process.poll() is None:
            self("POST", "quit", {})
        code = self.process.wait(90)
        self.process.stderr.close()
        return code


def read_here(folder, name, content, langs=(None, None), **how):
    """A project with a file, read in this process; its entry is changed by `how` before."""
    folder.mkdir(exist_ok=True)
    project = Projects(folder).make("A")
    project.change({"sides": [{"lang": lang, "name": ""} for lang in langs]})
    aside = folder / "aside"
    aside.write_bytes(content)
    number = project.add(name, aside)["id"]
    with project.changing_text(number) as entry:
        entry |= how
    answer(reading(project, number))
    return project


def shown(project, number=1):
    """A text as the page sees it."""
    return Rows(project, project.text(number)).view()


def rows_of(project, number=1):
    """All rows of a text."""
    return list(Rows(project, project.text(number)).each())


def table(rows, separator="\t", heading=None):
    """Rows as the bytes of a table."""
    lines = ([heading] if heading else []) + [separator.join(map(str, row)) for row in rows]
    return ("\n".join(lines) + "\n").encode()


GERMAN = "Haus Baum Hund Katze Tisch Wasser Brot Straße Stadt Garten Fenster Schule Lehrer Mutter Vater".split()
ENGLISH = "house tree dog cat table water bread street town garden window school teacher mother father".split()


def pairs(count, start=0):
    """Sentences of two languages that translate one another, all different."""
    found = []
    for number in range(start, start + count):
        one, two = number % 15, number // 15 % 15
        german = f"Der {GERMAN[one]} ist nicht weit von {GERMAN[two]} Nummer {number}"
        found.append((german, f"The {ENGLISH[one]} is not far from {ENGLISH[two]} number {number}"))
    return found
