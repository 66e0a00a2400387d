"""The second world: a scenario's traffic meets pods that a real control plane runs.

Replicas, pods and their places are Kubernetes': its API server, Deployment controller, scheduler
and HPA controller. `load.py` computes with the simulator's traffic and queues what the pods that
are ready there serve. `kubelets.py` and `nodes.py` play what a machine cannot have: containers and
a cloud. `play.py` puts it together, `report.py` counts.
"""
