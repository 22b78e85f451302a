"""The topic graph: which segments are about the same, what that is called, and how one thing leads to another."""
