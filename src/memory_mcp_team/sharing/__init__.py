"""Shares chosen projects with a space of a team's server, and takes in what others shared there."""
