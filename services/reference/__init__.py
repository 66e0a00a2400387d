"""Generates docs/reference from the code: `make docs` writes it, a test fails when it is stale.

One module per kind of page; `pages.py` lists them. It may read every package, the command line
included; no other package imports it.
"""
