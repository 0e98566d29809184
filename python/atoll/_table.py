"""Columns of equal length."""

import html
from collections.abc import Mapping

import numpy as np


class Table(Mapping):
    """A mapping of column names to NumPy arrays of equal length. Notebooks show it as a table.

    pandas.DataFrame, polars.DataFrame and matplotlib accept `dict(table)`.
    """

    SHOWN = 20  # rows

    def __init__(self, columns):
        self._columns = {name: np.asarray(column) for name, column in columns.items()}
        lengths = {len(column) for column in self._columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"columns have different lengths: {sorted(lengths)}")
        self._length = lengths.pop() if lengths else 0

    @classmethod
    def from_records(cls, records):
        """A table with one row per dictionary. Missing values are NaN (None in columns of text)."""
        names = list(dict.fromkeys(name for record in records for name in record))
        columns = {}
        for name in names:
            values = [record.get(name) for record in records]
            numeric = all(value is None or isinstance(value, (int, float)) for value in values)
            if numeric and any(value is None for value in values):
                values = [np.nan if value is None else value for value in values]
            columns[name] = np.array(values) if numeric else np.array(values, dtype=object)
        return cls(columns)

    @property
    def columns(self):
        return list(self._columns)

    @property
    def rows(self):
        return self._length

    def __getitem__(self, name):
        try:
            return self._columns[name]
        except KeyError:
            raise KeyError(f"there is no column {name!r}; there are {', '.join(self._columns)}"
                           ) from None

    def __iter__(self):
        return iter(self._columns)

    def __len__(self):
        return len(self._columns)

    def to_pandas(self):
        """The table as a pandas.DataFrame. Needs pandas."""
        import pandas
        return pandas.DataFrame(self._columns)

    @staticmethod
    def _text(value):
        return f"{value:.6g}" if isinstance(value, (float, np.floating)) else str(value)

    def _shown(self):
        """Numbers of the rows to show; None stands for those between."""
        if self._length <= self.SHOWN:
            return list(range(self._length))
        half = self.SHOWN // 2
        return [*range(half), None, *range(self._length - half, self._length)]

    def __repr__(self):
        lines = [self.columns]
        for row in self._shown():
            lines.append(["..." if row is None else self._text(column[row])
                          for column in self._columns.values()])
        widths = [max(len(line[k]) for line in lines) for k in range(len(self._columns))]
        shown = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in lines]
        return "\n".join([*shown, f"({self._length} rows)"])

    def _repr_html_(self):
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self._columns)
        body = ""
        for row in self._shown():
            cells = "".join(
                f"<td>{'…' if row is None else html.escape(self._text(column[row]))}</td>"
                for column in self._columns.values())
            body += f"<tr>{cells}</tr>"
        return (f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
                f"<p>{self._length} rows</p>")
