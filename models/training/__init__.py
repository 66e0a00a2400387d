"""Training of policies in the simulator; only this package and the forecaster's import torch.

`args.py` has every setting, `reward.py` what is rewarded, `rollouts.py` plays worlds, `ppo.py`
learns from them, `export.py` writes what ships. Nothing that runs in production imports it.
"""
