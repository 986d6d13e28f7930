"""Machine code made beforehand: what usual models run, for a processor's store or for the wheel."""
