"""An estimate of how good a controller could be that knew the future of its world.

`need` computes the pods of every minute, `nodes` when to request nodes, `controller` the plans.
Only comparisons import it; it reads the simulator's state, which no real controller may.
"""
