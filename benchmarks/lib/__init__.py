"""What several scripts share."""
