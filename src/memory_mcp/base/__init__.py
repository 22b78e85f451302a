"""What every process needs: paths, errors, clocks, files that others wrote, metrics."""
