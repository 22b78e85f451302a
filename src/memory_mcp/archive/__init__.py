"""Files that a memory is carried in: backups, and what is built on them."""
