"""A broker under load beside the official one: sends, batches, pulls, pushes, many topics."""
