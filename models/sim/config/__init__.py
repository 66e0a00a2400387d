"""The simulator's input files: physics, scenarios and recorded traces.

`physics.py` and `scenario.py` read and check the files, once; the code behind them relies on that.
`compile.py` turns a scenario into arrays (`script.py`) that the kernels loop over. Everything in
`models.sim` may import this package. It must not import the simulator's state or mechanisms.
"""
