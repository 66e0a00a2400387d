"""What a cluster is, real or simulated: its description, inventory, observations and plans.

Everything may import this package. It knows no service, controller or simulator, and depends only
on `models.inputs` for reading files and on `schemas.metrics_sampled` for the names of the columns.
"""
