"""One memory for many people: who they are, and what they may do."""
