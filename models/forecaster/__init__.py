"""Demand forecasts for the next half hour.

The modules of this folder and `learned/` serve forecasts: the forecaster service and every
controller may import them. They must not import the simulator, and nothing here reads files of
traffic, trains or scores: that is what `data/`, `simulated/`, `training/` and `score/` are for.
Start with `port.py`; `seasonal.py` and `calendar.py` are the forecasters without training.
"""
