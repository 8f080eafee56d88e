"""The hint that official brokers add to some remarks."""

FAQ_HINT = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
