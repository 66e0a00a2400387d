"""What a run amounts to: figures, recordings, and the failures found in them.

These modules read the true state of a world, so no controller may import them. They change
nothing in it. Reports, comparisons, live views and learning environments use them.
"""
