"""`hirl up`, `hirl status` and `hirl down`: the options of a system, its live view and its tables.

Starting, supervising and stopping are in `services.devcluster`.
"""
