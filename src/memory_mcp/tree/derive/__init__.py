"""New events in, the time tree out: segments, nodes, grips, terms, and the periods above them."""
