"""What a capture is as tables: columns, the rows that exchanges and whole captures give, the folder they go to.

:mod:`.schema` says what there is, :mod:`.exchange_rows` makes the rows of single exchanges, :mod:`.whole_rows` those of
groups, connections and findings, :mod:`.folder` writes them as Parquet, :mod:`.single` does all of it in one process.
Nothing here imports pyspark; pyarrow is imported when rows are made.
"""
