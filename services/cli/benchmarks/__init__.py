"""`hirl bench sim`, `decisions`, `path` and `size`: options and tables of speed measurements.

The measurements are in `models.compare.speed` and `services.measure`.
"""
