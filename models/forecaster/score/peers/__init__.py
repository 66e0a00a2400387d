"""Models that the learned forecaster is compared with, each fitted on one series.

Only `models.forecaster.score` and the command line import it. lightgbm and statsforecast are
optional: a peer imports its library when it is fitted.
"""
