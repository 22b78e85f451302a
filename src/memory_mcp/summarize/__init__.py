"""Here is a stretch, give me title, bullets, keywords."""
