"""JPEG frames in the loader's batches: where they lie, and how they are decoded."""
