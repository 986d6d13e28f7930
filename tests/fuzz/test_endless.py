"""A reader that never ends is found by each fuzzer, even if it takes the interruption for an error of a file."""

import subprocess
import sys

READER = """
import sys
from nmt.errors import DataError

def endless(*given):
    try:
        while True:
            pass
    except OSError as error:
        raise DataError("a: cannot be read") from error
"""
BY_SYSTEM = """
from tests.fuzz import imports

imports.import_model, imports._SECONDS = endless, 2
sys.argv = ["imports", "--share", "marian", "0", "1", sys.argv[1]]
sys.exit(imports.main())
"""


def outcome(script, folder):
    """Return the exit code of a fuzzer with the planted reader, and what it reported."""
    done = subprocess.run([sys.executable, "-c", READER + script, str(folder)], capture_output=True, text=True)
    return done.returncode, done.stderr


def test_an_endless_reader_of_models_is_found(tmp_path):
    code, report = outcome(BY_SYSTEM, tmp_path)
    assert code and "no end after 2 seconds" in report
