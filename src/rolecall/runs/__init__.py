"""Running it: plan, engine, store, resume."""
