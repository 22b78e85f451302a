"""The background process that owns a data directory and serves any number of clients."""
