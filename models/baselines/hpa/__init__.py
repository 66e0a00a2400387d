"""The Horizontal Pod Autoscaler (autoscaling/v2) as Kubernetes 1.36 computes it.

The rules exist once, as kernels: `replica_calculator`, then `window` or `behaviour`. `simulated`
runs them over all apps of a world, `recommend` and `golden` over one app at a time.
"""
