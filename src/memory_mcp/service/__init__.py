"""One owner of the store and its many clients: the daemon, and what connects to it."""
