"""Training of the learned forecaster, from a corpus of series to a folder that can be served.

Only the command line imports it, inside the commands that need it: this is the only folder that
imports torch, and services run without torch. `args.py`, `corpus.py`, `pool.py`, `corrector.py`
and `leakage.py` work without it.
"""
