"""Files and dicts in, objects out: configs in the documents' syntax, understood and checked."""
