"""
What a change in Git will do: the folders it reaches, the objects it changes there, their classes and effects.

Pure: two trees go in, a report comes out. No cluster, no credentials, nothing of the change is executed.
"""
