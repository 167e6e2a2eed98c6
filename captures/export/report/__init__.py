"""A report on a folder of tables: one self-contained page of pictures and tables, with the SQL behind each of them.

:func:`report` returns the page. :mod:`.statements` has the SQL, which runs in DuckDB here (:mod:`.database`) and also
in Spark SQL; sections (:mod:`.section`) turn its results into pictures (:mod:`.plots`) and tables.
"""

from captures.export.report.database import DuckdbMissing, ReportError
from captures.export.report.page import GENERATOR, report

__all__ = ["GENERATOR", "DuckdbMissing", "ReportError", "report"]
