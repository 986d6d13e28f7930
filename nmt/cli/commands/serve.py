"""nmt-serve: trained models as a service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nmt.cli.options.command import (
    Command,
    FiniteRange,
    cells_option,
    checkpoint_option,
    compute_dtype_option,
    threads_option,
    version_option,
)
from nmt.cli.options.path_types import InputPath


@click.command(cls=Command, context_settings={"show_default": True})
@click.argument("models", metavar="MODEL...", nargs=-1, required=True, type=InputPath())
@click.option("--host", default="127.0.0.1", help="Address to listen on; 0.0.0.0 for the whole network.")
@click.option("--port", type=click.IntRange(0, 65535), default=5000, help="Port to listen on; 0 for any free one.")
@threads_option()
@checkpoint_option()
@compute_dtype_option()
@click.option("--shortlist", is_flag=True, help="Choose among the words that nmt-shortlist found for each sentence.")
@click.option("--split/--no-split", default=True, help="Cut paragraphs into sentences, or take each line as one.")
@click.option(
    "--keys",
    type=InputPath(),
    metavar="FILE",
    help="Answer only who has a key: lines of a key, and a tab and requests a minute.",
)
@click.option("--requests-per-minute", type=click.IntRange(0), default=0, help="Of a client; 0 is no limit.")
@click.option("--max-characters", type=click.IntRange(0), default=50_000, help="Of a request; 0 is no limit.")
@click.option("--max-texts", type=click.IntRange(0), default=1_000, help="Of a request; 0 is no limit.")
@click.option("--max-alternatives", type=click.IntRange(0, 100), default=4, help="Of a text.")
@click.option(
    "--max-body", metavar="BYTES", type=click.IntRange(1), default=2 * 2**20, help="Of a request without file."
)
@click.option(
    "--max-file", metavar="BYTES", type=click.IntRange(1), default=20 * 2**20, help="Of a request with a file."
)
@click.option("--max-waiting", type=click.IntRange(1), default=20_000, help="Sentences that may wait; then 503.")
@click.option("--timeout", metavar="SECONDS", type=FiniteRange(0), default=300.0, help="For a request; 0 is no limit.")
@click.option(
    "--file-timeout", metavar="SECONDS", type=FiniteRange(0), default=3600.0, help="For a request with a file."
)
@click.option("--log-texts", is_flag=True, help="Write source texts into the log, too.")
@cells_option()
@version_option()
def serve(models: tuple[str, ...], **options: Any) -> None:
    """Answer requests for translations by MODELs, folders of nmt-train or files of nmt-bundle, until SIGTERM.

    Languages are those of each model's settings. The first model of a pair is its default; others are asked for by
    name. SIGHUP loads all models and keys anew, and no request is lost.

    The page is at http://HOST:PORT/, the API at /docs: LibreTranslate's, DeepL's version 2, and the routes of OPUS-CAT
    and OpenNMT-py. /health, /ready and /metrics are for who runs it. The log goes to stderr, a JSON object a line.

    How to run it in earnest is told in docs/serving.md.

    \b
    Examples:
        nmt-serve runs/de-en
        nmt-serve de-en.nmt en-de.nmt --compute-dtype int8 --port 8080 --keys keys.txt
    """
    from nmt.errors import NMTError

    try:
        import langcodes  # noqa: F401 - all of the extra, or a line that says what to do
        import prometheus_client  # noqa: F401
        import python_multipart  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise NMTError(
            f"nmt-serve: must have the libraries of the extra [serve], got no {error.name}; "
            "pip install 'recurrent-nmt[serve]'"
        ) from None
    from nmt.rnn.cores import usable_threads
    from nmt.serve.server import serve as run
    from nmt.serve.settings import Limits, ServerSettings

    limits = Limits(
        characters=options["max_characters"],
        texts=options["max_texts"],
        alternatives=options["max_alternatives"],
        requests_per_minute=options["requests_per_minute"],
        body_bytes=options["max_body"],
        file_bytes=options["max_file"],
        seconds=options["timeout"],
        file_seconds=options["file_timeout"],
        waiting=options["max_waiting"],
    )
    run(
        ServerSettings(
            models=tuple(map(Path, models)),
            host=options["host"],
            port=options["port"],
            threads=usable_threads(options["threads"]),
            checkpoint=options["checkpoint"],
            compute_dtype=options["compute_dtype"],
            shortlist=options["shortlist"],
            cells=tuple(options["cells"]),
            split=options["split"],
            log_texts=options["log_texts"],
            limits=limits,
            keys=options["keys"],
        )
    )
