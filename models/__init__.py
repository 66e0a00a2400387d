"""Numbers in, numbers out: all arithmetic, on arrays with a leading environment axis.

What production runs: `cluster` (what a cluster is, real or simulated), `features`, `forecaster`
and `control` (what the product decides by). What simulates and compares: `sim` (the simulated
cluster), `baselines`, `compare`, `validate` and `environments` (Gymnasium). Shared: `inputs` (files
that people write), `jit` and `statistics`. Models import `schemas` at most, never `services`.
"""
