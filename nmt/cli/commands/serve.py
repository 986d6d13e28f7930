"""nmt-serve: serve trained models over HTTP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from nmt.cli.options.command import (
    ByteSize,
    Command,
    FiniteRange,
    cells_option,
    checkpoint_option,
    compute_dtype_option,
    flag,
    require_extra,
    threads_option,
)
from nmt.cli.options.path_types import INPUT, reads
from nmt.errors import most_like


@click.command(cls=Command, context_settings={"auto_envvar_prefix": "NMT_SERVE"})
@click.argument("models", metavar="MODEL...", nargs=-1, required=True, type=INPUT, envvar="NMT_SERVE_MODELS")
@click.option("--host", default="127.0.0.1", help="Address to listen on; 0.0.0.0 for the whole network.")
@click.option("--port", type=click.IntRange(0, 65535), default=5000, help="Port to listen on; 0 for any free one.")
@threads_option
@checkpoint_option
@compute_dtype_option
@flag("--shortlist", text="Restrict the output vocabulary of each sentence to the shortlist from nmt-shortlist.")
@click.option(
    "--split/--no-split", default=True, help="Split paragraphs into sentences, or treat each line as one sentence."
)
@click.option(
    "--pivot/--no-pivot",
    default=True,
    help="Translate through a third language, by two models, where no model has the pair.",
)
@flag(
    "--learn",
    text="Learn from confirmed translations, and keep them in a memory next to each model; see docs/learning.md.",
)
@click.option(
    "--cache",
    metavar="BYTES",
    type=ByteSize(0),
    default="64M",
    help="Memory for translations of sentences that came before, such as 64M; 0 turns it off.",
)
@reads("--keys", text="Require an API key: one key per line, with an optional tab and its requests per minute.")
@click.option(
    "--allow-origin",
    metavar="ORIGIN",
    multiple=True,
    help="Let web pages of another origin translate, such as https://app.example; * is every page.",
)
@click.option(
    "--allow-host",
    metavar="NAME",
    multiple=True,
    help="Answer to this name, such as that of a proxy; on 127.0.0.1 only to names of this machine and these.",
)
@click.option("--requests-per-minute", type=click.IntRange(0), default=0, help="Limit per client; 0 is no limit.")
@click.option("--max-characters", type=click.IntRange(0), default=50_000, help="Characters per request; 0 is no limit.")
@click.option("--max-texts", type=click.IntRange(0), default=1_000, help="Texts per request; 0 is no limit.")
@click.option("--max-alternatives", type=click.IntRange(0, 100), default=4, help="Alternatives per text.")
@click.option(
    "--max-body", metavar="BYTES", type=ByteSize(1), default="2M", help="Size limit of a request without a file."
)
@click.option(
    "--max-file", metavar="BYTES", type=ByteSize(1), default="20M", help="Size limit of a request with a file."
)
@click.option(
    "--max-waiting",
    type=click.IntRange(1),
    default=20_000,
    help="Sentences that may wait in the queue; further requests get a 503, and files wait.",
)
@click.option(
    "--timeout", metavar="SECONDS", type=FiniteRange(0), default=300.0, help="Time limit of a request; 0 is no limit."
)
@click.option(
    "--file-timeout",
    metavar="SECONDS",
    type=FiniteRange(0),
    default=3600.0,
    help="Time limit of a request with a file; 0 is no limit.",
)
@flag("--log-texts", text="Also write source texts to the log.")
@cells_option
def serve(models: tuple[str, ...], **options: Any) -> None:
    """Serve translations over HTTP: a web page and an API.

    MODELs are folders of nmt-train or files of nmt-bundle. Each model's settings give its languages. The first model of
    a language pair is its default; others are requested by name. SIGHUP reloads all models and keys without losing
    requests.

    The web page is at http://HOST:PORT/ and the API at /spec: LibreTranslate's, DeepL's version 2, and the routes of
    OPUS-CAT and Moses (OmegaT). /health, /ready and /metrics are for the operator. Logs are JSON lines on stderr, on a
    terminal plain lines.

    Each option can also be set by an environment variable, such as NMT_SERVE_PORT for --port, and MODELs by
    NMT_SERVE_MODELS; flags take 1 or 0, and several values are separated by spaces. The command line takes precedence.

    docs/operating.md explains how to run it in production.

    \b
    Examples:
        nmt-serve runs/de-en
        nmt-serve runs/de-en --learn
        nmt-serve de-en.nmt en-de.nmt --compute-dtype int8 --port 8080 --keys keys.txt
    """
    require_extra("serve", "langcodes", "prometheus_client", "python_multipart", "starlette", "uvicorn")
    from nmt.rnn.cores import usable_threads
    from nmt.serve.server import serve as run
    from nmt.serve.settings import Limits, ServerSettings

    limits = Limits(
        characters=options.pop("max_characters"),
        texts=options.pop("max_texts"),
        alternatives=options.pop("max_alternatives"),
        requests_per_minute=options.pop("requests_per_minute"),
        body_bytes=options.pop("max_body"),
        file_bytes=options.pop("max_file"),
        seconds=options.pop("timeout"),
        file_seconds=options.pop("file_timeout"),
        waiting=options.pop("max_waiting"),
    )
    options["threads"] = usable_threads(options["threads"])  # all that are left are named as `ServerSettings` has them
    run(ServerSettings(tuple(map(Path, models)), limits=limits, **options), _unknown_variables())


def _unknown_variables() -> list[str]:
    """Return a warning for each variable of the environment that looks like one of this command and is none."""
    prefix = "NMT_SERVE_"
    known = [(param.name or "").upper() for param in serve.params]
    found = []
    for name in sorted(os.environ):
        if name.startswith(prefix) and (rest := name.removeprefix(prefix)) not in known:
            advice = f"; did you mean {prefix}{close}?" if (close := most_like(rest, known)) else ""
            found.append(f"{name}: is no variable of nmt-serve{advice}")
    return found
