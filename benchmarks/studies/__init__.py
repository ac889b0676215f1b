"""Questions that no paper answers, one script each."""
