"""Images of the loader's batches: options of users, and the step that makes the images."""
