"""Models on disk: folders, bundles and checkpoints, checked when they are read, written completely or not at all."""
