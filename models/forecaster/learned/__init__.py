"""The trained network as it is served: inputs, ONNX session, calibration and fallback.

Services and scoring import it. It must not import torch (the network is an ONNX file), the
simulator, or the folders that train and score; onnxruntime is imported by `session.py` only, so
that a service without a network doesn't load it.
"""
