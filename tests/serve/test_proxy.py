"""The block for nginx in docs/operating.md, as it stands there."""

import json
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from tests.serve.test_protocols import multipart
from tests.waiting import until

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
        done = subprocess.run(["curl", "-s", *arguments], capture_output=True, check=False, timeout=60)
        return done.stdout

    try:
        until(lambda: ask(f"{there}/mt/health") == b'{"status":"ok"}')
        assert b"<html" in ask(f"{there}/mt/") and b"308" in ask("-w", "%{http_code}", f"{there}/mt")
        fields = {"q": lines[0], "source": "en", "target": "de"}
        kind = "Content-Type: application/json"
        answer = json.loads(ask("-H", kind, "-d", json.dumps(fields), f"{there}/mt/translate"))
        assert answer["translatedText"] == expected[lines[0]]
        assert json.loads(ask(f"{there}/mt/spec"))["servers"] == [{"url": f"{there}/mt"}]
        form, headers = multipart(
            "a.txt", b"x " * 2_000_000, source="en", target="xx"
        )  # more than nginx takes of itself
        (tmp_path / "form").write_bytes(form)
        kind = f"Content-Type: {headers['Content-Type']}"
        answer = ask("-H", kind, "--data-binary", f"@{tmp_path / 'form'}", f"{there}/mt/translate_file")
        assert "xx is not supported" in json.loads(answer)["error"]
        form, headers = multipart("a.txt", lines[0].encode(), source="en", target="de")
        (tmp_path / "form").write_bytes(form)
        answer = ask("-H", kind, "--data-binary", f"@{tmp_path / 'form'}", f"{there}/mt/translate_file")
        address = json.loads(answer)["translatedFileUrl"]
        assert address.startswith(f"{there}/mt/download_file/")
        assert ask(address).decode().strip() == expected[lines[0]].strip()
    finally:
        proxy.terminate()
        proxy.wait(30)
