"""Images as policies take them: resized, cropped, normalized and augmented in the batch."""
