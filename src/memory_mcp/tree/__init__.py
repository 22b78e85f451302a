"""Makes the time tree from events: cuts segments, summarizes them, keeps the periods above."""
