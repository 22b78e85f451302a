"""Topics: segments that are about the same, what they are called, and how they lie to each other."""
