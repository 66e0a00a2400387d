"""The trained network as it is served: inputs, ONNX session, calibration and fallback.

Services and scoring import it. It must not import torch (the network is an ONNX file), the
simulator, or the folders that train and score. Only `artefact.py` imports onnxruntime; import it
lazily where the network is optional.
"""
