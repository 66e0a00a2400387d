"""Files that users write: reading, validation, and errors that say what to fix.

Everything that reads a user's file imports this package. It knows nothing about what the files
describe and imports no other package of the project.
"""
