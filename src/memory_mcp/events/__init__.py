"""Here is a grip, give me what was said; and: here is what was said, keep it."""
