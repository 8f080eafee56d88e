"""Jobs on Spark, ready to run: archives, transformations, statistics, dead letters, checks."""
