"""A folder of tables as one self-contained page of pictures, with the SQL that made each of them.

:func:`report` makes the page. :mod:`.statements` has the SQL, which DuckDB runs here (:mod:`.database`) and Spark SQL
takes as well; sections (:mod:`.section`) make pictures (:mod:`.plots`) and tables of what it returns.
"""

from captures.export.report.database import DuckdbMissing, ReportError
from captures.export.report.page import GENERATOR, report

__all__ = ["GENERATOR", "DuckdbMissing", "ReportError", "report"]
