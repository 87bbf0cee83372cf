"""JPEG frames: files, their decoding and encoding, and the indices that GPUs need."""
