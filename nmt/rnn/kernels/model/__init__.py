"""Kernels around the recurrence: embedding, output layer, softmax, optimizer."""
