"""The `hirl` command: argument parsing and printing, nothing else.

`commands.py` lists every command with the module that holds it; each folder is a group of
commands with its tables, plots, reports and live views. What a command does is in `models` or in
the tools `services.admin`, `services.devcluster` and `services.measure`. Nothing imports this
package.
"""
