"""Where a store's rows are kept, by a budget of bytes, and batches prefetched from there."""
