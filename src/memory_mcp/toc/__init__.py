"""Here is a month, give me its weeks."""
