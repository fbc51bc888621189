def meta_template(name): raise KeyError(name)
