"""A session of its own process, as a new user starts it."""

import json
import os
import subprocess
import sys

from tests.spark.cluster import Topics
from tests.spark.session import SETTINGS

SCRIPT = """
import json, sys
import emberq.spark

address, topic, conf = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
spark = emberq.spark.local_session("local[2]", conf)
rows = spark.read.format("rocketmq").option("nameServer", address).load(topic)
for _ in range(3):
    rows.select("queueOffset").show(2)
for _ in range(5):
    stream = spark.readStream.format("rocketmq").option("nameServer", address).load(topic)
    stream.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination()
print(f"rows={rows.count()} zone={spark.conf.get('spark.sql.session.timeZone')}")
spark.stop()
"""
START_TIMEOUT_S = 200
# Far more than what Spark takes before it has two of them.
COUNT, BODY = 40_000, b"b" * 100
BATCH = 4_000


def test_queries_that_have_enough_and_streams_that_end_leave_no_trace(topics: Topics) -> None:
    topic = topics.make(queues=1)
    for _ in range(COUNT // BATCH):
        topics.send(topic, [BODY] * BATCH)
    address = topics.cluster.name_server
    words = [sys.executable, "-c", SCRIPT, address, topic, json.dumps(SETTINGS)]
    # What other tests set is not what a user has.
    environ = {key: text for key, text in os.environ.items() if not key.startswith("PYSPARK")}

    done = subprocess.run(
        words, env=environ, capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("only showing top 2 rows") == 3
    assert f"rows={COUNT} zone=UTC" in done.stdout
    assert "Traceback" not in done.stderr
