"""Title, bullets and keywords of stretches and periods."""
