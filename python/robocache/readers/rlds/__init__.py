"""RLDS data sets, without TensorFlow."""
