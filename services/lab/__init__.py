"""A real Kubernetes control plane on loopback, built from its Go modules: `hirl lab`.

`build.py` makes the programs once and keeps them; `controlplane.py` starts and stops etcd and the
API server. `services.cli` and tests use it; no service may import it.
"""
