"""Samples of a loader: episodes, anchors, their order, and its state."""
