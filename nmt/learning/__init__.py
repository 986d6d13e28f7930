"""Learning from corrections: a memory of pairs, and models that learn each of them at once (docs/learning.md)."""
