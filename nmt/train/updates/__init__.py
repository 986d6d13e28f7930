"""One update: gradients, optimizer, schedule, training objectives."""
