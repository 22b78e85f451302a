"""Who uses the memory of a team, and what they may do."""
