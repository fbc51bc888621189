"""Where rows and settings come from: files, configs, datasets and retrievers."""
