"""The loader: whole training batches from an episode store, one launch each."""
