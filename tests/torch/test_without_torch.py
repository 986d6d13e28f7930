"""nmt.torch where PyTorch is not installed."""

import subprocess
import sys


def test_the_error_says_in_one_line_how_to_install_it():
    code = "import sys; sys.modules['torch'] = None; import nmt; nmt.Translator; nmt.rnn.LSTM; import nmt.torch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == (
        "ImportError: nmt.torch: must have the package torch, got none; in the checkout of nmt run "
        "pip install -e '.[torch]'"
    )
