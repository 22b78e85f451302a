"""What `doctor` looks at: one module per subject, in the order of `registry`."""
