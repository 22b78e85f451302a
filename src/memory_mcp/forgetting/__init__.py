"""What was said is to be gone, from everything that is kept of it."""
