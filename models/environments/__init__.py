"""Gymnasium environments to train policies in, and the adapters that run policies as controllers.

Training code and `hirl bench control` import this package; nothing that the product runs does. An
adapter defines once what a policy observes and what its actions mean; environments and entrants
share it. Adapters and entrants must not import gymnasium: the benchmark runs without it.
"""
