"""Whether a model that reads question and passage together puts more of what answers among the first ten."""
