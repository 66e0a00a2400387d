"""What the product decides by, as arithmetic on arrays with a leading environment axis.

`demand` estimates each app's load, `soldiers` turn it into a plan (with `sizing` for what an app
needs and `safety` for what may be applied), `commander` divides capacity into budgets, and
`breaker` decides when to stop. `hierarchy` runs them in one process; services run them apart.
Services, baselines, comparisons and environments import this package. It does no IO and never
imports the simulator, a baseline or a comparison: it has to run on a real cluster.
"""
