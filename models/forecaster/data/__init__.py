"""Files of recorded traffic and calendars, read into series on an axis of minutes.

Scoring, training and the command line import it. It needs pyarrow, which it imports when a file
is read; it must not import the simulator or a model.
"""
