"""Fine-tuning of a local model on the prompts that inference sends: `tune.tune` tells the whole story."""
