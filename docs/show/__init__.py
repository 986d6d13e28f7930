"""Reports on what the compiler makes of a cell: `python -m docs.show CELL`.

`naming.py` names values, `reading.py` lists the work of a plan, `text.py` and `picture.py` render it, and
`loading.py` finds the cell.
"""
