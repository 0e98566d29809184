"""The HTML page of `atoll report`."""

import html


class Report:
    """A page of curves and tables that notebooks show inline. `path` is its file."""

    def __init__(self, path, height=900):
        self.path = path
        self.height = height

    @property
    def html(self):
        with open(self.path, encoding="utf-8") as file:
            return file.read()

    def _repr_html_(self):
        # A frame of its own: the page's styles are not the notebook's.
        return (f'<iframe srcdoc="{html.escape(self.html)}" title="Atoll report" '
                f'style="width:100%;height:{self.height}px;border:0"></iframe>')

    def __repr__(self):
        return f"Report({self.path!r})"
