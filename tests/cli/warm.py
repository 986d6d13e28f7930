"""What every command with the fake model imports; imported by the process from which commands are forked."""

import sys

from tests.train import fake_model

sys.modules.update(fake_model.modules())

import nmt.cli.commands.evaluate  # noqa: E402
import nmt.cli.commands.score  # noqa: E402
import nmt.cli.commands.train  # noqa: E402
import nmt.cli.commands.translate  # noqa: E402
import nmt.inference.translator  # noqa: E402
import nmt.train.run.trainer  # noqa: E402, F401
