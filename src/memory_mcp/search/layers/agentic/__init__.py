"""Layer 2: term matching over the tree. Needs no index and is never unavailable."""
