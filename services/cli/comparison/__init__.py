"""`hirl bench control`, `hirl race`, `hirl calibrate` and `hirl hpa`: controllers compared.

Jobs, races, statistics and tuning are in `models.compare`; here are options, tables and reports.
"""
