"""LSTM and GRU layers as one launch each: a block keeps its share of the recurrent weights in registers through all
steps, and blocks exchange states through the GPU's shared cache.
"""
