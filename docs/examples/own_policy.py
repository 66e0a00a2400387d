"""A policy of your own in the benchmark, without a learning library.

    PYTHONPATH=docs/examples hirl bench control --controllers \
        hpa-calibrated,heuristic:calendar,own_policy:cautious --quick

It steers the Commander: once a minute it gets what the Commander observes and answers with
a factor on each domain's headroom and urgency. Zeros are the plain heuristic, and budgets, blast
radius and the rules for missing data hold whatever it answers.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from models.environments.entrants import commander_entrant
from models.features.table import DOMAIN, domain_columns

DOMAINS = 5
"""Of the example cluster. Another number of domains is another observation."""
GROWTH = DOMAIN.at("rps_trend")
"""Column of a domain's row: traffic over its mean of five minutes, minus 1."""


class Cautious:
    """Asks for headroom where traffic grows, before a forecast would."""

    def predict(
        self, observation: npt.NDArray[np.float32], /, *, deterministic: bool
    ) -> tuple[npt.NDArray[np.float32], Any]:
        """Answer one observation with one action, as Stable-Baselines3's models do."""
        del deterministic  # it always is
        # The rows of the domains come first, then pools and the cluster.
        width = len(domain_columns(DOMAINS))
        domains = observation[: DOMAINS * width].reshape(DOMAINS, width)
        # Growth of 10 % asks for a fifth of the largest factor, 1.5 at 50 %.
        headroom = np.clip(2 * domains[:, GROWTH], 0, 1)
        urgency = np.zeros(DOMAINS)
        return np.concatenate((headroom, urgency)).astype(np.float32), None


cautious = commander_entrant(Cautious())
