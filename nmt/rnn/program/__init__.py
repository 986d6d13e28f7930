"""Programs that run a translation without Python: what they are made of, and how plans become steps of them."""
