"""Keep this, whatever happens: the stores behind protocols, and one engine that implements them."""
