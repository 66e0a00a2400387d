"""`hirl forecast`, `bench forecast`, `bench published`, `train` and `world months`.

Models, training and scoring are in `models.forecaster`; here are options, tables and reports.
"""
