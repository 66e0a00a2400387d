"""The simulated cluster: apps, pods, nodes, traffic and faults, advanced in 10 s ticks.

`world.World` is the entry point. `config` reads the physics and scenario files, `population`
generates the apps, `results` summarises and records runs; the other modules are the mechanisms of
a tick, called in the order of `tick.py`. Only the simulated cluster, comparisons, baselines,
learning environments, the forecaster's training data and oracles, measurements and the command
line may import this package: production services must run without it. It must not import any
controller or service, and its kernels do no IO.
"""
