"""Parts of a model: encoders, decoders, bridge, positions, masks."""
