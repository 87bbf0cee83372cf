"""Normalization outside of the loader: forward, back, and where its numbers come from."""
