"""Obeys the Commander's node requests on a real cluster: room that the cluster's autoscaler fills.

It never starts or removes a node itself. `targets.py` cuts the requests of all pools, `decide.py`
keeps the standing ones, `capacity.py` is the port, and `kubernetes.py` holds room there.
"""
