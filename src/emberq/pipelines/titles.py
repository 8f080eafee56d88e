"""One line about each job, readable without Spark or Arrow."""

TITLES = {
    "archive": "topics into a table, each message once",
    "compact": "small files into larger ones, old ones away",
    "replay": "an archive back into topics",
    "transform": "topics through SQL into a topic",
    "stats": "throughput, sizes and latencies over time",
    "dlq": "dead letters: what they are, and back to their topics",
    "trace": "the way of messages: latencies, and who lacks which",
    "lag": "how far groups are behind",
    "verify": "whether an archive has what the topics have",
}
