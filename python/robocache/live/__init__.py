"""Windows at control time: the LiveAligner, and recordings replayed through it."""
