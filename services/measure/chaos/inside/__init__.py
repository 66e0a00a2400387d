"""Code that runs inside each service under test, without a change to the service.

This folder is in the PYTHONPATH of the services that `hirl chaos` starts, so Python imports
`sitecustomize` at the start of each process. Nothing else may import it, and it imports nothing of
the project: the process may run the code of another release.
"""
