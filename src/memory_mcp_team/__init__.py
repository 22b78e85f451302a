"""One memory for many people: who they are, what they may do, and the server that answers them."""
