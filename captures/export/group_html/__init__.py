"""Groups over time as one self-contained page: a picture of the members, the stories of rebalances, and tables.

The page needs no network and no script; it follows the reader's light or dark theme, and can be printed.
"""

from captures.export.group_html.page import page

__all__ = ["page"]
