"""What the compiler makes of a cell, to read: `python -m nmt.rnn.show CELL`.

`naming.py` names values, `reading.py` lists what a plan computes where, `text.py` and `picture.py` write it, and
`loading.py` finds the cell.
"""
