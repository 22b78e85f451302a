"""A trial of other keyword engines in the place of ours: the same terms, boosts and layers, other postings and scores."""
