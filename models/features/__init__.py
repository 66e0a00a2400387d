"""What a controller sees: features of apps, tier groups, domains, pools and the cluster.

`table` declares every feature once, `encode` computes them from an observation, the inventory and
its own memory. Controllers, services, environments and training import this package, so that all
of them see the same numbers. It reads nothing but its inputs and never imports the simulator.
"""
