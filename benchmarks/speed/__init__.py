"""What takes time, and how much of it."""
