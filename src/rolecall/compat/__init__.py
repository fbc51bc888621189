"""What knows another system by name: lm-evaluation-harness, OpenCompass, AISBench, and benchmarks in their wordings."""
