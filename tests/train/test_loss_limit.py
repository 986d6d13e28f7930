"""The loss above which a training has diverged."""

import numpy as np
import pytest

from nmt.train.updates.update import LossLimit


def test_a_loss_is_broken_above_the_limit_or_if_it_is_no_number() -> None:
    limit = LossLimit(1000)
    assert limit.nats == pytest.approx(3 * np.log(1000)) and LossLimit(9).nats == 20, "three times guessing, or 20 nats"
    assert [limit.is_broken(nll) for nll in (0.0, limit.nats, np.nextafter(limit.nats, np.inf), np.inf, np.nan)] == [
        *(False, False, True, True, True)
    ]
