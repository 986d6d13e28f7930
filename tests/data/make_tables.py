"""Make tables by the programs that people have: `python tests/data/make_tables.py FOLDER` needs pandas, openpyxl, odfpy
and LibreOffice (soffice). With what nmt-train says of them, they are no part of the tests."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path

from people_tables import BY_HAND, PAIRS

_CSV = "Text - txt - csv (StarCalc)"
_BY_OFFICE = (
    ("comma.csv", "office-from-csv.xlsx", "Calc MS Excel 2007 XML"),
    ("comma.csv", "office-from-csv.ods", "calc8"),
    ("comma.csv", "old-excel-renamed.xlsx", "MS Excel 97"),
    ("pandas-index.xlsx", "office-index.csv", f"{_CSV}:44,34,76"),
    ("pandas-index.xlsx", "office-semicolon-all-quoted.csv", f"{_CSV}:59,34,76,1,,0,true"),
    ("line-breaks.xlsx", "office-line-breaks.tsv", f"{_CSV}:9,34,76"),
    ("line-breaks.xlsx", "office-line-breaks.ods", "calc8"),
    ("line-breaks.xlsx", "office-cp1252.csv", f"{_CSV}:44,34,1"),
    ("line-breaks.xlsx", "office-utf16.tsv", f"{_CSV}:9,34,UNICODE"),
    ("sheets.xlsx", "office-sheets.ods", "calc8"),
    ("formulas-by-openpyxl.xlsx", "office-formulas.xlsx", "Calc MS Excel 2007 XML"),
    ("kinds.xlsx", "office-kinds.ods", "calc8"),
)
"""File, new file, and filter of LibreOffice."""


def make(folder: Path) -> None:
    """Write all tables into a folder."""
    import openpyxl
    import pandas

    for name, content in BY_HAND.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    frame = pandas.DataFrame(PAIRS, columns=["Cherokee", "English"])
    frame.to_csv(folder / "pandas-index.csv")
    frame.to_csv(folder / "pandas-all-quoted.csv", index=False, quoting=csv.QUOTE_ALL)
    frame.to_csv(folder / "pandas-tabs.tsv", index=False, sep="\t")
    frame.to_csv(folder / "pandas-escaped.csv", index=False, doublequote=False, escapechar="\\")
    frame.to_csv(folder / "pandas.csv.gz", index=False)
    frame.to_excel(folder / "pandas-index.xlsx")
    frame.to_excel(folder / "pandas-no-heading.xlsx", index=False, header=False)
    frame.to_excel(folder / "pandas.ods", index=False)
    texts = [(a, b.replace(" ", "\n", 1) if n == 7 else b) for n, (a, b) in enumerate(PAIRS)]
    days = [(date(2020, 1, 1 + n % 28), n, n % 2 == 0, a, b) for n, (a, b) in enumerate(PAIRS)]
    sheets = {
        "line-breaks": {"S": [("Cherokee", "English"), *texts]},
        "sheets": {"One": PAIRS[:60], "Two": PAIRS[60:], "Empty": []},
        "kinds": {"S": [("when", "n", "checked", "Cherokee", "English"), *days]},
        "formulas-by-openpyxl": {
            "S": [(a, f'=CONCATENATE("{b[:9]}","!")' if n > 60 else b) for n, (a, b) in enumerate(PAIRS)]
        },
        "titles": {"S": [("My dictionary, 2024",), (), ("Cherokee", "English"), *PAIRS]},
        "merged-titles": {"S": [("My dictionary, 2024",), ("Cherokee", "English"), *PAIRS]},
    }
    for name, rows_of in sheets.items():
        book = openpyxl.Workbook()
        book.remove(book.active)
        for sheet, rows in rows_of.items():
            page = book.create_sheet(sheet)
            for row in rows:
                page.append(row)
            if name == "merged-titles":
                page.merge_cells("A1:B1")
        book.save(folder / f"{name}.xlsx")
    for old, new, how in _BY_OFFICE:
        place = folder / "office"
        filter_name = f"{Path(new).suffix[1:].replace('tsv', 'csv')}:{how}"
        if how == "MS Excel 97":
            filter_name = f"xls:{how}"
        home = f"-env:UserInstallation=file://{folder.resolve()}/home-{new}"
        order = [
            "soffice",
            home,
            "--headless",
            "--infilter=CSV:44,34,76" if old.endswith("csv") else "--nologo",
            "--convert-to",
            filter_name,
            "--outdir",
            str(place),
            str(folder / old),
        ]
        subprocess.run(order, check=True, capture_output=True, timeout=120)
        (made,) = place.iterdir()
        shutil.move(made, folder / new)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
