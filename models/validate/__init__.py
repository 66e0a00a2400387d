"""Validation of the simulated world: checks against theory, real tables and its own invariants.

Only `services.cli` and tests import it. It drives worlds with controllers from `models.compare`,
which `models.sim` must not know, and it is not part of the world's fingerprint; so it lives
outside the simulator. It changes nothing in a world and prints nothing: it returns sections with
checks, tables and plot functions.
"""
