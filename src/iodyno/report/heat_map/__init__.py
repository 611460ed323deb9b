"""Heat maps: a grid as a picture (SVG, PNG, page, terminal) and as sentences. Nothing heavy is imported here."""
