"""The tree of time: years, months, weeks, days and segments, built from events."""
