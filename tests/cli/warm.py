"""What every command with the fake model imports; imported by the process from which commands are forked."""

import sys

from tests.train import fake_model

sys.modules.update(fake_model.modules())

import nmt.cli.evaluate  # noqa: E402
import nmt.cli.score  # noqa: E402
import nmt.cli.train  # noqa: E402
import nmt.cli.translate  # noqa: E402
import nmt.inference.translator  # noqa: E402
import nmt.train.trainer  # noqa: E402, F401
