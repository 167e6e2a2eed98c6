"""A capture as tables: their columns, the rows from exchanges and whole captures, and the folder that holds them.

:mod:`.schema` declares the tables, :mod:`.exchange_rows` makes the rows of single exchanges, :mod:`.whole_rows` those
of groups, connections and findings, :mod:`.folder` writes them as Parquet, :mod:`.single` does all of it in one
process. Nothing here imports pyspark; pyarrow is imported when rows are made.
"""
