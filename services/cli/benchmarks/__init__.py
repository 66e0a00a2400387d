"""`hirl bench sim`, `bench decisions` and `bench path`: options and tables of speed measurements.

The measurements are in `models.compare.speed` and `services.measure`.
"""
