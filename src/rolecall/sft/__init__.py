"""TrainingProgram data: the very requests that inference sends, with the answer where the model would speak."""
