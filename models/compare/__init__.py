"""Comparison of controllers: the catalogue of entrants, benchmarks, races and tuning.

`catalogue` names the entrants, `jobs` and `workers` run them on all cores, `standings` compares
them seed by seed, `race` advances them in lock-step, `calibrate` tunes them. `models.validate`,
`models.environments` and `services` may import it; `models.control` and what it is built on must
not. It never prints.
"""
