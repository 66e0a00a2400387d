"""The circuit breaker's rules: stop changes when reality disagrees with the plan.

`limits` has the thresholds by priority, `readings` and `changes` what a tick shows, `phases` the
state machine, `cluster` the rules for all domains together, `actions` what the actuator may do.
`guard` runs them all on the plans of a simulated cluster.
"""
