"""Backs up, restores and exchanges a memory, and the jobs that keep it in order."""
