"""How good forecasts are: windows, metrics, peer models and published protocols.

The command line and training import it. It judges models as they are served and must not import
torch or the simulator; libraries of peer models are imported when they are fitted.
"""
