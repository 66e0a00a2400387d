"""Forecasting inside the simulator: oracles, a world's past and future, months to learn from.

The only folder of the forecaster that imports `models.sim`, together with `training/`, which uses
it. Comparisons, environments and the simulated cluster import it; no other service may.
"""
