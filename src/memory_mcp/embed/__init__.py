"""Turn texts into vectors of their meaning with local static models."""
