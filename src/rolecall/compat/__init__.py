"""What knows another system by name: OpenCompass, AISBench, lm-evaluation-harness, LazyLLM, promptfoo, benchmarks."""
