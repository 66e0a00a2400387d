"""The Horizontal Pod Autoscaler (autoscaling/v2) as Kubernetes 1.36 computes it.

The rules stand once, as kernels: `replica_calculator` and `window` or `behaviour` after it.
`simulated` runs them over all apps of a world, `recommend` and `replay` over one app at a time.
"""

from models.baselines.hpa.simulated import Hpa as Hpa
from models.baselines.hpa.simulated import HpaState as HpaState
