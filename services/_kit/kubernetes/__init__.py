"""A thin client of the Kubernetes API: credentials, requests, lists, and the fields we read.

Services use it from `collector/kubernetes.py` and `actuator/kubernetes.py`. It knows no rule of
ours: which objects are read and what a number of theirs means is decided there.
"""
