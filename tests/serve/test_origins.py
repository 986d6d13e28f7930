"""Which web pages may use a server, and by which names: what a browser sends of a page, and what clients send that are
no browsers."""

import json
import re
import shutil
import socket
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest

from nmt.cli.commands.serve import serve
from nmt.cli.options.command import Refusal
from nmt.errors import ConfigError
from nmt.serve.settings import Origins, RequestError, ServerSettings
from tests.refusals import refused
from tests.serve.servers import multipart, running
from tests.waiting import until

EVIL = "http://evil.example"
PAIR = {"source": "en", "target": "de"}


@pytest.fixture(scope="module")
def allows(folder):
    origins = ["--allow-origin", "https://APP.example:443/", "--allow-origin", "chrome-extension://abcd"]
    with running(folder, "--no-split", *origins, "--allow-host", "mt.example.org") as one:
        yield one


@pytest.fixture(scope="module")
def keyed(folder, tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text("secret\n")
    keys.chmod(0o600)
    with running(folder, "--no-split", "--keys", keys) as one:
        yield one


def of_page(origin, site=None):
    return ({"Origin": origin} if origin else {}) | ({"Sec-Fetch-Site": site} if site else {})


def foreign(server):
    """The headers of requests of pages that are not the server's."""
    return [
        of_page(EVIL, "cross-site"),
        of_page(EVIL),
        of_page("null", "cross-site"),
        of_page("null"),
        of_page(f"http://127.0.0.1:{server.port + 1}", "same-site"),
        of_page(f"http://127.0.0.1:{server.port + 1}"),
        of_page("http://127.0.0.1"),
        of_page(f"http://localhost:{server.port}"),
        of_page(f"http://127.0.0.1:{server.port}.evil.example"),
        of_page(f"ftp://127.0.0.1:{server.port}"),
        of_page(f"{server.url}@evil.example"),
        of_page(f"{server.url} {EVIL}"),
        of_page("", "cross-site"),
        of_page("", "same-site"),
        of_page("", "nonsense"),
    ]


def own(server):
    """The headers of requests of the server's page, and of clients that are no browsers."""
    return [
        {},
        of_page(server.url),
        of_page(server.url, "same-origin"),
        of_page(server.url.upper().replace("HTTP", "http")),
        of_page("", "none"),
        of_page("null", "same-origin"),  # a form without JavaScript, of pages that send no address
        {"Host": f"localhost:{server.port}"} | of_page(f"http://localhost:{server.port}"),
        {"Host": "localhost"} | of_page("http://localhost"),
        {"Host": "localhost:443"} | of_page("https://localhost"),  # a proxy that speaks TLS
        {"Host": f"[::1]:{server.port}"} | of_page(f"http://[::1]:{server.port}"),
    ]


def routes(line):
    """Requests that translate, teach, and read files: path, body, headers."""
    form, kind = multipart("a.txt", line.encode(), **PAIR)
    return [
        ("/translate", PAIR | {"q": line}, {}),
        ("/v2/translate", {"text": [line], "target_lang": "DE"}, {}),
        (f"/v2/translate?text={quote(line)}&target_lang=DE", None, {}),
        (f"/MTRestService/TranslateJson?input={quote(line)}&srcLangCode=en&trgLangCode=de", None, {}),
        ("/api/sentences", PAIR | {"q": line}, {}),
        ("/api/models", None, {}),
        ("/translate_file", form, kind),
        ("/api/file", form, kind),
        ("/v2/usage", None, {}),
    ]


def test_own_pages_and_programs_use_a_server_without_keys(learns, lines):
    for headers in own(learns):
        for path, body, kind in routes(lines[0]):
            status, told, content = learns.ask(path, body, headers=headers | kind)
            assert status == 200, (path, headers, content)
            assert not [name for name in told if name.lower().startswith("access-control-")]
        fields = PAIR | {"q": lines[0], "translation": lines[1]}
        number = learns.json("/api/learn", fields, headers=headers)["number"]
        assert learns.json("/api/undo", PAIR | {"number": number}, headers=headers)["state"] == "undone"


def test_pages_of_others_neither_read_nor_teach(learns, lines):
    before = learns.json("/api/learning?source=en&target=de")
    for headers in foreign(learns):
        for path, body, kind in [
            *routes(lines[0]),
            ("/api/learn", PAIR | {"q": lines[0], "translation": lines[1]}, {}),
            ("/suggest", PAIR | {"q": lines[0], "s": lines[1]}, {}),
            ("/api/undo", PAIR | {"number": 1}, {}),
            ("/api/resume", PAIR, {}),
            ("/api/matches", PAIR | {"q": lines[0]}, {}),
            ("/api/learning?source=en&target=de", None, {}),
            ("/api/learn/", b'{"q": "a", "translation": "b", "target": "de"}', {"Content-Type": "text/plain"}),
            ("/v2/glossaries", None, {}),
            ("/api/nowhere", None, {}),
        ]:
            status, told, content = learns.ask(path, body, headers=headers | kind)
            assert status == 403 and b"must be this server's" in content, (path, headers, content)
            assert not [name for name in told if name.lower().startswith("access-control-")]
        preflight = headers | {"Access-Control-Request-Method": "POST"}
        status, told, _ = learns.ask("/api/learn", method="OPTIONS", headers=preflight)
        assert status == 403 and "Access-Control-Allow-Origin" not in told
        for path in ("/", "/page.js", "/health"):  # a link to the page; a script cannot read it
            status, told, _ = learns.ask(path, headers=headers)
            assert status == 200 and "Access-Control-Allow-Origin" not in told
    assert learns.json("/api/learning?source=en&target=de") == before
    assert learns.ask("/translate", method="OPTIONS")[0] == 204  # of no page


def test_forms_of_the_page_tell_whose_they_are(server):
    """By the policy no-referrer a browser sends `Origin: null` for a form, also to the page's own server."""
    assert server.ask("/")[1]["Referrer-Policy"] == "same-origin"


def test_a_translated_file_is_fetched_by_its_link(learns, lines):
    form, kind = multipart("a.txt", lines[0].encode(), **PAIR)
    url = learns.json("/api/file", form, headers=kind)["url"]
    assert learns.ask(f"/{url}", headers=of_page("", "cross-site"))[0] == 200


def test_two_origins_are_none(learns):
    for name in ("Origin", "Sec-Fetch-Site"):
        value = {"Origin": learns.url, "Sec-Fetch-Site": "same-origin"}[name]
        head = f"GET /languages HTTP/1.1\r\nHost: 127.0.0.1:{learns.port}\r\nConnection: close\r\n"
        once = learns.send(f"{head}{name}: {value}\r\n\r\n".encode())
        twice = learns.send(f"{head}{name}: {value}\r\n{name}: {value}\r\n\r\n".encode())
        assert once.startswith(b"HTTP/1.1 200") and twice.startswith(b"HTTP/1.1 403")


def test_another_name_of_the_server_is_refused_on_loopback(server):
    """A page whose name was made to lead to this machine: to the browser it is of the same origin."""
    port = server.port
    names = "evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "192.168.0.1", "evil@127.0.0.1"
    others = "evil.example", f"127.0.0.1:{port}:{port}", "127.0.0.1:http", "0.0.0.0", "[fe80::1]", "::1", ""
    for host in (*(f"{name}:{port}" for name in names), *others):
        for path in ("/", "/languages", "/health", "/translate", "/api/models"):
            headers = {"Host": host} | of_page(f"http://{host}", "same-origin")
            status, told, content = server.ask(path, headers=headers)
            assert status == 421 and "Access-Control-Allow-Origin" not in told, (host, content)
            assert b"--allow-host" in content and content.count(b"\n") == 0
    for host in ("127.0.0.1", f"LocalHost:{port}", "localhost.:1", "127.8.9.1:99", "[::1]", f"[::1]:{port}"):
        assert server.json("/languages", headers={"Host": host})


def test_allowed_origins_read_plain_translations_alone(allows, lines):
    for origin in ("https://app.example", "chrome-extension://abcd"):
        headers = of_page(origin, "cross-site")
        for path, body, kind in routes(lines[0]):
            status, told, content = allows.ask(path, body, headers=headers | kind)
            assert status == (403 if "file" in path else 200), (path, content)
            if status == 200:
                assert told["Access-Control-Allow-Origin"] == origin and told["Vary"] == "Origin"
        for path in ("/suggest", "/v2/document", "/v2/glossaries", "/download_file/a", "/api/learn"):
            assert allows.refused(path, {}, headers=headers)[0] == 403
        preflight = headers | {"Access-Control-Request-Method": "POST"}
        preflight |= {"Access-Control-Request-Headers": "content-type"}
        status, told, _ = allows.ask("/translate", method="OPTIONS", headers=preflight)
        assert status == 204 and told["Access-Control-Allow-Origin"] == origin
        assert "Content-Type" in told["Access-Control-Allow-Headers"] and told["Access-Control-Max-Age"] == "86400"
        status, told, _ = allows.ask("/translate_file", method="OPTIONS", headers=preflight)
        assert status == 403
    for headers in [*foreign(allows), of_page("http://app.example"), of_page("https://app.example:8443")]:
        status, told, _ = allows.ask("/translate", PAIR | {"q": lines[0]}, headers=headers)
        assert status == 403 and "Access-Control-Allow-Origin" not in told
    own = {"Host": "MT.example.org"} | of_page("https://mt.example.org")
    assert allows.json("/translate", PAIR | {"q": lines[0]}, headers=own)
    assert allows.ask("/", headers={"Host": "other.example.org"})[0] == 421


def test_every_page_may_translate_if_the_operator_says_so(folder, lines):
    with running(folder, "--no-split", "--allow-origin", "*", "--host", "0.0.0.0") as any_page:
        for headers in foreign(any_page):
            status, told, _ = any_page.ask("/translate", PAIR | {"q": lines[0]}, headers=headers)
            assert status == 200 and told["Access-Control-Allow-Origin"] == "*"
            form, kind = multipart("a.txt", b"a", **PAIR)
            assert any_page.refused("/api/file", form, headers=headers | kind)[0] == 403
        assert any_page.json("/languages", headers={"Host": "any.example"})  # 0.0.0.0 has any names


def test_keys_decide_where_there_are_any(keyed, lines):
    """A page that has no key gets nothing; one that has it may be anywhere, as with LibreTranslate."""
    form, kind = multipart("a.txt", b"a", **PAIR)
    for headers in foreign(keyed):
        told = keyed.refused("/translate", PAIR | {"q": lines[0]}, headers=headers)
        assert told == (403, "api_key: must be a key of this server, got none; ask its operator for one")
        status, told, _ = keyed.ask("/translate", PAIR | {"q": lines[0], "api_key": "secret"}, headers=headers)
        assert status == 200 and told["Access-Control-Allow-Origin"] == "*"
        with_key = headers | kind | {"Authorization": "Bearer secret"}
        assert keyed.json("/translate_file", form, headers=with_key)
        assert keyed.ask("/translate", method="OPTIONS", headers=headers)[0] == 204
    assert keyed.ask("/translate", headers={"Host": "evil.example"})[0] == 421


@pytest.mark.parametrize(
    "origin", ["", "app.example", "https://", "https://app.example/mt", "null", "https://a b", "https://bücher.example"]
)
def test_an_origin_that_is_none_is_one_line(origin):
    line = r"^--allow-origin: must be an origin such as .*; give"
    refused(ConfigError, line, ServerSettings, (), allow_origin=(origin,))


@pytest.mark.parametrize("name", ["", "http://mt.example", "mt.example:80", "mt.example/a", "a b", "bücher"])
def test_a_host_that_is_no_name_is_one_line(name):
    refused(ConfigError, r"^--allow-host: must be a name such as .*; give it", ServerSettings, (), allow_host=(name,))


def test_an_option_that_is_wrong_ends_before_models_are_loaded():
    with pytest.raises(Refusal, match="--allow-origin: must be an origin"):
        serve.main(["nowhere", "--allow-origin", "app.example"], standalone_mode=False)


def test_a_listed_name_guards_other_addresses(folder):
    def status(origins, host):
        scope = {"headers": [(b"host", host.encode())], "path": "/translate", "method": "POST", "http_version": "1.1"}
        try:
            origins.admit(scope, False)
        except RequestError as error:
            return error.status
        return 200

    free, named = Origins("0.0.0.0"), Origins("0.0.0.0", hosts=["mt.example.org", "10.0.0.7"])
    assert [status(free, name) for name in ("mt.example.org", "evil")] == [200, 200]
    assert [status(named, name) for name in ("mt.example.org:80", "10.0.0.7", "127.0.0.1:5000")] == [200] * 3
    assert status(named, "evil") == 421
    for host in ("::1", "localhost", "127.0.0.9", "LOCALHOST"):
        assert status(Origins(host), "evil") == 421 and status(Origins(host), "localhost:1") == 200


NGINX = shutil.which("nginx")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "operating.md"
HEAD = """
daemon off; master_process off; pid {0}/pid; error_log {0}/error; events {{}}
http {{ access_log off; client_body_temp_path {0}/a; proxy_temp_path {0}/b; fastcgi_temp_path {0}/c;
uwsgi_temp_path {0}/d; scgi_temp_path {0}/e; server {{ listen 127.0.0.1:{1};
"""


def blocks():
    return re.findall(r"```nginx\n(.*?)```", PAGE.read_text("utf-8"), re.S)


def test_there_is_one_block_and_it_names_the_port_of_the_server():
    (block,) = blocks()
    assert "http://127.0.0.1:5000/;" in block


@pytest.mark.skipif(NGINX is None, reason="needs nginx")
def test_the_block_passes_on_what_the_server_needs(server, lines, expected, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    block = blocks()[0].replace(":5000/", f":{server.port}/")
    path = tmp_path / "nginx.conf"
    path.write_text(HEAD.format(tmp_path, port) + block + "}}\n")
    proxy = subprocess.Popen([NGINX, "-c", path, "-p", tmp_path, "-e", tmp_path / "error"])
    there = f"http://127.0.0.1:{port}"

    def ask(*arguments):
        return subprocess.run(["curl", "-s", *arguments], capture_output=True, check=False, timeout=60).stdout

    try:
        until(lambda: ask(f"{there}/mt/health") == b'{"status":"ok"}')
        assert b"<html" in ask(f"{there}/mt/") and b"308" in ask("-w", "%{http_code}", f"{there}/mt")
        fields = {"q": lines[0], "source": "en", "target": "de"}
        kind = "Content-Type: application/json"
        answer = json.loads(ask("-H", kind, "-d", json.dumps(fields), f"{there}/mt/translate"))
        assert answer["translatedText"] == expected[lines[0]]
        assert json.loads(ask(f"{there}/mt/spec"))["servers"] == [{"url": f"{there}/mt"}]

        def send(content, target):
            form, headers = multipart("a.txt", content, source="en", target=target)
            (tmp_path / "form").write_bytes(form)
            kind = f"Content-Type: {headers['Content-Type']}"
            return json.loads(ask("-H", kind, "--data-binary", f"@{tmp_path / 'form'}", f"{there}/mt/translate_file"))

        assert "xx is not supported" in send(b"x " * 2_000_000, "xx")["error"]  # more than nginx takes of itself
        address = send(lines[0].encode(), "de")["translatedFileUrl"]
        assert address.startswith(f"{there}/mt/download_file/")
        assert ask(address).decode().strip() == expected[lines[0]].strip()
    finally:
        proxy.terminate()
        proxy.wait(30)
