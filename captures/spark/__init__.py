"""The pipeline on Spark: captures of any size become tables, on this machine or on a cluster."""
