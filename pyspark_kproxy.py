"""What Spark looks for: it registers ``DefaultSource`` of installed modules ``pyspark_*`` by itself."""

from captures.spark.source import KafkaCaptures as DefaultSource

__all__ = ["DefaultSource"]
