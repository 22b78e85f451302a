"""A project or a period as one HTML file that reads, unfolds and searches without anything else."""
