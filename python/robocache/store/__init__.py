"""The episode store: a folder of recordings, each stream with its own times.

Nothing here imports torch.
"""
