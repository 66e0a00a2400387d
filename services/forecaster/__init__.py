"""The forecaster: frames of all domains in, demand forecasts out (`decide.py`).

`model.py` builds models from the recorded history, `progress.py` holds what they remember. Only
tools that run all services in one process and tests import it; services meet on the bus. The
forecasting itself is in `models/forecaster`; nothing here may import torch.
"""
