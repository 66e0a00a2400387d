"""`hirl simulate` and `hirl world`: one simulated run, and the simulated cluster itself.

Simulation is in `models.sim`, validation in `models.validate`, failure modes in `models.compare`.
"""
