"""The apps of a simulated cluster and the calls between them.

`generate.py` draws them from the physics file and `fitted.yaml`, once per cluster and seed of the
population. The `fit*` modules produce that file from public traces; only `hirl world fit` and the
validation import them, because they need pyarrow and scipy. Nothing here may import the
simulator's state or mechanisms.
"""
