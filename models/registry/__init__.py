"""Model artefacts: what one is, who vouches for it, and how it becomes a session.

Nothing in an artefact is executed, and its graph is not even parsed, before its files match their
digests and its version is signed by a trusted key or pinned in this package. Then the graph may
hold nothing but known operators. `load.py` has the order of the checks.
"""
