"""From predictions to numbers: postprocessors, metrics, intervals and comparisons."""
