"""One owner, any number of clients: the background process behind every door."""
