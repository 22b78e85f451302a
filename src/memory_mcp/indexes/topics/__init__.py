"""The topic graph: which segments are about the same, and what that is called."""
