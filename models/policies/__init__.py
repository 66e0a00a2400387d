"""Learned policies: what a network gets and gives, and how its answer becomes a residual.

Training, evaluation and serving share these files, so a policy sees and moves the same in all
three. Nothing here imports torch; only `artefact.py` imports onnxruntime.
"""
