"""The commands of a team: `admin team` and `share`."""
