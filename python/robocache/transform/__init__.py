"""Rotations in other forms, relative poses, deltas; and transforms of batches over them."""
