"""OpenCompass and AISBench: the names their configs use, and parts of an installed package used as they are."""
